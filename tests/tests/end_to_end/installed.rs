//! The packages of `cargo xtask dist`, installed.

use std::{
    fs, iter,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use shunt_tests::{Agent, PinDir, Transport, kubectl_binary, patience, wait_until};

use crate::{
    command::shunt_at,
    service::Service,
    world::{World, binary, resync_with},
};

/// Makes archive, package and krew's manifest of the binaries that are tested.
fn dist(folder: &Path) -> [PathBuf; 3] {
    let made = Command::new(binary().with_file_name("xtask"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["dist", "--binary"])
        .arg(binary())
        .arg("--kubectl")
        .arg(kubectl_binary())
        .arg("--output")
        .arg(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let output = String::from_utf8(made.stdout).unwrap();
    let paths: Vec<PathBuf> = output.lines().map(PathBuf::from).collect();
    paths.try_into().unwrap()
}

/// Runs a program of the system's, which must succeed.
fn run(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{program} {arguments:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_package_installs_and_what_it_brings_serves() {
    let Some(world) = World::new() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let [archive, package, manifest] = dist(folder.path());
    let root = folder.path().join("root");
    for part in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        fs::create_dir_all(root.join(part)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let root_flag = format!("--root={}", root.display());
    // The libc of the machine is not in that folder.
    run(
        "dpkg",
        &[
            &root_flag,
            "--force-depends",
            "--install",
            package.to_str().unwrap(),
        ],
    );
    let listed = run("tar", &["--list", "--file", archive.to_str().unwrap()]);
    for path in [
        "usr/bin/shunt",
        "usr/bin/kubectl-shunt",
        "usr/lib/systemd/system/shunt.service",
        "usr/share/man/man1/shunt.1",
        "usr/share/man/man1/shunt-agent.1",
        "usr/share/man/man1/shunt-conntrack-flush.1",
        "usr/share/bash-completion/completions/shunt",
        "usr/share/shunt/shunt.protoset",
    ] {
        let there = fs::metadata(root.join(path));
        assert!(there.is_ok_and(|file| file.len() > 0), "{path}");
        assert!(listed.contains(path), "{path} is not in\n{listed}");
    }
    let page = fs::read_to_string(root.join("usr/share/man/man1/shunt-drain.1")).unwrap();
    assert!(page.contains("\\-\\-node"), "{page}");
    let completions = root.join("usr/share/bash-completion/completions/shunt");
    run("bash", &["-n", completions.to_str().unwrap()]);

    let manifest = fs::read_to_string(manifest).unwrap();
    let sum = run("sha256sum", &[archive.to_str().unwrap()]);
    let sum = sum.split_whitespace().next().unwrap();
    assert!(
        manifest.contains(&format!("sha256: \"{sum}\"")),
        "{manifest}"
    );

    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let target = service.cluster_ip();
    let world = world.stopped();
    let agent = world
        .try_start_of(&root.join("usr/bin/shunt"), &[])
        .unwrap();
    let mut world = world.attended_by(agent);
    world.apply(&resync_with(&[service.json()]));
    world.ask_from_pod(target, 5);
}

#[test]
fn systemd_is_told_when_the_agent_is_ready_and_that_it_is_alive() {
    let Some(world) = World::new() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager
        .set_read_timeout(Some(patience(Duration::from_secs(10))))
        .unwrap();
    let pins = PinDir::new();
    let environment = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "300000"),
    ];
    let agent =
        Agent::with_environment(&binary(), world.sandbox.node(), &pins, &environment).unwrap();
    let next = || {
        let mut text = [0; 256];
        let length = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).trim().to_owned()
    };
    // It asks for time while it starts, and no longer.
    let time = "EXTEND_TIMEOUT_USEC=60000000";
    assert_eq!(next(), time);
    let ready = iter::repeat_with(&next).find(|said| said != time);
    assert_eq!(ready.as_deref(), Some("READY=1"));
    assert_eq!(next(), "WATCHDOG=1");
    assert_eq!(next(), "WATCHDOG=1");
    agent.stop().unwrap();
    wait_until("it says that it ends", Duration::from_secs(5), || {
        (next() == "STOPPING=1").then_some(())
    })
    .unwrap();
}

#[test]
fn settings_come_from_a_file_and_the_command_line_wins() {
    let Some(world) = World::new() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    fs::write(
        &file,
        "max-affinity = 77\nmax-services = 123\nip-families = \"ipv4\"\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let world = world.stopped().start(&[
        "--config",
        path,
        "--ip-families",
        "ipv4",
        "--max-services",
        "456",
    ]);
    let status = world.shunt(&["status", "-o", "json"]).json();
    let tables = status["tables"].as_array().unwrap();
    let services = tables.iter().find(|table| table["name"] == "services");
    assert_eq!(services.unwrap()["capacity"], 456, "the command line wins");

    let nowhere = folder.path().join("shunt.sock");
    let config = |arguments: &[&str]| {
        let ran = Command::new(binary()).args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code(), text(ran.stdout), text(ran.stderr))
    };
    let (status, output, errors) = config(&["config", "check", path]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(output.ends_with("is right: 3 settings\n"), "{output}");
    let (_, output, _) = config(&["config", "show", path]);
    assert!(output.contains("\nmax-affinity = 77\n"), "{output}");
    assert!(output.contains("\n# reject-rate = 1000\n"), "{output}");
    // What is shown is a file again.
    let again = folder.path().join("again.toml");
    fs::write(&again, output).unwrap();
    let (status, _, errors) = config(&["config", "check", again.to_str().unwrap()]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));

    fs::write(&file, "\nmax-affinities = 77\n").unwrap();
    let (status, _, errors) = config(&["config", "check", path]);
    assert_eq!(status, Some(1));
    assert!(
        errors.contains("line 2: max-affinities: the agent has no such flag"),
        "{errors}"
    );
    let ran = shunt_at(&nowhere, &["agent", "--config", path], "");
    assert_eq!((ran.status, ran.errors), (2, format!("error: {errors}")));
}
