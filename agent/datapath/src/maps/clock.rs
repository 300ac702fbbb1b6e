//! The clock of the programs, which goes on without an agent: the kernel's jiffies.

use std::io;

use crate::{
    error::DatapathError,
    sys::jiffies::{self, Jiffies},
};

/// Number of jiffies in a tick, as a power of two.
const SHIFT: u32 = 6;

/// The clock that connections are dated by.
#[derive(Debug)]
pub(crate) struct Clock {
    jiffies: Jiffies,
    rate: Rate,
}

/// Rate of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Jiffies a second.
    pub(crate) hz: u32,
}

impl Rate {
    /// That of this kernel.
    pub(crate) fn of_kernel() -> Result<Self, DatapathError> {
        let hz = jiffies::per_second().map_err(DatapathError::Clock)?;
        Ok(Self { hz })
    }

    /// At least so many seconds, in ticks; no more than can be distinguished from a tick to come, since ticks
    /// wrap around.
    pub(crate) fn ticks(self, seconds: u32) -> u32 {
        let ticks = (u64::from(seconds) * u64::from(self.hz)).div_ceil(1 << SHIFT);
        u32::try_from(ticks).unwrap_or(u32::MAX).min(u32::MAX / 4)
    }

    /// So many ticks in whole seconds.
    pub(crate) fn seconds(self, ticks: u32) -> u32 {
        ((u64::from(ticks) << SHIFT) / u64::from(self.hz)) as u32
    }
}

impl Clock {
    /// This kernel's.
    ///
    /// # Errors
    ///
    /// If the kernel does not let us read it.
    pub(crate) fn open() -> Result<Self, DatapathError> {
        Ok(Self {
            jiffies: Jiffies::open().map_err(DatapathError::Clock)?,
            rate: Rate::of_kernel()?,
        })
    }

    /// Returns its rate.
    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }

    /// The tick, which wraps around: what connections are dated by.
    pub(crate) fn tick(&self) -> io::Result<u32> {
        Ok((self.jiffies.read()? >> SHIFT) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_no_shorter_than_the_seconds_that_they_are_for() {
        for (hz, seconds, ticks) in [
            (250, 1, 4),
            (250, 60, 235),
            (1000, 60, 938),
            (100, 3, 5),
            (300, 86_400, 405_000),
            (1000, u32::MAX, u32::MAX / 4),
        ] {
            let rate = Rate { hz };
            assert_eq!(rate.ticks(seconds), ticks, "{seconds} s at {hz} Hz");
        }
        assert_eq!(Rate { hz: 250 }.seconds(235), 60);
        assert_eq!(Rate { hz: 1000 }.seconds(u32::MAX), 274_877_906);
    }
}
