//! At SIGHUP the agent reads its file of settings again.

use std::{fs, path::PathBuf, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use shunt_tests::{Transport, wait_until};
use tempfile::TempDir;

use crate::{service::Service, world::World};

const SOON: Duration = Duration::from_secs(10);

/// A file of settings that an agent follows.
struct Settings {
    file: PathBuf,
    _folder: TempDir,
}

impl Settings {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agent.toml");
        fs::write(&file, text).unwrap();
        Self {
            file,
            _folder: folder,
        }
    }

    fn flags(&self) -> [&str; 2] {
        ["--config", self.file.to_str().unwrap()]
    }

    /// The file says this from now on; gives what the agent says of it.
    fn change(&self, world: &World, text: &str) -> String {
        fs::write(&self.file, text).unwrap();
        let seen = world.agent.log().len();
        let process = Pid::from_raw(i32::try_from(world.agent.pid()).unwrap());
        kill(process, Signal::SIGHUP).unwrap();
        wait_until("the agent says what it has read", SOON, || {
            let log = world.agent.log();
            let new = log[seen..].lines();
            let mut said = new.filter(|line| line.contains("the settings "));
            said.next().map(ToOwned::to_owned)
        })
        .unwrap()
    }
}

fn interfaces(world: &World) -> Vec<String> {
    let status = world.shunt(&["status", "-o", "json"]).json();
    let interfaces = status["interfaces"].as_array().unwrap();
    let attached = interfaces.iter().filter(|one| one["state"] == "attached");
    attached
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_can_change_at_once_does_and_the_rest_is_named() {
    let settings = Settings::new("interface = [\"lo\"]\nmax-affinity = 70000\n");
    let Some(mut world) = World::with_flags(&settings.flags()) else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let before = interfaces(&world);
    assert!(before.contains(&"lo".to_owned()), "{before:?}");

    let said = settings.change(
        &world,
        "exclude-interface = [\"lo\"]\ninterface = [\"lo\"]\nmax-removal = 10\nmax-affinity = 80000\nlog-filter = \"debug\"\n",
    );
    // The agent of the tests has a RUST_LOG, or has none.
    assert!(said.contains("--exclude-interface"), "{said}");
    assert!(said.contains("--max-removal; needs a restart"), "{said}");
    assert!(
        said.ends_with("--max-affinity") || said.contains("--max-affinity; "),
        "{said}"
    );
    assert!(said.contains("--log-filter"), "{said}");
    wait_until("the interface is left alone", SOON, || {
        (!interfaces(&world).contains(&"lo".to_owned())).then_some(())
    })
    .unwrap();
    world.ask_from_pod(service.cluster_ip(), 3);

    // An event that removes everything waits from now on.
    world.agent.send(&[Service::delete()]).unwrap();
    wait_until("it waits", SOON, || {
        let status = world.shunt(&["status", "-o", "json"]).json();
        (!status["held_removal"].is_null()).then_some(())
    })
    .unwrap();
    assert_eq!(world.shunt(&["discard"]).status, 0);

    for (text, reason) in [
        ("max-removal = 10\nmax-slot = 1\n", "line 2: max-slot: "),
        ("max-removal = 200\n", "--max-removal"),
        (
            "snat-ports = \"1024-40000\"\n",
            "--snat-ports 1024-40000 has ports of NodePorts",
        ),
        ("interface = \n", "agent.toml: "),
    ] {
        let said = settings.change(&world, text);
        assert!(said.contains("the settings stay as they were: "), "{said}");
        assert!(said.contains(reason), "{reason} is missing in {said}");
    }
    let said = settings.change(&world, "interface = [\"lo\"]\nmax-affinity = 70000\n");
    assert!(said.contains("in effect: --exclude-interface"), "{said}");
    assert!(!said.contains("restart"), "{said}");
    wait_until("the interface has the programs again", SOON, || {
        interfaces(&world).contains(&"lo".to_owned()).then_some(())
    })
    .unwrap();
    let said = settings.change(&world, "interface = [\"lo\"]\nmax-affinity = 70000\n");
    assert!(said.ends_with("nothing is new"), "{said}");
}

#[test]
fn an_agent_without_a_file_survives_sighup() {
    let Some(mut world) = World::new() else {
        return;
    };
    let process = Pid::from_raw(i32::try_from(world.agent.pid()).unwrap());
    kill(process, Signal::SIGHUP).unwrap();
    wait_until("it says so", SOON, || {
        world.agent.log().contains("nothing is new").then_some(())
    })
    .unwrap();
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 1);
    assert_eq!(world.agent.ended().unwrap(), None);
}
