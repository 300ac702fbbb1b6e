//! The token that requests come with.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use tracing::warn;

/// Source of the token. Shown, it does not reveal the token.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::consul) enum TokenSource {
    /// There is none: Consul's anonymous token counts.
    #[default]
    None,
    /// This text.
    Given(Secret),
    /// The first line of a file, which may change.
    File(PathBuf),
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::consul) struct Secret(pub(in crate::consul) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The token as it is now.
#[derive(Debug)]
pub(super) struct Token {
    source: TokenSource,
    read: Mutex<Read>,
}

/// Result of the last read of a file.
#[derive(Debug, Default)]
struct Read {
    changed: Option<SystemTime>,
    text: Option<Secret>,
    /// True if it could not be read, which was logged.
    has_failed: bool,
}

impl Token {
    pub(super) fn new(source: TokenSource) -> Self {
        Self {
            source,
            read: Mutex::default(),
        }
    }

    /// The token for the next request. A file is read again if it has changed.
    pub(super) fn current(&self) -> Option<String> {
        match &self.source {
            TokenSource::None => None,
            TokenSource::Given(Secret(text)) => Some(text.clone()),
            TokenSource::File(path) => self.of_file(path),
        }
    }

    /// Notes that Consul did not take the token: a file is read again, whatever its time is.
    pub(super) fn refused(&self) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.changed = None;
    }

    fn of_file(&self, path: &Path) -> Option<String> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = fs::metadata(path).and_then(|found| found.modified());
        let changed = changed.ok();
        if read.text.is_none() || changed.is_none() || changed != read.changed {
            match fs::read_to_string(path) {
                Ok(text) => {
                    let first = text.lines().next().unwrap_or_default().trim();
                    read.text = Some(Secret(first.to_owned()));
                    read.has_failed = false;
                }
                // What was read stays: a file may be missing while it is replaced.
                Err(error) => {
                    if !read.has_failed {
                        warn!("the token file {} cannot be read: {error}", path.display());
                    }
                    read.has_failed = true;
                }
            }
            read.changed = changed;
        }
        let Secret(text) = read.text.as_ref()?;
        (!text.is_empty()).then(|| text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_read_again_and_a_missing_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::new(TokenSource::File(path.clone()));
        assert_eq!(token.current(), None);
        fs::write(&path, "first\n# a comment\n").unwrap();
        assert_eq!(token.current().as_deref(), Some("first"));
        fs::remove_file(&path).unwrap();
        assert_eq!(token.current().as_deref(), Some("first"));
        fs::write(&path, "second\n").unwrap();
        token.refused();
        assert_eq!(token.current().as_deref(), Some("second"));
    }

    #[test]
    fn a_token_is_not_shown() {
        let source = TokenSource::Given(Secret("hush".to_owned()));
        assert!(!format!("{source:?}").contains("hush"));
        assert_eq!(Token::new(source).current().as_deref(), Some("hush"));
    }
}
