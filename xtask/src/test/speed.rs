//! The machine's own speed, for limits on waiting.

use std::{
    hint::black_box,
    num::NonZeroUsize,
    thread,
    time::{Duration, Instant},
};

/// The steps of a piece of work, and the time that an idle machine of the usual kind takes for them.
const STEPS: u64 = 5_000_000;
const USUAL: Duration = Duration::from_millis(40);

/// The number of pieces, one after another: a neighbour shows in most of them.
const PIECES: usize = 5;

/// The largest factor. For an emulated machine, `SHUNT_PATIENCE` has a larger one.
const LIMIT: u32 = 20;

/// Measures how many times slower than a usual machine this one is now, with all its processors at
/// work; at least 1.
pub(super) fn slowness() -> u32 {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut times: Vec<Duration> = thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(pieces)).collect();
        let times = workers.into_iter().map(thread::ScopedJoinHandle::join);
        // A worker only computes: it does not panic.
        times.flatten().flatten().collect()
    });
    times.sort_unstable();
    factor(times.get(times.len() / 2).copied().unwrap_or_default())
}

fn pieces() -> [Duration; PIECES] {
    [(); PIECES].map(|()| {
        let start = Instant::now();
        let mut state = 1_u64;
        for step in 0..STEPS {
            state = black_box(state).wrapping_mul(0x5851_f42d_4c95_7f2d) ^ step;
        }
        black_box(state);
        start.elapsed()
    })
}

/// Returns how many times as long as usual this is, rounded up.
fn factor(took: Duration) -> u32 {
    let ratio = took.as_millis().div_ceil(USUAL.as_millis());
    u32::try_from(ratio).unwrap_or(LIMIT).clamp(1, LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_machine_has_a_larger_factor() {
        assert_eq!(factor(Duration::ZERO), 1);
        assert_eq!(factor(USUAL), 1);
        assert_eq!(factor(USUAL * 5 / 2), 3);
        assert_eq!(factor(USUAL * 1000), LIMIT);
        assert!((1..=LIMIT).contains(&slowness()));
    }
}
