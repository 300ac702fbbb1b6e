//! An agent with variables of its environment: a script, since an agent inherits ours.

use std::{
    env,
    ffi::OsStr,
    fmt::Write as _,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::world::binary;

/// The script, until this is dropped.
pub(crate) struct Scripted(PathBuf);

impl Scripted {
    /// Writes a script that starts the agent with these variables.
    pub(crate) fn with(variables: &[(&str, &OsStr)]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("shunt-scripted-{}-{number}", process::id()));
        let mut script = "#!/bin/sh\n".to_owned();
        for (name, value) in variables {
            write!(script, "{name}='{}' ", value.display()).unwrap();
        }
        writeln!(script, "exec '{}' \"$@\"", binary().display()).unwrap();
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}
