//! The units of systemd: systemd itself finds nothing wrong with them, and they let the agent do little.

use std::{
    fs,
    path::PathBuf,
    process::{self, Command},
};

use shunt_skip::skip;

/// Each unit, and where it expects the agent.
const UNITS: [(&str, &str); 2] = [
    ("shunt.service", "/usr/bin/shunt"),
    ("shunt-consul.service", "/usr/local/bin/shunt"),
];

fn text(name: &str) -> String {
    let path = format!("{}/../deploy/systemd/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap()
}

/// A folder that goes with this.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Settings that systemd has since version 254.
const YOUNG: [&str; 2] = ["RestartSteps", "RestartMaxDelaySec"];

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("needs systemd-analyze");
        return;
    }
    let folder = Folder(std::env::temp_dir().join(format!("shunt-units-{}", process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    for (name, agent) in UNITS {
        let unit = text(name);
        assert!(unit.contains(&format!("ExecStart={agent} agent")), "{unit}");
        // The agent is not installed here, and has to be there.
        let path = folder.0.join(name);
        fs::write(&path, unit.replace(agent, "/bin/true")).unwrap();
        let looked = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&looked.stderr);
        // It looks at what the unit depends on, too. Some settings are younger than the oldest systemd that the unit is
        // for, which ignores them.
        let is_young = |line: &str| {
            YOUNG
                .iter()
                .any(|key| line.contains(&format!("Unknown key '{key}'")))
        };
        let mut of_it = said.lines().filter(|line| line.contains("shunt"));
        let found = of_it.find(|line| !is_young(line));
        assert!(looked.status.success() && found.is_none(), "{name}: {said}");
    }
}

#[test]
fn the_agent_has_the_capabilities_of_translation_and_is_looked_after() {
    for (name, _) in UNITS {
        let unit = text(name);
        let lines = || unit.lines();
        let capabilities = lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
        let capabilities = capabilities.unwrap_or_else(|| panic!("{name} has all of them"));
        for needed in ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"] {
            assert!(capabilities.contains(needed), "{name}: {needed}");
        }
        assert!(!capabilities.contains("CAP_SYS_"), "{name}: {capabilities}");
        for line in [
            "Type=notify",
            "WatchdogSec=60",
            // With a mount namespace of its own, pins are on what the host has mounted.
            "RequiresMountsFor=/sys/fs/bpf",
            "ReadWritePaths=/sys/fs/bpf",
            "NoNewPrivileges=yes",
        ] {
            assert!(lines().any(|there| there == line), "{name} lacks {line}");
        }
    }
}
