//! Durations as Go writes them: `24h0m0s`, `1.5s`, `-10ms`.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A duration in nanoseconds, which may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct GoDuration(i64);

const SECOND: i64 = 1_000_000_000;

/// Longer units first where one is the beginning of another.
const UNITS: [(&str, i64); 8] = [
    ("ms", SECOND / 1000),
    ("us", 1000),
    ("\u{b5}s", 1000),
    ("\u{3bc}s", 1000),
    ("ns", 1),
    ("h", 3600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
];

impl GoDuration {
    /// So many seconds.
    pub const fn seconds(seconds: u32) -> Self {
        Self(seconds as i64 * SECOND)
    }

    /// So many nanoseconds.
    pub const fn nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// The same, of one that is not negative.
    pub fn duration(self) -> Option<Duration> {
        let Self(nanos) = self;
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// In whole seconds, at least one for whatever is longer than nothing.
    pub fn whole_seconds(self) -> u32 {
        let Self(nanos) = self;
        let seconds = u64::try_from(nanos).unwrap_or(0).div_ceil(SECOND as u64);
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no duration, as 30s or 24h0m0s would be");
        let (sign, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (-1.0, rest),
            None => (1.0, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(wrong());
        }
        let mut nanos = 0.0;
        while !rest.is_empty() {
            let is_number = |c: char| c.is_ascii_digit() || c == '.';
            let end = rest.find(|c| !is_number(c)).ok_or_else(wrong)?;
            let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
            let after = &rest[end..];
            let unit = UNITS.iter().find(|(unit, _)| after.starts_with(unit));
            let (unit, factor) = unit.ok_or_else(wrong)?;
            nanos += number * *factor as f64;
            rest = &after[unit.len()..];
        }
        if nanos > i64::MAX as f64 {
            return Err(wrong());
        }
        Ok(Self((sign * nanos).round() as i64))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nanos) = *self;
        if nanos < 0 {
            f.write_str("-")?;
        }
        let nanos = nanos.unsigned_abs();
        let second = SECOND as u64;
        if nanos > 0 && nanos < second {
            return write!(f, "{}ms", nanos as f64 / 1e6);
        }
        let (hours, minutes) = (nanos / (3600 * second), nanos / (60 * second) % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", (nanos % (60 * second)) as f64 / 1e9)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, seconds, shown) in [
            ("30s", 30, "30s"),
            ("15m", 900, "15m0s"),
            ("24h0m0s", 86_400, "24h0m0s"),
            ("1h30m", 5400, "1h30m0s"),
            ("1.5s", 2, "1.5s"),
            ("100ms", 1, "100ms"),
            ("0s", 0, "0s"),
            ("0", 0, "0s"),
            ("-5s", 0, "-5s"),
        ] {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration.whole_seconds(), seconds, "{text}");
            assert_eq!(duration.to_string(), shown, "{text}");
            assert_eq!(shown.parse(), Ok(duration));
        }
        for text in ["", "30", "s", "1d", "1h 2m", "-", "1..5s", "9999999999h"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }
}
