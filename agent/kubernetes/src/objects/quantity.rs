//! Numbers as Kubernetes writes them.

use serde::Deserialize;
use serde_json::Number;

/// A number of Kubernetes, not yet read: `500m`, `"1k"`, or 1.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Quantity {
    Text(Box<str>),
    Number(Number),
}

impl Default for Quantity {
    fn default() -> Self {
        Self::Number(0.into())
    }
}

impl Quantity {
    /// Returns the number in thousandths, up to the next whole one; `None`: the text is no number, or one that is
    /// negative or does not fit.
    pub(super) fn thousandths(&self) -> Option<u32> {
        match self {
            Self::Text(text) => thousandths(text),
            Self::Number(number) => thousandths(&number.to_string()),
        }
    }
}

/// Reads a number with its suffix, exactly (`k8s.io/apimachinery/pkg/api/resource`, `ParseQuantity`).
fn thousandths(text: &str) -> Option<u32> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (factor, exponent) = suffixed(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    // A second point is no digit.
    let digits: u128 = match [whole, fraction].concat() {
        none if none.is_empty() && number.contains(|letter: char| letter.is_ascii_digit()) => 0,
        digits => digits.parse().ok()?,
    };
    if digits == 0 {
        return Some(0);
    }
    let decimals = i32::try_from(fraction.len()).ok()?;
    let exponent = exponent.checked_add(3)?.checked_sub(decimals)?;
    let power = 10u128.checked_pow(exponent.unsigned_abs());
    let digits = digits.checked_mul(factor)?;
    let found = if exponent >= 0 {
        digits.checked_mul(power?)?
    } else {
        power.map_or(1, |power| digits.div_ceil(power))
    };
    found.try_into().ok()
}

/// Returns the factor, and the power of ten, by which a suffix multiplies.
fn suffixed(suffix: &str) -> Option<(u128, i32)> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(place) = decimal.iter().position(|known| *known == suffix) {
        return Some((1, 3 * i32::try_from(place).ok()? - 9));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(place) = binary.iter().position(|known| *known == suffix) {
        return Some((1024u128.checked_pow(u32::try_from(place).ok()? + 1)?, 0));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((1, exponent.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_does() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("+1", Some(1000)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("5.", Some(5000)),
            ("0.069", Some(69)),
            ("500m", Some(500)),
            ("1500m", Some(1500)),
            ("0.3m", Some(1)),
            ("1n", Some(1)),
            ("1000001u", Some(1001)),
            ("1k", Some(1_000_000)),
            ("0.5k", Some(500_000)),
            ("4M", Some(4_000_000_000)),
            ("1Ki", Some(1_024_000)),
            ("1.5Mi", Some(1_572_864_000)),
            ("1e3", Some(1_000_000)),
            ("1E3", Some(1_000_000)),
            ("5e-1", Some(500)),
            ("1e-100", Some(1)),
            ("4294967.295", Some(u32::MAX)),
            ("0", Some(0)),
            ("0.0", Some(0)),
            ("0e999", Some(0)),
            ("4294967.296", None),
            ("5M", None),
            ("1E", None),
            ("1e999", None),
            ("1e2147483647", None),
            ("-1", None),
            ("1 k", None),
            ("1K", None),
            ("1.2.3", None),
            ("", None),
            (".", None),
            ("k", None),
            ("nan", None),
            ("inf", None),
            ("99999999999999999999999999999999999999999", None),
        ] {
            assert_eq!(
                Quantity::Text(text.into()).thousandths(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn bare_numbers_are_quantities() {
        for (json, expected) in [
            ("2", Some(2000)),
            ("0.25", Some(250)),
            ("1e3", Some(1_000_000)),
            ("-1", None),
            ("1e300", None),
        ] {
            let quantity: Quantity = serde_json::from_str(json).unwrap();
            assert_eq!(quantity.thousandths(), expected, "{json}");
        }
    }
}
