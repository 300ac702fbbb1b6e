//! Ranges of statuses of HTTP, in the settings of requests for proxies.

use serde::Deserialize;
use thiserror::Error;

/// The smallest and the largest status.
const LIMITS: [u32; 2] = [100, 599];

/// A range of statuses, as a ServiceProfile of Linkerd has it. 0 is an end that is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Ends")]
pub struct StatusRange {
    /// The first status.
    pub min: u32,
    /// The last one, which belongs to the range.
    pub max: u32,
}

/// The ends of a range, not checked.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Ends {
    min: u32,
    max: u32,
}

/// A range of statuses that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StatusRangeError {
    /// An end is no status.
    #[error("a range of statuses has the end {0}: it must be between 100 and 599")]
    End(u32),
    /// The ends are in the wrong order.
    #[error("a range of statuses has the minimum {min}, above its maximum {max}")]
    Order {
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
}

/// By the rules of Linkerd (linkerd2, `pkg/profiles`, `ValidateResponseMatch`).
impl TryFrom<Ends> for StatusRange {
    type Error = StatusRangeError;

    fn try_from(Ends { min, max }: Ends) -> Result<Self, StatusRangeError> {
        let [first, last] = LIMITS;
        let is_status = |end: u32| end == 0 || (first..=last).contains(&end);
        if let Some(end) = [min, max].into_iter().find(|end| !is_status(*end)) {
            return Err(StatusRangeError::End(end));
        }
        if max != 0 && min > max {
            return Err(StatusRangeError::Order { min, max });
        }
        Ok(Self { min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_ends_that_are_statuses_in_their_order() {
        for (min, max, expected) in [
            (100, 599, None),
            (404, 404, None),
            (0, 0, None),
            (500, 0, None),
            (0, 200, None),
            (99, 200, Some(StatusRangeError::End(99))),
            (200, 600, Some(StatusRangeError::End(600))),
            (1, 0, Some(StatusRangeError::End(1))),
            (
                404,
                400,
                Some(StatusRangeError::Order { min: 404, max: 400 }),
            ),
        ] {
            let found = StatusRange::try_from(Ends { min, max });
            assert_eq!(found.err(), expected, "{min}-{max}");
        }
    }
}
