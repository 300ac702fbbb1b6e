//! The middle of some values, and how far they are apart.

use serde::Serialize;

/// Median and quartiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// A quarter of the values are below.
    pub lower: f64,
    /// Half of the values are below.
    pub median: f64,
    /// A quarter of the values are above.
    pub upper: f64,
}

impl Spread {
    /// That of these values, interpolated between neighbours; `None` if there are none, or one is
    /// no number.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let at = |quarters: f64| {
            let place = quarters / 4.0 * (values.len() - 1) as f64;
            let (below, above) = (
                values[place.floor() as usize],
                values[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Some(Self {
            lower: at(1.0),
            median: at(2.0),
            upper: at(3.0),
        })
    }
}
