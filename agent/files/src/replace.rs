//! A file that is replaced whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;
use thiserror::Error;

use crate::folder::{folder_of, make_folder, with_ending};

/// A file cannot be replaced. It has its old content.
#[derive(Debug, Error)]
#[error("cannot {what} {}: {source}", path.display())]
pub struct ReplaceError {
    /// The operation that failed.
    what: &'static str,
    /// The file or directory.
    path: PathBuf,
    /// Why it failed.
    source: io::Error,
}

/// Writes `content` to a draft of mode 0600 (`path.new`), and renames the draft to `path`. Makes the directory
/// if there is none. Whatever happens meanwhile, the file has the old content or the new one. When this
/// returns, it has the new one, also after a power cut.
///
/// A draft that was left behind is unlinked, whatever it is: no link is followed, and no other file written.
///
/// One call at a time a path: the caller sees to it.
///
/// # Errors
///
/// If a system call fails.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), ReplaceError> {
    let folder = folder_of(path);
    make_folder(folder).map_err(failed("make the directory", folder))?;
    let draft = with_ending(path, "new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove the draft", &draft)(error));
        }
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&draft)
        .map_err(failed("make the draft", &draft))?;
    file.write_all(content)
        .map_err(failed("write the draft", &draft))?;
    file.sync_all()
        .map_err(failed("write out the draft", &draft))?;
    fs::rename(&draft, path).map_err(failed("replace", path))?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed("write out the directory", folder))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ReplaceError {
    let path = path.to_owned();
    move |source| ReplaceError { what, path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_and_its_directory_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/file.json");
        for content in ["long content", "short"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert!(!with_ending(&path, "new").exists());
    }

    #[test]
    fn a_draft_that_is_a_link_or_of_another_mode_gives_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        let draft = with_ending(&path, "new");
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &draft).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        assert!(path.symlink_metadata().unwrap().is_file());

        // As a version before may have left it.
        fs::write(&draft, "a half").unwrap();
        replace(&path, b"newer").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }
}
