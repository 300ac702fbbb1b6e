//! Limits on waiting, for machines that are slow or busy.

use std::{env, sync::LazyLock, time::Duration};

/// The variable with the number of times that a machine is slower than usual: `cargo xtask test`
/// measures it, and `--kernel` sets it for a machine that is emulated.
const PATIENCE: &str = "SHUNT_PATIENCE";

/// The factor on every machine. A limit on waiting costs nothing where the condition comes, and the
/// limits in the tests are what an idle machine needs.
const BUSY: u32 = 4;

/// Returns the time that a test may wait on this machine for an event that takes at most `limit` on an idle
/// one. It is for waits alone: a bound on a measured time is no such limit.
pub fn patience(limit: Duration) -> Duration {
    static FACTOR: LazyLock<u32> = LazyLock::new(|| factor(env::var(PATIENCE).ok().as_deref()));
    limit * *FACTOR * BUSY
}

/// The factor that the variable has: 1 if there is none, or none that makes sense.
fn factor(variable: Option<&str>) -> u32 {
    variable
        .and_then(|text| text.parse().ok())
        .filter(|factor| (1..=1000).contains(factor))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_number_makes_patient() {
        for (variable, expected) in [
            (None, 1),
            (Some("1"), 1),
            (Some("20"), 20),
            (Some("0"), 1),
            (Some("-3"), 1),
            (Some("much"), 1),
        ] {
            assert_eq!(factor(variable), expected, "{variable:?}");
        }
    }
}
