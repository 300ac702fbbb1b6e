//! Numbers for people.

use crate::measure::Spread;

/// A number of at least three digits, without insignificant ones.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        grouped(value)
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A ratio: three digits after the point as long as they may be significant.
pub(super) fn ratio(value: f64) -> String {
    if value.abs() < 10.0 {
        format!("{value:.3}")
    } else {
        number(value)
    }
}

/// The quartiles, each as `show` shows it.
pub(super) fn quartiles(spread: Spread, show: impl Fn(f64) -> String) -> String {
    let Spread {
        lower,
        median: _,
        upper,
    } = spread;
    format!("{} to {}", show(lower), show(upper))
}

/// Digits in groups of three.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        text.insert(0, '-');
    }
    text
}
