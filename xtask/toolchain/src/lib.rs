//! The recorded toolchain for the kernel programs, and the cargo command that uses it.
//!
//! `cargo xtask setup` writes the record; the datapath's build script reads it. Whatever builds the
//! datapath waits for this crate, so it needs nothing beyond the standard library.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    fmt, fs, io, iter,
    path::{Path, PathBuf},
    process::Command,
};

/// Folder of the workspace that holds the record and `bin/bpf-linker`; not under version control.
pub const FOLDER: &str = ".bpf-toolchain";

/// File name of the record inside [`FOLDER`]: `key=value` lines, `#` starts a comment.
pub const RECORD: &str = "toolchain";

/// The target that the kernel programs are compiled for: BPF, little endian.
pub const TARGET: &str = "bpfel-unknown-none";

/// Path of the standard library's sources, below the compiler's sysroot.
pub const RUST_SRC: &str = "lib/rustlib/src/rust";

/// A compiler that can build for [`TARGET`] on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// Way by which it was found, for people: `debian` or `nightly`.
    pub way: String,
    /// Absolute path of cargo.
    pub cargo: PathBuf,
    /// Absolute path of rustc.
    pub rustc: PathBuf,
    /// Output of `rustc --version`. A compiler that was replaced since shows as a difference, and
    /// the changed record makes cargo build the kernel programs again.
    pub version: String,
    /// Further arguments for `cargo build`.
    pub args: Vec<String>,
}

/// Why a record cannot be used.
#[derive(Debug)]
pub enum RecordError {
    /// There is none.
    Missing,
    /// It is there and cannot be read.
    Read(io::Error),
    /// This line is not a known `key=value`.
    Line(String),
    /// This key is absent.
    Key(&'static str),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "no BPF toolchain is recorded"),
            Self::Read(error) => write!(f, "the BPF toolchain's record cannot be read: {error}"),
            Self::Line(line) => write!(f, "the BPF toolchain's record has a bad line `{line}`"),
            Self::Key(key) => write!(f, "the BPF toolchain's record has no `{key}`"),
        }
    }
}

impl Toolchain {
    /// Reads the record of the workspace at `root`.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be read or understood.
    pub fn load(root: &Path) -> Result<Self, RecordError> {
        let text =
            fs::read_to_string(root.join(FOLDER).join(RECORD)).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::NotFound => RecordError::Missing,
                    _ => RecordError::Read(error),
                }
            })?;
        Self::parse(&text)
    }

    /// Parses the text of a record.
    ///
    /// # Errors
    ///
    /// If a line is none, or a key is missing.
    pub fn parse(text: &str) -> Result<Self, RecordError> {
        let (mut way, mut cargo, mut rustc, mut version) = (None, None, None, None);
        let mut args = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once('=') {
                Some(("way", value)) => way = Some(value.to_owned()),
                Some(("cargo", value)) => cargo = Some(PathBuf::from(value)),
                Some(("rustc", value)) => rustc = Some(PathBuf::from(value)),
                Some(("version", value)) => version = Some(value.to_owned()),
                Some(("arg", value)) => args.push(value.to_owned()),
                _ => return Err(RecordError::Line(line.to_owned())),
            }
        }
        Ok(Self {
            way: way.ok_or(RecordError::Key("way"))?,
            cargo: cargo.ok_or(RecordError::Key("cargo"))?,
            rustc: rustc.ok_or(RecordError::Key("rustc"))?,
            version: version.ok_or(RecordError::Key("version"))?,
            args,
        })
    }

    /// `cargo build` for [`TARGET`] in the workspace at `root`, into `target_dir`.
    ///
    /// The object must depend on the sources and the compiler only. So nothing of the cargo that
    /// runs us leaks in (clippy's wrapper, the host's flags), and no path of this machine gets out
    /// (the debug information, and with it BTF, holds file names).
    pub fn cargo_build(&self, root: &Path, target_dir: &Path) -> Command {
        let Self {
            way: _,
            cargo,
            rustc,
            version: _,
            args,
        } = self;
        let mut command = Command::new(cargo);
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(disturbs) {
                command.env_remove(name);
            }
        }
        command
            .current_dir(root)
            .env("RUSTC", rustc)
            // aya-ebpf needs the unstable `asm_experimental_arch`, also from a stable compiler.
            .env("RUSTC_BOOTSTRAP", "1")
            // Empty means none, whatever the user's cargo configuration has.
            .env("RUSTC_WRAPPER", "")
            .env("RUSTC_WORKSPACE_WRAPPER", "")
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags(root, target_dir).join("\x1f"))
            .env("PATH", search_path(root))
            .args(["build", "--target", TARGET, "--target-dir"])
            .arg(target_dir)
            .args(args);
        command
    }

    /// Builds one of the objects of the package `shunt-ebpf`, by the name of its binary and with these
    /// features, in the workspace at `root`, and returns where it is below `target_dir`.
    ///
    /// # Errors
    ///
    /// If the build fails, in words for the user.
    pub fn build_object(
        &self,
        root: &Path,
        target_dir: &Path,
        name: &str,
        features: &[&str],
    ) -> Result<PathBuf, String> {
        let status = self
            .cargo_build(root, target_dir)
            .args(["--package", "shunt-ebpf", "--bin", name])
            .args(["--features", &features.join(",")])
            .args(["--profile", "bpf", "--locked"])
            .status()
            .map_err(|error| {
                format!(
                    "cannot run {}: {error}: run `cargo xtask setup`",
                    self.cargo.display()
                )
            })?;
        if !status.success() {
            return Err(format!(
                "the kernel programs do not build with {} ({}): see the messages of package \
                 shunt-ebpf below",
                self.version, self.way
            ));
        }
        Ok(target_dir.join(TARGET).join("bpf").join(name))
    }

    /// Debug information, BTF made from it, and neutral names for the folders of this machine. The
    /// linker is to expand copies of a few bytes, which it would otherwise do by calls of a loop that
    /// takes them byte by byte: it leaves all but `memcpy` alone for the sake of packet memory on
    /// machines that need alignment.
    fn rustflags(&self, root: &Path, target_dir: &Path) -> Vec<String> {
        let mut flags: Vec<String> = [
            "-Cdebuginfo=2",
            "-Clink-arg=--btf",
            "-Clink-arg=--disable-expand-memcpy-in-order",
        ]
        .map(String::from)
        .into();
        let sources = self
            .rustc
            .ancestors()
            .nth(2)
            .map(|sysroot| sysroot.join(RUST_SRC));
        let folders = [
            // The last prefix that fits wins: the folders inside the workspace come after it.
            (Some(root.to_owned()), "/shunt"),
            (Some(target_dir.to_owned()), "/target"),
            (cargo_home(), "/cargo"),
            (sources, "/rust"),
        ];
        for (folder, name) in folders {
            if let Some(folder) = folder {
                flags.push(format!("--remap-path-prefix={}={name}", folder.display()));
            }
        }
        flags
    }
}

/// Returns whether this variable of the outer cargo, or of the user, would change what is built.
///
/// Kept: cargo's home, its network and registry settings, and the job server's.
fn disturbs(name: &str) -> bool {
    const KEPT: [&str; 6] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_MAKEFLAGS",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
    ];
    let ours = name.starts_with("CARGO") || name.starts_with("RUST") || name == "LD_LIBRARY_PATH";
    ours && !KEPT.iter().any(|kept| name.starts_with(kept))
}

/// The search path with the workspace's `bpf-linker` in front.
fn search_path(root: &Path) -> OsString {
    let ours = root.join(FOLDER).join("bin");
    let inherited = env::var_os("PATH").unwrap_or_default();
    // Joining fails only for a folder with a colon in its name, which no search path can hold.
    env::join_paths(iter::once(ours).chain(env::split_paths(&inherited))).unwrap_or(inherited)
}

/// Cargo's home, where the sources of the dependencies are.
fn cargo_home() -> Option<PathBuf> {
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "# a comment\n\nway=debian\ncargo=/usr/bin/cargo\nrustc=/usr/bin/rustc\n\
                          version=rustc 1.96.0 (a=b)\narg=-Zbuild-std=core\n";

    #[test]
    fn a_record_keeps_what_follows_the_first_equals_sign() {
        let toolchain = Toolchain::parse(RECORD).unwrap();
        assert_eq!(toolchain.version, "rustc 1.96.0 (a=b)");
        assert_eq!(toolchain.args, ["-Zbuild-std=core"]);
    }

    #[test]
    fn a_broken_record_says_what_is_wrong() {
        let cases = [
            ("", "the BPF toolchain's record has no `way`"),
            (
                "way=debian\ncargo=/c\n",
                "the BPF toolchain's record has no `rustc`",
            ),
            (
                "way=debian\ncolour=red\n",
                "the BPF toolchain's record has a bad line `colour=red`",
            ),
            (
                "\0\u{1}",
                "the BPF toolchain's record has a bad line `\0\u{1}`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(
                Toolchain::parse(text).unwrap_err().to_string(),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn the_outer_cargo_leaves_no_trace_but_its_home_and_network() {
        let cases = [
            ("CARGO_ENCODED_RUSTFLAGS", true),
            ("CARGO_PROFILE_BPF_LTO", true),
            ("CARGO_TARGET_DIR", true),
            ("RUSTC_WORKSPACE_WRAPPER", true),
            ("RUSTFLAGS", true),
            ("RUSTUP_TOOLCHAIN", true),
            ("CARGO_HOME", false),
            ("CARGO_MAKEFLAGS", false),
            ("CARGO_NET_OFFLINE", false),
            ("CARGO_REGISTRIES_CRATES_IO_PROTOCOL", false),
            ("PATH", false),
        ];
        for (name, expected) in cases {
            assert_eq!(disturbs(name), expected, "{name}");
        }
    }

    #[test]
    fn folders_of_this_machine_get_neutral_names() {
        let toolchain = Toolchain::parse(RECORD).unwrap();
        let flags = toolchain.rustflags(Path::new("/a b/shunt"), Path::new("/a b/shunt/target"));
        let place = |flag: &str| flags.iter().position(|found| found == flag);
        let root = place("--remap-path-prefix=/a b/shunt=/shunt").unwrap();
        let target = place("--remap-path-prefix=/a b/shunt/target=/target").unwrap();
        assert!(
            root < target,
            "the longer prefix must come last, since the last one wins"
        );
    }
}
