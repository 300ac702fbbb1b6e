//! The machine's load, which decides whether another case may begin beside those that run.

use std::{fs, thread, time::Duration};

/// The tasks for each processor that run or want to, above which no further case begins: with more, each test
/// only takes longer, and those that wait for the kernel wait too long.
const TASKS_A_PROCESSOR: usize = 2;

/// The number of looks at the load, and the pause before each: a case takes a moment to begin.
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until the processors have time for another case. `may_begin` ends the wait at once.
pub(super) fn wait(processors: usize, may_begin: impl Fn() -> bool) {
    while !may_begin() {
        let mut tasks = 0;
        for _ in 0..LOOKS {
            thread::sleep(PAUSE);
            // A machine that does not show its load has time.
            tasks += running().unwrap_or_default();
        }
        if tasks <= LOOKS * TASKS_A_PROCESSOR * processors {
            return;
        }
    }
}

/// Returns how many tasks run or want to, this one among them (proc_loadavg(5)).
fn running() -> Option<usize> {
    parse(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse(loadavg: &str) -> Option<usize> {
    let tasks = loadavg.split_whitespace().nth(3)?;
    tasks.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_tasks_are_those_before_the_slash() {
        assert_eq!(parse("0.54 4.10 8.60 3/412 5211\n"), Some(3));
        for text in ["", "0.54 4.10 8.60", "0.54 4.10 8.60 x/412 5211"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(running().is_some_and(|tasks| tasks > 0));
    }

    #[test]
    fn who_may_begin_does_not_wait() {
        wait(0, || true);
    }
}
