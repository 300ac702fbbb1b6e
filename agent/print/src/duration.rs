//! Durations with units.

use std::{fmt, str::FromStr};

/// A whole number of seconds, written with units: `90s`, `2m`, `1h30m`, `24h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub u32);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = humantime::parse_duration(text)
            .map_err(|error| format!("{error}; a duration has a unit, as in 120s or 24h"))?;
        if duration.subsec_nanos() != 0 {
            return Err("a whole number of seconds is needed".to_owned());
        }
        u32::try_from(duration.as_secs())
            .map(Self)
            .map_err(|_| format!("more than the {} that are possible", Self(u32::MAX)))
    }
}

impl fmt::Display for Seconds {
    /// In hours, minutes and seconds, as Kubernetes writes durations, so that it can be given to a
    /// flag again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seconds) = *self;
        if seconds == 0 {
            return f.write_str("0s");
        }
        for (count, unit) in [
            (seconds / 3600, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
        ] {
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_it_is_written() {
        for (text, seconds) in [
            ("120s", 120),
            ("2m", 120),
            ("3m30s", 210),
            ("24h", 86_400),
            ("24h0m0s", 86_400),
            ("1000ms", 1),
            ("0s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Seconds(seconds)), "{text}");
            let shown = Seconds(seconds).to_string();
            assert_eq!(shown.parse(), Ok(Seconds(seconds)), "{shown}");
        }
    }

    #[test]
    fn a_duration_is_shown_in_hours_minutes_and_seconds() {
        for (seconds, text) in [(0, "0s"), (60, "1m"), (210, "3m30s"), (86_400, "24h")] {
            assert_eq!(Seconds(seconds).to_string(), text);
        }
    }

    #[test]
    fn a_duration_needs_a_unit_and_whole_seconds() {
        for text in ["120", "", "500ms", "-1s", "two minutes", "1000000000h"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
