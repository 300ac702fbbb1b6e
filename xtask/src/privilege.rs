//! Root for those child processes that need it, and for no other.
//!
//! A user with `sudo` types the commands without it. Cargo and everything that writes below the checkout run
//! as the user; the sandbox, the tests and `apt-get` run by `sudo`.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use nix::unistd::{Uid, User};
use shunt_toolchain::FOLDER;

use crate::{process, workspace};

/// The folders of programs for root, which a user's search path may lack.
const ROOTS_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns whether commands can be run as root.
pub(crate) fn is_available() -> bool {
    workspace::is_root() || has_sudo()
}

/// Fails for users that cannot become root. `what` is the command, as typed. Other users type their password
/// here, before anything is built.
pub(crate) fn require(what: &str) -> Result<()> {
    if workspace::is_root() {
        return Ok(());
    }
    if !has_sudo() {
        bail!(
            "`{what}` needs root, for BPF programs and network namespaces: type it as root, or install \
             sudo, which it calls for what needs root"
        );
    }
    eprintln!("`sudo` is called for what needs root; what is built is yours");
    process::run(Command::new("sudo").arg("--validate"))
        .with_context(|| format!("`{what}` needs root: type it as root"))
}

fn has_sudo() -> bool {
    process::output(Command::new("sudo").arg("--version")).is_ok()
}

/// Becomes a command as root, as [`process::exec`] does. For a user it is a child instead, and the user owns
/// its files below the checkout afterwards.
///
/// # Errors
///
/// If it cannot be run, or fails as a child.
pub(crate) fn exec(mut command: Command) -> Result<()> {
    if workspace::is_root() {
        return process::exec(&mut command);
    }
    let result = process::run(&mut as_root(command));
    hand_back(&workspace::root()?)?;
    result
}

/// Returns the command through which cargo runs test binaries as root, for a user.
pub(crate) fn cargos_runner() -> Option<OsString> {
    if workspace::is_root() {
        return None;
    }
    let sudo = through_sudo(&Command::new("env"), env::var_os("PATH"));
    let words: Vec<_> = [sudo.get_program()]
        .into_iter()
        .chain(sudo.get_args())
        .collect();
    Some(words.join(OsStr::new(" ")))
}

/// Returns the same command as root: through `sudo` for a user, as it is for root.
pub(crate) fn as_root(command: Command) -> Command {
    if workspace::is_root() {
        return command;
    }
    through_sudo(&command, env::var_os("PATH"))
}

fn through_sudo(command: &Command, path: Option<OsString>) -> Command {
    let mut sudo = Command::new("sudo");
    // With the variables of the tests and the compiler, but a search path that has root's programs.
    // An xtask that a test runs is not one that a user called by `sudo`.
    sudo.args(["--preserve-env", "--", "env", "--unset=SUDO_UID"]);
    if let Some(path) = with_roots_folders(path) {
        sudo.arg(assignment("PATH".as_ref(), &path));
    }
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            sudo.arg(assignment(name, value));
        }
    }
    if let Some(folder) = command.get_current_dir() {
        sudo.current_dir(folder);
    }
    sudo.arg(command.get_program()).args(command.get_args());
    sudo
}

/// Returns a search path that has root's programs, too.
pub(crate) fn search_path() -> Option<OsString> {
    with_roots_folders(env::var_os("PATH"))
}

fn with_roots_folders(path: Option<OsString>) -> Option<OsString> {
    let path = path.unwrap_or_default();
    let folders = env::split_paths(&path).chain(ROOTS_FOLDERS.map(PathBuf::from));
    env::join_paths(folders).ok()
}

fn assignment(name: &OsStr, value: &OsStr) -> OsString {
    let mut text = name.to_owned();
    text.push("=");
    text.push(value);
    text
}

/// Makes the user the owner of files that processes of root wrote below the folders of commands.
///
/// # Errors
///
/// If the owner of a file cannot be changed.
pub(crate) fn hand_back(root: &Path) -> Result<()> {
    let owner = owner(root)?;
    if owner.is_root() {
        return Ok(());
    }
    let group = fs::metadata(root)?.gid();
    let folders = [
        workspace::output("")?,
        root.join(FOLDER),
        root.join("tests"),
    ];
    let folders = folders.iter().filter(|folder| folder.exists());
    process::run(&mut as_root(change_owner(folders, owner, group)))
}

fn change_owner<'a>(folders: impl Iterator<Item = &'a PathBuf>, owner: Uid, group: u32) -> Command {
    let mut find = Command::new("find");
    find.args(folders)
        .args(["-user", "0", "-exec", "chown", "--no-dereference"])
        .arg(format!("{owner}:{group}"))
        .args(["{}", "+"]);
    find
}

/// Returns the owner of the checkout.
fn owner(root: &Path) -> Result<Uid> {
    let metadata =
        fs::metadata(root).with_context(|| format!("cannot look at {}", root.display()))?;
    Ok(Uid::from_raw(metadata.uid()))
}

/// Becomes the user of `sudo cargo xtask ...`, if the checkout is that user's. Before that, the files that
/// cargo built as root become the user's. Otherwise returns.
///
/// # Errors
///
/// If the user is not known, or this process cannot become the user.
pub(crate) fn leave_sudo() -> Result<()> {
    let root = workspace::root()?;
    let Some(user) = called_by(env::var("SUDO_UID").ok().as_deref(), owner(&root)?) else {
        return Ok(());
    };
    if !workspace::is_root() {
        return Ok(());
    }
    let user = User::from_uid(user)?.with_context(|| format!("there is no user {user}"))?;
    if !can_build(&user) {
        return Ok(());
    }
    eprintln!(
        "this goes on as {}: without `sudo` before it, the command calls it for what needs root",
        user.name
    );
    hand_back(&root)?;
    let mut command = Command::new(env::current_exe()?);
    command
        .args(env::args_os().skip(1))
        .uid(user.uid.as_raw())
        .gid(user.gid.as_raw())
        .env("HOME", &user.dir)
        .env("PATH", search_path_of(&user)?)
        .env("USER", &user.name)
        .env("LOGNAME", &user.name);
    for variable in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND"] {
        command.env_remove(variable);
    }
    process::exec(&mut command)
}

/// Returns whether this user may run the cargo that runs us: it may be root's own.
fn can_build(user: &User) -> bool {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .arg("--version")
        .current_dir("/")
        .uid(user.uid.as_raw())
        .gid(user.gid.as_raw())
        .env("HOME", &user.dir);
    process::output(&mut command).is_ok()
}

/// Returns the search path with the user's own cargo, which `sudo` leaves out.
fn search_path_of(user: &User) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = [user.dir.join(".cargo/bin")];
    Ok(env::join_paths(
        own.into_iter().chain(env::split_paths(&path)),
    )?)
}

/// Returns the caller of `sudo`, if the checkout is that user's.
fn called_by(variable: Option<&str>, owner: Uid) -> Option<Uid> {
    let user = Uid::from_raw(variable?.parse().ok()?);
    (user == owner && !user.is_root()).then_some(user)
}

#[cfg(test)]
mod tests {
    use shunt_skip::skip;

    use super::*;

    #[test]
    fn a_command_keeps_its_variables_and_folder_through_sudo() {
        let mut command = Command::new("/target/sandbox");
        command
            .arg("--agent")
            .env("SHUNT_BIN", "/target/shunt")
            .env_remove("GONE")
            .current_dir("/tests");
        let sudo = through_sudo(&command, Some("/home/a/bin:/usr/bin".into()));
        assert_eq!(sudo.get_program(), "sudo");
        assert_eq!(sudo.get_current_dir(), Some(Path::new("/tests")));
        let arguments: Vec<_> = sudo.get_args().collect();
        assert_eq!(
            arguments,
            [
                "--preserve-env",
                "--",
                "env",
                "--unset=SUDO_UID",
                "PATH=/home/a/bin:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin",
                "SHUNT_BIN=/target/shunt",
                "/target/sandbox",
                "--agent"
            ]
        );
    }

    #[test]
    fn only_the_owner_of_the_checkout_is_gone_back_to() {
        let [user, other, root] = [1000, 1001, 0].map(Uid::from_raw);
        let cases = [
            (Some("1000"), user, Some(user)),
            (Some("1000"), other, None),
            (Some("1000"), root, None),
            (Some("0"), root, None),
            (Some("me"), user, None),
            (None, user, None),
        ];
        for (variable, owner, expected) in cases {
            assert_eq!(called_by(variable, owner), expected, "{variable:?}");
        }
    }

    #[test]
    fn only_files_of_roots_change_their_owner() {
        if !workspace::is_root() {
            skip("needs root");
            return;
        }
        let folder = env::temp_dir().join(format!("shunt-owner-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).unwrap();
        let [ours, others, link] = ["inner/ours", "others", "link"].map(|name| folder.join(name));
        fs::write(&ours, "").unwrap();
        fs::write(&others, "").unwrap();
        std::os::unix::fs::chown(&others, Some(4321), None).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        let folders = [folder.clone()];
        process::run(&mut change_owner(folders.iter(), Uid::from_raw(1234), 1234)).unwrap();
        let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
        assert_eq!(
            [&ours, &others, &link].map(|path| owner(path)),
            [1234, 4321, 1234]
        );
        assert_eq!(fs::metadata("/etc/hostname").unwrap().uid(), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
