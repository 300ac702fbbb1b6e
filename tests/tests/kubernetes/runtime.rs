//! A container runtime, and what it is given: the files of the image, and folders of the host.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, id},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;
use shunt_skip::skip;
use shunt_tests::run;

/// Returns the image's layout; skips the test if there is no image.
pub(crate) fn image() -> Option<PathBuf> {
    let image = env::var_os("SHUNT_IMAGE").map(PathBuf::from);
    if image.is_none() {
        skip("SHUNT_IMAGE names no image, which `cargo xtask test` makes");
    }
    image
}

/// A name that nothing else has.
fn name(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("shunt-test-{}-{number}-{what}", id())
}

/// A container that runs. Dropping it ends and removes it, with its root.
pub(crate) struct Running {
    name: String,
    child: Child,
    folder: PathBuf,
}

impl Running {
    /// Runs the container of this configuration, with the files of the image as its root.
    pub(crate) fn start(image: &Path, configuration: &Value) -> Self {
        let name = name("container");
        let folder = env::temp_dir().join(&name);
        let root = folder.join("rootfs");
        fs::create_dir_all(&root).unwrap();
        unpack(image, &root);
        fs::write(folder.join("config.json"), configuration.to_string()).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = Command::new("runc")
            .args(["run", "--bundle"])
            .arg(&folder)
            .arg(&name)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            name,
            child,
            folder,
        }
    }

    /// Returns its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Waits until it ends by itself, which must be well, and returns what it has written.
    #[track_caller]
    pub(crate) fn finish(mut self) -> String {
        let status = self.child.wait().unwrap();
        let log = self.log();
        assert!(status.success(), "{status}: {log}");
        log
    }

    /// Sends it the signal to end, as a kubelet does, and returns its exit status.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        run("runc", &["kill", &self.name, "TERM"]).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(
            Command::new("runc")
                .args(["delete", "--force", &self.name])
                .output(),
        );
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Unpacks the only layer of the image.
fn unpack(image: &Path, root: &Path) {
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(image.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        format!("blobs/{}", digest.replace(':', "/"))
    };
    let index = read("index.json");
    let manifest = read(&blob(&index["manifests"][0]));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    let layer = image.join(blob(&layers[0])).display().to_string();
    let root = root.display().to_string();
    run("tar", &["-xzf", &layer, "-C", &root]).unwrap();
}

/// A folder of the host whose mounts are shared with containers, as on hosts of systemd. Dropping it
/// unmounts and removes it.
pub(crate) struct HostFolder(PathBuf);

impl HostFolder {
    pub(crate) fn new(what: &str) -> Self {
        let folder = Self(env::temp_dir().join(name(what)));
        fs::create_dir(&folder.0).unwrap();
        let path = folder.0.to_str().unwrap();
        run("mount", &["--bind", path, path]).unwrap();
        run("mount", &["--make-rshared", path]).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for HostFolder {
    fn drop(&mut self) {
        let unmount = ["--recursive", "--lazy", self.0.to_str().unwrap_or_default()];
        // What containers have mounted may lie on ours. One more fails: there is none left.
        let unmounted = (0..8).take_while(|_| run("umount", &unmount).is_ok());
        unmounted.for_each(drop);
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("left behind: {}: {error}", self.0.display());
        }
    }
}
