//! Duration of a test.

use std::env;

/// The variable that asks for long tests, which `cargo xtask test --long` sets.
const LONG: &str = "SHUNT_LONG";

/// Returns `short` for a test that has seconds, as in every run, or, if `SHUNT_LONG` is set to
/// anything but 0, `long` for the minutes that its full form takes.
pub fn by_length<T>(short: T, long: T) -> T {
    match env::var_os(LONG) {
        Some(value) if !value.is_empty() && value != "0" => long,
        _ => short,
    }
}
