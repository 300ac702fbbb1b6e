//! Token that clients from elsewhere have to know.

use std::{fmt, fs, io, path::Path};

use hyper::{HeaderMap, header::AUTHORIZATION};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

/// Shorter ones are guessed.
const SHORTEST: usize = 16;

/// Longer ones are a mistake.
const LONGEST: usize = 512;

/// The token. It is never shown.
#[derive(Clone)]
pub struct UiToken(String);

/// A file has no token.
#[derive(Debug, Error)]
pub enum UiTokenError {
    /// It cannot be read.
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    /// Its content is too short, or too long.
    #[error("the token has {0} characters: {SHORTEST} to {LONGEST} are needed")]
    Length(usize),
    /// It has characters that not every client sends as they are.
    #[error(
        "the token may have letters, digits and punctuation but `\"`, `,`, `;` and `\\`, and stands alone in \
         the file"
    )]
    Characters,
}

impl UiToken {
    /// Reads the content of a file, without the white space around it.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no token.
    pub fn read(path: &Path) -> Result<Self, UiTokenError> {
        Self::of(&fs::read_to_string(path)?)
    }

    pub(super) fn of(text: &str) -> Result<Self, UiTokenError> {
        let text = text.trim();
        if !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(UiTokenError::Length(text.len()));
        }
        // As a cookie's value: RFC 6265, 4.1.1.
        let is_usable =
            |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\');
        if !text.bytes().all(is_usable) {
            return Err(UiTokenError::Characters);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns whether this is it. Takes as long for a wrong one as for one that is nearly right.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }

    /// Returns whether a request has it as a bearer token; `None` if it has no bearer token.
    pub(super) fn bearer(&self, headers: &HeaderMap) -> Option<bool> {
        let value = headers.get(AUTHORIZATION)?;
        let given = value
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        Some(given.is_some_and(|(_, token)| self.is(token.trim().as_bytes())))
    }
}

impl fmt::Debug for UiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UiToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn a_token_is_long_enough_and_has_characters_that_every_client_sends() {
        assert!(
            UiToken::of(&format!(" {TOKEN}\n"))
                .unwrap()
                .is(TOKEN.as_bytes())
        );
        for (text, expected) in [
            ("short", "the token has 5 characters"),
            ("0123456789abcde;", "the token may have"),
            ("0123456789abcde f", "the token may have"),
            ("0123456789abcdéf", "the token may have"),
            (&"x".repeat(LONGEST + 1), "the token has 513 characters"),
        ] {
            let error = UiToken::of(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        assert!(!format!("{:?}", UiToken::of(TOKEN).unwrap()).contains(TOKEN));
    }

    #[test]
    fn a_request_has_the_token_in_a_header() {
        let token = UiToken::of(TOKEN).unwrap();
        for (value, expected) in [
            (format!("Bearer {TOKEN}"), true),
            (format!("bearer {TOKEN}"), true),
            (format!("Basic {TOKEN}"), false),
            (format!("Bearer {TOKEN}x"), false),
            ("Bearer ".to_owned(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&value).unwrap());
            assert_eq!(token.bearer(&headers), Some(expected), "{value}");
        }
        assert_eq!(token.bearer(&HeaderMap::new()), None);
    }
}
