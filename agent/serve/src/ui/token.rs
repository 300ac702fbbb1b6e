//! Token that clients from elsewhere have to know.

use std::{fmt, fs, io, path::Path};

use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, COOKIE, HeaderValue},
};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

/// Shorter ones are guessed.
const SHORTEST: usize = 16;

/// Longer ones are a mistake.
const LONGEST: usize = 512;

/// The name of the cookie.
const NAME: &str = "shunt-ui";

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
    /// A browser would not hand it back as it is.
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

    fn of(text: &str) -> Result<Self, UiTokenError> {
        let text = text.trim();
        if !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(UiTokenError::Length(text.len()));
        }
        // What a cookie's value may have: RFC 6265, 4.1.1.
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

    /// Returns whether a request has it, in one of the two ways.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token)
        });
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut cookies = cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter(|(name, _)| *name == NAME)
            .map(|(_, token)| token);
        bearer.is_some_and(|token| self.is(token.trim().as_bytes()))
            || cookies.any(|token| self.is(token.as_bytes()))
    }

    /// The header that has a browser keep it, out of the reach of scripts and of other pages.
    pub(super) fn cookie(&self) -> Option<HeaderValue> {
        let value = format!("{NAME}={}; Path=/; HttpOnly; SameSite=Strict", self.0);
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for UiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UiToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn a_token_is_long_enough_and_a_browser_hands_it_back_as_it_is() {
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
    fn a_request_has_the_token_in_a_header_or_in_a_cookie() {
        let token = UiToken::of(TOKEN).unwrap();
        for (name, value, expected) in [
            (AUTHORIZATION, format!("Bearer {TOKEN}"), true),
            (AUTHORIZATION, format!("bearer {TOKEN}"), true),
            (AUTHORIZATION, format!("Basic {TOKEN}"), false),
            (AUTHORIZATION, format!("Bearer {TOKEN}x"), false),
            (AUTHORIZATION, "Bearer ".to_owned(), false),
            (COOKIE, format!("a=b; {NAME}={TOKEN}"), true),
            (COOKIE, format!("{NAME}={}", &TOKEN[1..]), false),
            (COOKIE, format!("other={TOKEN}"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(&name, HeaderValue::from_str(&value).unwrap());
            assert_eq!(token.is_in(&headers), expected, "{name}: {value}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }
}
