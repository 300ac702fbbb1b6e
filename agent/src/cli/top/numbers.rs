//! Numbers in few columns.

/// A number, in at most six characters.
pub(super) fn count(number: u64) -> String {
    match number {
        0..100_000 => number.to_string(),
        100_000..10_000_000 => format!("{}k", number / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{}G", number / 1_000_000_000),
    }
}

/// Formats a rate a second; an unknown one is a dash.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < 99.95 => format!("{rate:.1}"),
        Some(rate) => count(rate.round() as u64),
    }
}

/// The share of a whole in percent; all of it if the whole is nothing.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    match (u128::from(part) * 100).checked_div(u128::from(whole)) {
        Some(percent) => percent as u64,
        None => 0,
    }
}

/// A bar of so many characters, filled by the share.
pub(super) fn bar(part: u64, whole: u64, width: usize) -> String {
    let filled = (u128::from(part) * width as u128).div_ceil(u128::from(whole.max(1)));
    let filled = (filled as usize).min(width);
    "█".repeat(filled) + &"░".repeat(width - filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0, "0"),
            (99_999, "99999"),
            (100_000, "100k"),
            (9_999_999, "9999k"),
            (12_345_678, "12M"),
            (u64::MAX, "18446744073G"),
        ] {
            assert_eq!(count(number), text);
        }
        for (number, text) in [
            (None, "-"),
            (Some(0.0), "0"),
            (Some(0.04), "0.0"),
            (Some(12.34), "12.3"),
            (Some(99.96), "100"),
            (Some(250_000.4), "250k"),
        ] {
            assert_eq!(rate(number), text);
        }
    }

    #[test]
    fn a_bar_shows_that_there_is_something() {
        assert_eq!(bar(0, 100, 4), "░░░░");
        assert_eq!(bar(1, 100, 4), "█░░░");
        assert_eq!(bar(50, 100, 4), "██░░");
        assert_eq!(bar(200, 100, 4), "████");
        assert_eq!(bar(0, 0, 2), "░░");
        assert_eq!((percent(1, 3), percent(1, 0)), (33, 0));
    }
}
