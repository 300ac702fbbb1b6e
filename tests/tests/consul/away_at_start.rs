//! A Consul that does not answer when an agent starts, or when a resolver leads there, holds back no other one, and
//! takes nothing from what the kernel has.

use std::{thread, time::Duration};

use serde_json::{Value, json};
use shunt_tests::{Consul, Continuous, Sandbox, addresses};

use crate::{
    joined::two_datacenters,
    relay::Relay,
    world::{Plan, REQUEST, SERVED, SOON, WEB, World, ground, registration, web},
};

/// A short time in which removals wait, and one in which they would be over.
const SETTLE: [&str; 2] = ["--consul-settle", "1s"];
const SETTLED: Duration = Duration::from_secs(3);

/// Returns whether a question is for this datacenter.
fn is_near(path: &str) -> bool {
    !path.contains("dc=dc2")
}

/// Registers an instance d of `web` in dc2.
fn register_far(sandbox: &Sandbox, far: &Consul) {
    let body = json!({
        "Name": "web", "ID": "d", "Address": addresses::POD_D.to_string(), "Port": SERVED,
    });
    let register = "/v1/agent/service/register";
    far.put(sandbox.node2(), register, &body).unwrap();
}

/// Returns whether this query is not up to date.
fn is_missed(query: &'static str) -> impl Fn(&Value) -> bool {
    move |source| {
        let stale = source["stale"].as_array();
        stale.is_some_and(|stale| stale.iter().any(|one| one["service"] == query))
    }
}

#[test]
fn a_first_answer_after_a_lost_contact_stays() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let plan = Plan::new(WEB);
    let consul = Consul::start(&binary, sandbox.node(), plan.consul.clone()).unwrap();
    // Consul answers with the agent's identity, and then not any more.
    let relay = Relay::start(sandbox.node(), |path| path.starts_with("/v1/agent/self"));
    let mut plan = plan;
    plan.environment = Relay::environment();
    plan.flags = SETTLE.map(str::to_owned).to_vec();
    let world = World::with_a(sandbox, consul, plan);
    world.await_source("web is missed", is_missed("web"));
    relay.pass_all();
    world.await_backends(&[addresses::POD_A]);
    thread::sleep(SETTLED);
    world.await_pods(&["pod-a"]);
    assert_eq!(world.backends().len(), 1, "{:#}", world.source());
}

#[test]
fn a_datacenter_that_was_away_at_the_start_stays_when_it_has_answered() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let (near, far) = two_datacenters(&sandbox, &binary);
    register_far(&sandbox, &far);
    let relay = Relay::start(sandbox.node(), is_near);
    let mut plan = Plan::new(&format!("{WEB}failover = [\"dc2\"]\n"));
    plan.environment = Relay::environment();
    plan.flags = SETTLE.map(str::to_owned).to_vec();
    let world = World::around(sandbox, near, plan, |_, _, _| {});
    world.await_source("dc2 is missed", is_missed("web in dc2"));
    relay.pass_all();
    world.await_backends(&[addresses::POD_D]);
    thread::sleep(SETTLED);
    assert_eq!(world.backends().len(), 1, "{:#}", world.source());
    world.await_pods(&["pod-d"]);
}

#[test]
fn a_datacenter_that_is_nowhere_holds_back_only_who_needs_it() {
    let api = "[[frontend]]\nservice = \"api\"\nvip = \"10.200.0.2\"\nport = 80\n\
               failover = [\"nowhere\"]\n\n";
    let plan = Plan::new(&format!("{api}{WEB}failover = [\"nowhere\"]\n"));
    let Some(world) = World::with(plan, |sandbox, consul, _| {
        let body = registration("a", addresses::POD_A, "passing");
        consul
            .put(sandbox.node(), "/v1/catalog/register", &body)
            .unwrap();
    }) else {
        return;
    };
    world.await_backends(&[addresses::POD_A]);
    let frontends = world.frontends();
    assert_eq!(
        frontends.len(),
        1,
        "the other one still waits: {frontends:?}"
    );
    // And not for ever.
    let decided = shunt_tests::wait_until("it has no instance", 3 * SOON, || {
        (world.frontends().len() == 2).then_some(())
    });
    decided.unwrap();
}

#[test]
fn failed_over_connections_last_through_a_restart_while_their_datacenter_is_away() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let (near, far) = two_datacenters(&sandbox, &binary);
    register_far(&sandbox, &far);
    let relay = Relay::start(sandbox.node(), |_| true);
    let api = "[[frontend]]\nservice = \"api\"\nvip = \"10.200.0.2\"\nport = 80\n\n";
    let mut plan = Plan::new(&format!("{api}{WEB}failover = [\"dc2\"]\n"));
    plan.environment = Relay::environment();
    let world = World::around(sandbox, near, plan, |_, _, _| {});
    world.await_pods(&["pod-d"]);
    let mut open = world.pod().enter(|| web().connect().unwrap());
    let traffic = Continuous::start(world.pod(), web(), REQUEST);
    relay.change(is_near);
    let world = world.restart(|_, _| {});
    world.await_source("all that can be is there", |source| {
        source["synced"] == true
    });
    world.await_source("dc2 is missed", is_missed("web in dc2"));
    traffic.wait_for(50, SOON).unwrap();
    world.await_backends(&[addresses::POD_D]);
    open.echo(REQUEST).unwrap();
    relay.pass_all();
    world.await_source("dc2 is heard", |source| !is_missed("web in dc2")(source));
    traffic.wait_for(50, SOON).unwrap();
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{sample:?}");
    }
    open.echo(REQUEST).unwrap();
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
}

#[test]
fn a_changed_resolver_takes_nothing_before_its_first_target_has_answered() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let (near, far) = two_datacenters(&sandbox, &binary);
    register_far(&sandbox, &far);
    let relay = Relay::start(sandbox.node(), is_near);
    let mut plan = Plan::new(&format!("{WEB}failover = \"resolver\"\n"));
    plan.environment = Relay::environment();
    let world = World::with_a(sandbox, near, plan);
    world.await_pods(&["pod-a"]);
    let traffic = Continuous::start(world.pod(), web(), REQUEST);
    let redirect = json!({
        "Kind": "service-resolver", "Name": "web", "Redirect": { "Datacenter": "dc2" },
    });
    world.put("/v1/config", &redirect);
    world.await_source("dc2 is missed", is_missed("web in dc2"));
    traffic.wait_for(50, SOON).unwrap();
    world.await_backends(&[addresses::POD_A]);
    relay.pass_all();
    world.await_pods(&["pod-d"]);
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{sample:?}");
    }
}
