//! Agents whose tables are laid out otherwise take over, while packets go on.
//!
//! `cargo xtask test` builds an agent with a made-up next layout and says where it is:
//! `SHUNT_NEXT_BIN`.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process,
};

use shunt_tests::PinDir;

use crate::{
    flows::Flows,
    upgrade::{end, hand_over, layout, other_version, services, snapshot, some, tables, traffic},
    world::{World, binary, start_agent_of, try_start_agent_of},
};

/// How often an agent takes over in the test under traffic.
const ROUNDS: usize = 3;

/// The version of the made-up layout.
const NEXT: u64 = 4;

/// An agent that dies after a step of its handover, until this is dropped: a script, since an
/// agent inherits our environment.
struct Dying(PathBuf);

impl Dying {
    fn after(step: &str, agent: &Path) -> Self {
        let path = env::temp_dir().join(format!("shunt-dies-{}-{step}", process::id()));
        let script = format!(
            "#!/bin/sh\nSHUNT_DIE_AFTER={step} exec '{}' \"$@\"\n",
            agent.display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }
}

impl Drop for Dying {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// What is pinned is of the next layout, and nothing is left of the one before.
fn assert_handed_over(pins: &PinDir) {
    assert_eq!(layout(pins)[0], NEXT);
    let tables = tables(pins);
    for (family, size) in [("V4", 48), ("V6", 72)] {
        let before = format!("CONNTRACK_{family}");
        assert!(!tables.contains_key(&before), "{before} is gone");
        assert_eq!(tables[&format!("{before}-{NEXT}")].0, size);
    }
}

#[test]
fn a_changed_layout_takes_over_under_traffic() {
    let Some(next) = other_version("SHUNT_NEXT_BIN") else {
        return;
    };
    let earlier = env::var_os("SHUNT_EARLIER_BIN").map(PathBuf::from);
    for first in [earlier.unwrap_or_else(binary), binary()]
        .iter()
        .cycle()
        .take(ROUNDS)
    {
        let Some(mut world) = World::of(first, &[]) else {
            return;
        };
        let services = services(&world);
        world.apply(&snapshot(&services));
        let mut flows = Flows::open(&world.sandbox, &services);
        let traffic = traffic(&world, &services);
        some(&traffic);
        let before = tables(&world.pins);
        let mut world = hand_over(world, &next);
        flows.check();
        some(&traffic);
        assert_handed_over(&world.pins);
        let after = tables(&world.pins);
        for (name, table) in after.iter().filter(|(name, _)| !name.ends_with("-4")) {
            assert_eq!(before.get(name), Some(table), "{name} is the same table");
        }
        assert!(!after.contains_key("SEARCHES_V4"), "scratch has no pin");
        let writes = world.writes(&snapshot(&services));
        assert_eq!(writes, 0, "everything was right already");
        flows.check();
        flows.check_listed(&world);

        // And the same layout after that.
        let world = hand_over(world, &next);
        flows.check();
        some(&traffic);
        end(traffic);
        flows.check_listed(&world);
    }
}

/// A handover that ends after `step`, and agents that come after it: each takes over, or refuses.
fn interrupted(step: &str, next: &Path, then: &[(&Path, bool)]) {
    let Some(mut world) = World::new() else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let traffic = traffic(&world, &services);
    some(&traffic);
    let World {
        agent,
        pins,
        sandbox,
    } = world;
    agent.kill().unwrap();
    let dying = Dying::after(step, next);
    let died = try_start_agent_of(&dying.0, sandbox.node(), &pins);
    assert!(died.is_err(), "it dies after {step}");
    // The programs go on without it, in whatever phase they are, and take new connections.
    flows.check();
    let mut later = Flows::open(&sandbox, &services);
    some(&traffic);
    let mut last = None;
    for (agent, takes_over) in then {
        drop(last.take());
        if *takes_over {
            last = Some(start_agent_of(agent, sandbox.node(), &pins));
        } else {
            let refused = try_start_agent_of(agent, sandbox.node(), &pins)
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains(&format!("have layout {NEXT}, not 3")),
                "after {step}: {refused}"
            );
        }
        flows.check();
        later.check();
        some(&traffic);
    }
    assert_handed_over(&pins);
    let world = World {
        agent: last.unwrap(),
        pins,
        sandbox,
    };
    end(traffic);
    flows.check_listed(&world);
    later.check_listed(&world);
}

#[test]
fn a_handover_that_ends_early_is_begun_again() {
    let Some(next) = other_version("SHUNT_NEXT_BIN") else {
        return;
    };
    for step in ["begin", "swap", "copy", "drain"] {
        interrupted(step, &next, &[(&next, true)]);
    }
}

#[test]
fn a_handover_that_ends_early_can_be_taken_back() {
    let Some(next) = other_version("SHUNT_NEXT_BIN") else {
        return;
    };
    for step in ["swap", "drain"] {
        interrupted(step, &next, &[(&binary(), true), (&next, true)]);
    }
}

#[test]
fn tables_that_were_handed_over_are_refused_by_the_version_before() {
    let Some(next) = other_version("SHUNT_NEXT_BIN") else {
        return;
    };
    interrupted("stamp", &next, &[(&binary(), false), (&next, true)]);
}
