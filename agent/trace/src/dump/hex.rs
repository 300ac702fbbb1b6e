//! Bytes, written as hexadecimal digits.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// Bytes, which are two digits each in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Hex(pub Vec<u8>);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = self;
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let Self(bytes) = self;
        let digit = |number: u8| char::from(DIGITS[usize::from(number)]);
        let digits = bytes
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        serializer.serialize_str(&digits.collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;

        impl Visitor<'_> for Digits {
            type Value = Hex;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an even number of hexadecimal digits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hex, E> {
                decode(text.as_bytes()).ok_or_else(|| E::custom("hexadecimal digits belong here"))
            }
        }

        deserializer.deserialize_str(Digits)
    }
}

fn decode(digits: &[u8]) -> Option<Hex> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let bytes = pairs
        .iter()
        .map(|[high, low]| Some(value(*high)? << 4 | value(*low)?));
    bytes.collect::<Option<_>>().map(Hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_digits_each() {
        let bytes = Hex(vec![0, 0x0a, 0xf0, 255]);
        let text = serde_json::to_string(&bytes).unwrap();
        assert_eq!(text, "\"000af0ff\"");
        assert_eq!(serde_json::from_str::<Hex>(&text).unwrap(), bytes);
    }

    #[test]
    fn what_is_no_digit_is_an_error() {
        for text in ["\"0\"", "\"0g\"", "\"0A\"", "\"ää\"", "7"] {
            serde_json::from_str::<Hex>(text).unwrap_err();
        }
    }
}
