//! The token in a file, which requests come with.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use hyper::header::HeaderValue;
use hyper::{Request, header};
use tokio::time::sleep;
use tower::Service;
use tracing::warn;

/// Interval of the looks at a file while the server refuses its token.
const LOOK: Duration = Duration::from_millis(500);

/// A file with a token. White space around the token does not count, as with kubectl.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    read: Mutex<Read>,
}

/// Result of the last read.
#[derive(Debug, Default)]
struct Read {
    stamp: Option<Stamp>,
    header: Option<HeaderValue>,
    /// True if it could not be read, which was logged.
    has_failed: bool,
}

/// Properties that differ after a file was replaced or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: SystemTime,
    inode: u64,
    size: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            modified: found.modified().ok()?,
            inode: found.ino(),
            size: found.size(),
        })
    }
}

impl TokenFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        fs::File::open(&path)?;
        Ok(Self {
            path,
            read: Mutex::default(),
        })
    }

    /// Returns the stamp of the file.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        Stamp::of(&self.path)
    }

    /// Waits until the file has another stamp than `known`. Each waiter has a stamp of its own: the
    /// requests of another one may have read the new token long before.
    pub(super) async fn changed(&self, known: Option<Stamp>) {
        while self.stamp().is_none_or(|stamp| Some(stamp) == known) {
            sleep(LOOK).await;
        }
    }

    /// The header of the next request. The file is read again if it has changed; if there is no token in
    /// it, the one that was read before stays.
    fn header(&self) -> Option<HeaderValue> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&self.path);
        if stamp.is_none() || stamp != read.stamp {
            match bearer(&self.path) {
                Ok(header) => {
                    read.header = Some(header);
                    read.has_failed = false;
                }
                Err(error) => {
                    if !read.has_failed {
                        warn!("the token file {}: {error}", self.path.display());
                    }
                    read.has_failed = true;
                }
            }
            read.stamp = stamp;
        }
        read.header.clone()
    }
}

fn bearer(path: &Path) -> io::Result<HeaderValue> {
    let text = fs::read_to_string(path)?;
    let token = text.trim();
    if token.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty"));
    }
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header =
        header.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it holds no token"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// A client's inner service, each request of which comes with the token of a file, if there is one.
#[derive(Debug, Clone)]
pub(super) struct WithToken<S> {
    inner: S,
    file: Option<Arc<TokenFile>>,
}

impl<S> WithToken<S> {
    pub(super) const fn new(inner: S, file: Option<Arc<TokenFile>>) -> Self {
        Self { inner, file }
    }
}

impl<S, B> Service<Request<B>> for WithToken<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(header) = self.file.as_ref().and_then(|file| file.header()) {
            request.headers_mut().insert(header::AUTHORIZATION, header);
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn white_space_around_a_token_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let header = |text: &str| {
            fs::write(&path, text).unwrap();
            let found = TokenFile::open(path.clone()).unwrap().header();
            found.map(|header| header.to_str().unwrap().to_owned())
        };
        for text in ["one", "one\n", " one\r\n", "\n one \n\n"] {
            assert_eq!(header(text).as_deref(), Some("Bearer one"), "{text:?}");
        }
        for text in ["", "\n", "one\ntwo"] {
            assert_eq!(header(text), None, "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_changed_file_is_read_again_and_a_missing_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        TokenFile::open(path.clone()).unwrap_err();
        fs::write(&path, "first\n").unwrap();
        let file = TokenFile::open(path.clone()).unwrap();
        assert_eq!(file.header().unwrap(), "Bearer first");
        fs::remove_file(&path).unwrap();
        assert_eq!(file.header().unwrap(), "Bearer first");
        fs::write(&path, "").unwrap();
        assert_eq!(file.header().unwrap(), "Bearer first");
        let known = file.stamp();
        timeout(Duration::ZERO, file.changed(known))
            .await
            .expect_err("the file is as it was");
        let new = folder.path().join("new");
        fs::write(&new, "second").unwrap();
        fs::rename(&new, &path).unwrap();
        // Another request may come first.
        assert_eq!(file.header().unwrap(), "Bearer second");
        file.changed(known).await;
    }
}
