//! How much longer than here everything may take.

use std::{env, sync::LazyLock, time::Duration};

/// The variable that says how many times slower a machine is, which `cargo xtask test --kernel`
/// sets in one that is emulated.
const PATIENCE: &str = "SHUNT_PATIENCE";

/// How long one may wait on this machine for what takes at most `limit` on a usual one. For limits
/// on waiting alone: what a test says of a time that it measures is no such limit.
pub fn patience(limit: Duration) -> Duration {
    static FACTOR: LazyLock<u32> = LazyLock::new(|| factor(env::var(PATIENCE).ok().as_deref()));
    limit * *FACTOR
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
