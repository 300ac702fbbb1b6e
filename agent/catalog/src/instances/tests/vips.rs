//! Addresses that instances have.

use std::time::Instant;

use shunt_model::RendererEvent;
use shunt_runtime::Consequences;

use crate::instances::{
    engine::{Engine, Work},
    instance::Instance,
    query::Query,
    tests::world::{frontend_at, instance, place},
    tier::Datacenter,
};

/// The engine of one frontend.
struct World {
    engine: Engine,
    query: Query,
}

impl World {
    fn new(lines: &str) -> Self {
        let engine = Engine::new(vec![frontend_at(lines, "")]);
        let query = query(&engine, true);
        Self { engine, query }
    }

    /// The address of the frontend after it is known that there are these instances.
    fn address(&mut self, instances: &[Instance]) -> Option<String> {
        self.engine.set_instances(&self.query, instances.to_vec());
        self.engine.set_place(place(), [].into());
        let Work { event, about, .. } = self.engine.next(Instant::now())?;
        self.engine.done(about, Ok(Consequences::default()));
        let service = match event {
            RendererEvent::Resync(snapshot) => snapshot.services.into_iter().next()?,
            RendererEvent::UpdateService(service) => service,
            other => panic!("{other:?}"),
        };
        Some(format!(
            "{}:{}",
            service.external_ips[0], service.ports[0].port
        ))
    }

    fn problem(&self) -> String {
        let problems = self.engine.problems().get("consul/web").cloned();
        problems.unwrap_or_default().join("; ")
    }
}

/// Returns the query to this datacenter, or to another.
fn query(engine: &Engine, is_here: bool) -> Query {
    let is_it = |query: &&Query| (query.datacenter == Datacenter::Own) == is_here;
    engine.queries().find(is_it).unwrap().clone()
}

#[test]
fn instances_say_the_address_and_may_say_the_port() {
    let web = || instance("10.1.1.1").tagged("virtual", "240.0.0.1", 8080);
    let mut without = World::new("vip_from_tag = \"virtual\"");
    assert_eq!(without.address(&[web()]).as_deref(), Some("240.0.0.1:8080"));
    let mut with = World::new("vip_from_tag = \"virtual\"\nport = 80");
    let silent = instance("10.1.1.2");
    let pair = [web(), silent];
    assert_eq!(with.address(&pair).as_deref(), Some("240.0.0.1:80"));
    assert_eq!(with.problem(), "");
}

#[test]
fn those_who_disagree_leave_everything_as_it_was() {
    let lines = "vip_from_tag = \"virtual\"\nport = 80";
    let (one, other) = (
        instance("10.1.1.1").tagged("virtual", "240.0.0.1", 0),
        instance("10.1.1.2").tagged("virtual", "240.0.0.2", 0),
    );
    let mut world = World::new(lines);
    assert_eq!(
        world.address(&[one.clone(), other.clone()]),
        None,
        "there was none before"
    );
    assert!(world.problem().contains("conflict"), "{}", world.problem());
    assert!(world.problem().contains("240.0.0.1:80, 240.0.0.2:80"));
    assert_eq!(
        world.address(std::slice::from_ref(&one)).as_deref(),
        Some("240.0.0.1:80")
    );
    assert_eq!(world.problem(), "");
    let both = world.address(&[one, other.clone()]);
    assert_eq!(both.as_deref(), Some("240.0.0.1:80"));
    assert!(world.problem().contains("conflict"));
    assert_eq!(world.address(&[other]).as_deref(), Some("240.0.0.2:80"));
    // Its last instance is gone, and so are its backends, but not the address.
    let none = world.address(&[]);
    assert_eq!(none.as_deref(), Some("240.0.0.2:80"));
}

#[test]
fn what_was_agreed_on_is_known_to_the_next() {
    let lines = "vip_from_tag = \"virtual\"\nport = 80";
    let said = |ip: &str, vip: &str| instance(ip).tagged("virtual", vip, 0);
    let both = [said("10.1.1.1", "240.0.0.1"), said("10.1.1.2", "240.0.0.2")];
    let mut before = World::new(lines);
    before.address(&both[..1]);
    let kept = before.engine.new_addresses().unwrap();
    assert_eq!(before.engine.new_addresses(), None, "once");
    for instances in [&both[..], &[]] {
        let mut next = World::new(lines);
        next.engine.restore_addresses(&kept);
        let address = next.address(instances);
        assert_eq!(address.as_deref(), Some("240.0.0.1:80"), "{instances:?}");
        // They agree again, on another one.
        let address = next.address(&both[1..]);
        assert_eq!(address.as_deref(), Some("240.0.0.2:80"));
        assert!(next.engine.new_addresses().is_some());
    }
    let mut other = World::new("vip_from_tag = \"other\"\nport = 80");
    other.engine.restore_addresses(&kept);
    assert_eq!(other.address(&[]), None, "that was of another tag");
    let mut moved = World::new("vip_from_tag = \"virtual\"\nport = 81");
    moved.engine.restore_addresses(&kept);
    assert_eq!(moved.address(&[]).as_deref(), Some("240.0.0.1:81"));
}

#[test]
fn a_later_tier_says_the_address_where_no_other_is_known() {
    let lines = "vip_from_tag = \"virtual\"\nport = 80\nfailover = [\"dc2\"]";
    let said = |ip: &str, vip: &str| instance(ip).tagged("virtual", vip, 0);
    let far = |vip: &str| vec![said("10.2.1.1", vip).in_datacenter("dc2")];
    let mut world = World::new(lines);
    let there = query(&world.engine, false);
    world.engine.set_instances(&there, far("240.0.0.2"));
    let address = world.address(&[]);
    assert_eq!(address.as_deref(), Some("240.0.0.2:80"), "nobody is here");
    world.engine.set_instances(&there, far("240.0.0.3"));
    let address = world.address(&[]);
    assert_eq!(address.as_deref(), Some("240.0.0.3:80"), "it is followed");
    let here = said("10.1.1.1", "240.0.0.1");
    let address = world.address(&[here]);
    assert_eq!(
        address.as_deref(),
        Some("240.0.0.1:80"),
        "who is here counts"
    );
    let address = world.address(&[]);
    assert_eq!(
        address.as_deref(),
        Some("240.0.0.1:80"),
        "clients know that one"
    );
    assert_eq!(world.problem(), "");
}

#[test]
fn a_tagged_address_that_is_none_is_shown() {
    for (address, port, lines, said) in [
        ("db.example", 1, "", "`db.example` is not an IP address"),
        ("127.0.0.1", 1, "", "a loopback address"),
        ("240.0.0.1", 0, "", "its port 0 is outside 1-65535"),
        ("240.0.0.1", 70_000, "", "its port 70000 is outside 1-65535"),
    ] {
        let mut world = World::new(&format!("vip_from_tag = \"virtual\"\n{lines}"));
        let web = instance("10.1.1.1").tagged("virtual", address, port);
        assert_eq!(world.address(&[web]), None);
        assert!(world.problem().contains(said), "{}", world.problem());
    }
    let mut world = World::new("vip_from_tag = \"virtual\"");
    assert_eq!(world.address(&[instance("10.1.1.1")]), None);
    assert!(world.problem().contains("no instance has the tagged"));
}

#[test]
fn a_claimed_address_is_waited_for() {
    let mut world = World::new("vip_from_range = \"10.200.0.0/24\"\nport = 80");
    assert_eq!(world.address(&[instance("10.1.1.1")]), None);
    assert!(!world.engine.is_synced());
    let id = world.engine.claimed().next().unwrap().id.clone();
    world.engine.set_claim(&id, Err("no right".to_owned()));
    assert_eq!(world.address(&[]), None, "there is no service");
    assert!(world.engine.is_synced());
    assert_eq!(world.problem(), "no right");
    world
        .engine
        .set_claim(&id, Ok("10.200.0.7".parse().unwrap()));
    let address = world.address(&[instance("10.1.1.1")]);
    assert_eq!(address.as_deref(), Some("10.200.0.7:80"));
    world.engine.set_claim(&id, Err("no right".to_owned()));
    let still = world.address(&[instance("10.1.1.2")]);
    assert_eq!(still.as_deref(), Some("10.200.0.7:80"));
}
