//! Parameters of a request.

/// The parameters of a query.
pub(super) fn query(text: &str) -> Vec<(String, String)> {
    let parameters = text.split('&').filter(|text| !text.is_empty());
    parameters
        .map(|parameter| {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            (decoded(key), decoded(value))
        })
        .collect()
}

/// Decodes the text of a form: `+` is a space, and `%21` an exclamation mark.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let digits = behind
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match (
            byte,
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()),
        ) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest = &behind[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_forms() {
        let found = query("labelSelector=%21a%2Fb%2Cc%3Dd&limit=500&watch=true&x=1+2");
        let expected = [
            ("labelSelector", "!a/b,c=d"),
            ("limit", "500"),
            ("watch", "true"),
            ("x", "1 2"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(found, expected);
    }
}
