//! Connection tables of another size hand over while packets go on, those of an earlier version too.
//!
//! `cargo xtask test` builds the agent of an earlier revision with the same layouts of state, and sets
//! `SHUNT_EARLIER_BIN` to its path.

mod over;
mod sizes;

use std::{path::Path, time::Duration};

use shunt_common::{
    connections::slots_for,
    registry::{FamilyMaps, STATE_LAYOUT},
};
use shunt_tests::{Connection, Namespace, PinDir, Target};

use crate::{
    flows::Flows,
    scripted::Scripted,
    upgrade::{KEPT, end, layout, other_version, services, snapshot, some, tables, traffic},
    world::{REQUEST, World, binary},
};

/// Room for fewer connections than [`MANY`].
const SMALL: [&str; 2] = ["--max-conntrack", "64"];

/// More connections than a small table has slots for, two each.
const MANY: usize = slots_for(64) as usize / 2 + 20;

/// For a connection that finds no room.
const UNANSWERED: Duration = Duration::from_secs(1);

/// Another size than that of other tests.
const OTHER_SIZE: [&str; 2] = ["--max-conntrack", "100000"];

/// Each step of a handover after which a test can end the agent, in order.
const STEPS: [&str; 6] = ["begin", "egress", "swap", "copy", "drain", "stamp"];

/// Returns an agent that dies after a step of its handover.
pub(crate) fn dying_after(step: &str) -> Scripted {
    Scripted::with(&[("SHUNT_DIE_AFTER", step.as_ref())])
}

/// Checks that the pinned tables are of our layout, and that nothing is left of another.
fn assert_handed_over(pins: &PinDir) {
    assert_eq!(layout(pins)[0], STATE_LAYOUT);
    let tables = tables(pins);
    for (map, size) in [
        (FamilyMaps::V4.conntrack, 64),
        (FamilyMaps::V6.conntrack, 128),
    ] {
        assert_eq!(tables[map.pin].0, size);
        for other in [map.name.to_owned(), format!("{}-new", map.pin)] {
            assert!(!tables.contains_key(&other), "{other} is gone");
        }
    }
    let drafts = tables.keys().filter(|name| name.ends_with("-new"));
    assert_eq!(drafts.count(), 0, "{tables:?}");
}

/// Returns the number of connections that there is room for.
fn capacity(world: &World) -> u64 {
    let status = world.shunt(&["status", "-o", "json"]).json();
    let tables = status["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["name"] == "conntrack_v4");
    table.unwrap()["capacity"].as_u64().unwrap()
}

/// An agent takes over from `first`, with these flags, under traffic.
fn takes_over(first: &Path, flags: &[&str]) -> Option<World> {
    let mut world = World::of(first, &[])?;
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let traffic = traffic(&world, &services);
    some(&traffic);
    let before = tables(&world.pins);
    let mut world = world.killed().start(flags);
    flows.check();
    some(&traffic);
    assert_handed_over(&world.pins);
    let after = tables(&world.pins);
    for name in KEPT {
        assert_eq!(before[name], after[name], "{name} is the same table");
    }
    let writes = world.writes(&snapshot(&services));
    assert_eq!(writes, 0, "everything else was right already");
    flows.check();
    flows.check_listed(&world);

    // And the same once more.
    let world = world.killed().start(flags);
    assert_eq!(tables(&world.pins), after);
    flows.check();
    some(&traffic);
    end(&world, traffic);
    // Others may have taken longer than a silent flow is remembered.
    flows.check();
    flows.check_listed(&world);
    Some(world)
}

#[test]
fn a_table_of_another_size_of_the_version_before_takes_over_under_traffic() {
    let Some(earlier) = other_version("SHUNT_EARLIER_BIN") else {
        return;
    };
    let Some(world) = takes_over(&earlier, &OTHER_SIZE) else {
        return;
    };
    assert_eq!(capacity(&world), 100_000);
}

#[test]
fn a_table_of_another_size_takes_over_under_traffic() {
    let Some(world) = takes_over(&binary(), &OTHER_SIZE) else {
        return;
    };
    assert_eq!(capacity(&world), 100_000);
    // And a smaller one, with room for what minutes of traffic have left on a slow machine.
    let world = world.killed().start(&["--max-conntrack", "95000"]);
    assert_eq!(capacity(&world), 95_000, "{}", world.agent.log());
}

#[test]
fn a_table_that_would_be_too_small_keeps_its_size() {
    let Some(mut world) = World::new() else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let world = world.killed().start(&["--max-conntrack", "4"]);
    flows.check();
    flows.check_listed(&world);
    assert_eq!(capacity(&world), 65_536);
    let log = world.agent.log();
    assert!(log.contains("keeps its room for 65536"), "{log}");
}

/// Room for all that minutes of traffic leave on a slow machine, and more of it. A connection that finds no
/// room in the old table is in the new one alone, and an agent that adopts the old one does not know it.
const ROOMY: [&str; 2] = ["--max-conntrack", "500000"];
const ROOMIER: [&str; 2] = ["--max-conntrack", "600000"];

/// Ends a handover from `first` to an agent with these flags after `step`. Others, with their flags, come
/// after it. Each takes over.
fn interrupted(first: &Path, flags: &[&str], step: &str, then: &[(&Path, &[&str])]) {
    let Some(mut world) = World::of(first, &ROOMY) else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let traffic = traffic(&world, &services);
    some(&traffic);
    let unattended = world.killed();
    let dying = dying_after(step);
    let died = unattended.try_start_of(dying.path(), flags);
    assert!(died.is_err(), "it dies after {step}");
    // The programs go on without it, in whatever phase they are, and take new connections.
    flows.check();
    let mut later = Flows::open(&unattended.sandbox, &services);
    some(&traffic);
    let mut last = None;
    for (agent, flags) in then {
        drop(last.take());
        println!("after {step}: {} {flags:?}", agent.display());
        last = Some(unattended.try_start_of(agent, flags).unwrap());
        flows.check();
        later.check();
        some(&traffic);
    }
    assert_handed_over(&unattended.pins);
    let mut flows = flows.and(later);
    let world = unattended.attended_by(last.unwrap());
    end(&world, traffic);
    flows.check_listed(&world);
    // Nothing is to be done any more.
    let world = world.killed().start(flags);
    flows.check_listed(&world);
}

#[test]
fn a_handover_that_ends_early_is_begun_again() {
    let Some(earlier) = other_version("SHUNT_EARLIER_BIN") else {
        return;
    };
    for step in STEPS {
        interrupted(&earlier, &ROOMIER, step, &[(&binary(), &ROOMIER)]);
    }
}

#[test]
fn a_handover_to_another_size_that_ends_early_is_begun_again() {
    for step in STEPS {
        interrupted(&binary(), &ROOMIER, step, &[(&binary(), &ROOMIER)]);
    }
}

#[test]
fn a_handover_that_ends_early_can_be_taken_back() {
    let Some(earlier) = other_version("SHUNT_EARLIER_BIN") else {
        return;
    };
    for step in STEPS {
        let then: [(&Path, &[&str]); 2] = [(&earlier, &ROOMIER), (&binary(), &ROOMIER)];
        interrupted(&earlier, &ROOMIER, step, &then);
    }
}

#[test]
fn tables_that_were_handed_over_go_back_to_the_version_before() {
    let Some(earlier) = other_version("SHUNT_EARLIER_BIN") else {
        return;
    };
    // Of the size that they have, and of another one.
    for flags in [&OTHER_SIZE[..], &["--max-conntrack", "120000"]] {
        let Some(mut world) = World::of(&earlier, &[]) else {
            return;
        };
        let services = services(&world);
        world.apply(&snapshot(&services));
        let mut flows = Flows::open(&world.sandbox, &services);
        let traffic = traffic(&world, &services);
        some(&traffic);
        world = world.killed().start(&OTHER_SIZE);
        let mut later = Flows::open(&world.sandbox, &services);
        for agent in [earlier.as_path(), &binary()] {
            world = world.killed().start_of(agent, flags);
            flows.check();
            later.check();
            some(&traffic);
            assert_handed_over(&world.pins);
            let writes = world.writes(&snapshot(&services));
            assert_eq!(writes, 0, "everything else was right already");
            flows.check_listed(&world);
            later.check_listed(&world);
        }
        assert_eq!(capacity(&world).to_string(), flags[1]);
        end(&world, traffic);
    }
}

/// Opens connections until there is no room for one more.
fn fill(pod: &Namespace, target: Target) -> Vec<Connection> {
    let target = target.within(UNANSWERED);
    let mut open = Vec::new();
    pod.enter(|| {
        while let Ok(mut connection) = target.connect() {
            connection.echo(REQUEST).unwrap();
            open.push(connection);
            assert!(open.len() < MANY, "the table is small");
        }
    });
    open
}

/// A handover from `first`, whose table is small and full, ends when that table decides no more and
/// no agent makes room there.
fn has_room(first: &Path) {
    let Some(mut world) = World::of(first, &SMALL) else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let target = services[0].cluster_ip();
    let mut open = fill(world.client_pod(), target);
    let unattended = world.killed();
    let dying = dying_after("stamp");
    let died = unattended.try_start_of(dying.path(), &OTHER_SIZE);
    assert!(died.is_err(), "it dies");
    let pod = unattended.sandbox.pod("pod-c").namespace();
    pod.enter(|| open.extend((0..MANY).map(|_| target.connect().unwrap())));
    let mut check = || {
        for connection in &mut open {
            connection.echo(REQUEST).unwrap();
        }
    };
    check();
    let _agent = unattended.try_start_of(&binary(), &OTHER_SIZE).unwrap();
    check();
}

#[test]
fn a_full_table_of_the_version_before_refuses_no_connection_once_it_decides_no_more() {
    let Some(earlier) = other_version("SHUNT_EARLIER_BIN") else {
        return;
    };
    has_room(&earlier);
}
