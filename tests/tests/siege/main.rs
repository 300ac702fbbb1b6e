//! The siege of `cargo xtask siege`, for some seconds. A test program of its own, so that no other
//! test runs beside it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use shunt_tests::{agent_binary, by_length, has_root, wait_until};

/// The sieges of this file wait for each other: one takes a good part of the machine.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Seconds, and packets a second of all floods.
const SHORT: [&str; 2] = ["6", "5000"];
const LONG: [&str; 2] = ["300", "100000"];

/// Time that a siege that was stopped may take to clean up.
const END: Duration = Duration::from_secs(20);

fn siege(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siege"));
    command.arg("--agent").arg(agent_binary()).args(arguments);
    command
}

/// Returns the remains of a siege.
fn remains(pid: u32) -> Vec<String> {
    let folders = ["/run/netns", "/sys/fs/bpf", "/tmp"];
    let entries = folders.into_iter().flat_map(fs::read_dir).flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| {
            name.starts_with(&format!("shunt-{pid}-"))
                || name.starts_with(&format!("shunt-test-{pid}-"))
        })
        .collect()
}

fn every_client_is_served(arguments: &[&str]) {
    if !has_root() {
        return;
    }
    let _alone = ONE.lock();
    let child = siege(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}:\n{text}", output.status);
    assert!(text.contains("every honest client was served"), "{text}");
    assert_eq!(remains(pid), [""; 0]);
}

#[test]
fn honest_clients_are_served_in_a_siege() {
    let [seconds, rate] = by_length(SHORT, LONG);
    every_client_is_served(&["--seconds", seconds, "--rate", rate]);
}

#[test]
fn honest_clients_are_served_in_a_siege_of_ipv6() {
    let [seconds, rate] = by_length(SHORT, LONG);
    every_client_is_served(&["--ipv6", "--seconds", seconds, "--rate", rate]);
}

#[test]
fn a_siege_sees_who_is_not_served() {
    if !has_root() {
        return;
    }
    let _alone = ONE.lock();
    // Less than the open connections need.
    let output = siege(&[
        "--seconds",
        "2",
        "--rate",
        "100",
        "--",
        "--max-conntrack",
        "16",
    ])
    .output()
    .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("operations of honest clients FAILED"),
        "{text}"
    );
}

#[test]
fn a_siege_that_is_stopped_leaves_nothing() {
    if !has_root() {
        return;
    }
    let _alone = ONE.lock();
    let mut child = siege(&["--seconds", "60", "--rate", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    wait_for_news(&mut child);
    assert!(!remains(pid).is_empty(), "it is there");
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGINT).unwrap();
    let status = wait_until("the siege ends", END, || child.try_wait().unwrap()).unwrap();
    assert_eq!(status.code(), Some(1), "it was not brought to its end");
    assert_eq!(remains(pid), [""; 0]);
}

/// Reads until the floods are under way.
fn wait_for_news(child: &mut Child) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let found = lines
        .map_while(Result::ok)
        .any(|line| line.contains("served"));
    assert!(found, "the siege says nothing");
}
