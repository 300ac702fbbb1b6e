//! Alias checks, by the registrations: none of Consul's lags.

use serde_json::{Value, json};

use super::world::{World, check, deregister, register};
use crate::local::state::{
    register::Change,
    status::Status::{self, Critical, Passing, Warning},
};

fn alias(id: &str, of: &str) -> Change {
    check(json!({ "Name": id, "AliasService": of }))
}

fn of_service(id: &str, of: &str, owner: &str) -> Change {
    check(json!({ "Name": id, "AliasService": of, "ServiceID": owner }))
}

fn ttl(id: &str, service: &str) -> Value {
    json!({ "Name": id, "TTL": "10s", "ServiceID": service, "Status": "passing" })
}

fn named(name: &str) -> Change {
    register(json!({ "Name": name }))
}

fn is(world: &World, alias: &str, status: Status, output: &str) {
    assert_eq!(world.health(alias), (status, output.to_owned()));
}

#[test]
fn an_alias_is_as_the_worst_check_of_its_target() {
    let mut world = World::default();
    world.change(&named("other"));
    world.change(&of_service("al", "web", "other"));
    is(
        &world,
        "al",
        Critical,
        "Service web could not be found on node ",
    );
    world.change(&named("web"));
    is(&world, "al", Passing, "No checks found.");
    world.change(&check(ttl("c1", "web")));
    world.change(&check(ttl("c2", "web")));
    is(&world, "al", Passing, "All checks passing.");
    world.tell("c2", Warning);
    is(
        &world,
        "al",
        Warning,
        "Aliased check \"c2\" failing: is warning",
    );
    world.tell("c1", Critical);
    is(
        &world,
        "al",
        Critical,
        "Aliased check \"c1\" failing: is critical",
    );
    world.tell("c1", Passing);
    world.tell("c2", Passing);
    is(&world, "al", Passing, "All checks passing.");
    let maintenance = |reason| Change::Maintenance {
        service: "web".to_owned(),
        reason,
    };
    world.change(&maintenance(Some("why".to_owned())));
    let text = "Aliased check \"Service Maintenance Mode\" failing: ";
    is(&world, "al", Critical, text);
    world.change(&maintenance(None));
    is(&world, "al", Passing, "All checks passing.");
    // Where Consul's is passing for a minute.
    world.change(&deregister("web"));
    is(
        &world,
        "al",
        Critical,
        "Service web could not be found on node ",
    );
}

#[test]
fn a_change_of_a_target_concerns_those_who_have_the_alias() {
    let mut world = World::default();
    world.change(&named("web"));
    world.change(&check(ttl("c", "web")));
    world.change(&named("front"));
    world.change(&of_service("al", "web", "front"));
    world.change(&named("third"));
    let effects = world.tell("c", Critical);
    let concerned: Vec<_> = effects.concerned.iter().collect();
    assert_eq!(concerned, ["front", "web"]);
    let effects = world.change(&deregister("web"));
    assert!(effects.concerned.contains("web"));
}

#[test]
fn checks_of_the_node_count_for_every_target_at_once() {
    let mut world = World::default();
    world.change(&named("web"));
    world.change(&named("front"));
    world.change(&of_service("al", "web", "front"));
    world.change(&check(ttl("disk", "")));
    is(&world, "al", Passing, "All checks passing.");
    let effects = world.tell("disk", Critical);
    is(
        &world,
        "al",
        Critical,
        "Aliased check \"disk\" failing: is critical",
    );
    assert_eq!(effects.concerned.len(), 2, "all services: {effects:?}");
    // The node's checks alone.
    let node = json!({ "Name": "node", "AliasNode": "n1", "ServiceID": "front" });
    world.change(&check(node));
    is(
        &world,
        "node",
        Critical,
        "Aliased check \"disk\" failing: is critical",
    );
}

#[test]
fn aliases_of_aliases_follow_to_the_end() {
    let mut world = World::default();
    for name in ["s0", "s1", "s2", "s3"] {
        world.change(&named(name));
    }
    world.change(&check(ttl("c", "s0")));
    world.change(&of_service("a1", "s0", "s1"));
    world.change(&of_service("a2", "s1", "s2"));
    world.change(&of_service("a3", "s2", "s3"));
    is(&world, "a3", Passing, "All checks passing.");
    world.tell("c", Critical);
    let text = "Aliased check \"a2\" failing: Aliased check \"a1\" failing: Aliased check \"c\" \
                failing: is critical";
    is(&world, "a3", Critical, text);
    world.tell("c", Passing);
    is(&world, "a3", Passing, "All checks passing.");
}

#[test]
fn a_circle_is_as_what_is_outside_of_it() {
    let mut world = World::default();
    for name in ["s0", "s1", "s2"] {
        world.change(&named(name));
    }
    world.change(&of_service("a0", "s1", "s0"));
    world.change(&of_service("a1", "s2", "s1"));
    world.change(&of_service("a2", "s0", "s2"));
    // Of itself, too.
    world.change(&of_service("own", "s0", "s0"));
    for alias in ["a0", "a1", "a2", "own"] {
        assert_eq!(world.health(alias).0, Passing, "{alias}");
    }
    world.change(&check(ttl("c", "s1")));
    world.tell("c", Critical);
    for alias in ["a0", "a1", "a2", "own"] {
        assert_eq!(world.health(alias).0, Critical, "{alias}");
    }
    // It does not hold itself up once the reason has gone.
    world.tell("c", Passing);
    for alias in ["a0", "a1", "a2", "own"] {
        assert_eq!(world.health(alias).0, Passing, "{alias}");
    }
}

#[test]
fn an_alias_of_the_node_does_not_stand_in_its_own_way() {
    let mut world = World::default();
    world.change(&named("web"));
    world.change(&check(ttl("c", "web")));
    world.change(&alias("al", "web"));
    world.tell("c", Critical);
    assert_eq!(world.health("al").0, Critical);
    // In Consul it is its own reason from then on.
    world.tell("c", Passing);
    assert_eq!(world.health("al").0, Passing);
}
