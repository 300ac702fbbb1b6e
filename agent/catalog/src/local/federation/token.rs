//! The tokens by which datacenters are known to each other.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// A shorter token is guessed.
const SHORTEST: usize = 16;

/// The tokens of datacenters cannot be used.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of it makes no sense.
    #[error("{} line {line}: {what}", path.display())]
    Wrong {
        /// Path of the file.
        path: PathBuf,
        /// From 1 on.
        line: usize,
        /// The error, and its remedy.
        what: String,
    },
    /// The own datacenter has none.
    #[error("{} has no token for {datacenter}: give it a line `{datacenter} TOKEN`", path.display())]
    Missing {
        /// Path of the file.
        path: PathBuf,
        /// The datacenter.
        datacenter: String,
    },
}

/// The token of each datacenter. Shown, it does not reveal them.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens(BTreeMap<String, String>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Tokens {
    /// Reads the tokens of a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or a line is no datacenter with its token.
    pub(super) fn read(path: &Path) -> Result<Self, TokenError> {
        let text = fs::read_to_string(path).map_err(|source| TokenError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::of(&text).map_err(|(line, what)| TokenError::Wrong {
            path: path.to_owned(),
            line,
            what,
        })
    }

    fn of(text: &str) -> Result<Self, (usize, String)> {
        let mut tokens = BTreeMap::<String, String>::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| (number + 1, what.to_owned());
            let mut words = line.split_whitespace();
            let Some(name) = words.next().filter(|word| !word.starts_with('#')) else {
                continue;
            };
            let (Some(token), None) = (words.next(), words.next()) else {
                return Err(wrong("write a datacenter and its token, `dc2 TOKEN`"));
            };
            if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(wrong(
                    "a token has 16 letters, digits or signs of ASCII at least: `openssl rand -hex 32` \
                     makes one",
                ));
            }
            if tokens.values().any(|known| known == token) {
                return Err(wrong("each datacenter needs a token of its own"));
            }
            if tokens.insert(name.to_owned(), token.to_owned()).is_some() {
                return Err((number + 1, format!("{name} has two tokens: take one away")));
            }
        }
        Ok(Self(tokens))
    }

    /// That of a datacenter.
    pub(crate) fn get(&self, datacenter: &str) -> Option<&str> {
        self.0.get(datacenter).map(String::as_str)
    }

    /// Returns the owner of this token. Takes as long for a wrong token as for one that is nearly right.
    pub fn owner(&self, token: &str) -> Option<&str> {
        let mut owner = None;
        for (name, known) in &self.0 {
            if is_same(known.as_bytes(), token.as_bytes()) {
                owner = Some(name.as_str());
            }
        }
        owner
    }
}

fn is_same(known: &[u8], given: &[u8]) -> bool {
    let pairs = known.iter().zip(given);
    let difference = pairs.fold(0, |all, (known, given)| all | (known ^ given));
    known.len() == given.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "# who\ndc1 0123456789abcdef\n\n  dc2\tfedcba9876543210 \n";

    #[test]
    fn a_token_is_one_datacenters() {
        let tokens = Tokens::of(TWO).unwrap();
        assert_eq!(tokens.get("dc1"), Some("0123456789abcdef"));
        assert_eq!(tokens.owner("fedcba9876543210"), Some("dc2"));
        for wrong in [
            "",
            "0123456789abcde",
            "0123456789abcdeg",
            "0123456789abcdef0",
        ] {
            assert_eq!(tokens.owner(wrong), None, "{wrong}");
        }
        assert!(!format!("{tokens:?}").contains("0123"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        for (text, line, word) in [
            ("dc1\n", 1, "`dc2 TOKEN`"),
            ("\ndc1 0123456789abcdef more\n", 2, "`dc2 TOKEN`"),
            ("dc1 short\n", 1, "16"),
            (
                "dc1 0123456789abcdef\ndc1 0123456789abcdee\n",
                2,
                "two tokens",
            ),
            (
                "dc1 0123456789abcdef\ndc2 0123456789abcdef\n",
                2,
                "of its own",
            ),
        ] {
            let (at, what) = Tokens::of(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(what.contains(word), "{what}");
        }
    }
}
