//! Consul changes answers without another index: their content counts all the same.

use std::{collections::BTreeSet, fs, time::Duration};

use serde_json::json;
use shunt_tests::{Consul, ConsulSettings, addresses, wait_until};

use crate::{
    tls::{certificates, settings},
    world::{Plan, SERVED, WEB, World, ground, registration},
};

/// Longer than one wait of a query at Consul, which is 64 s at most.
const ONE_WAIT: Duration = Duration::from_secs(90);

const OTHER: &str = "[[frontend]]\nservice = \"other\"\nvip = \"10.200.0.2\"\nport = 80\n\n";

/// More services than there may be sockets.
pub(crate) fn many() -> String {
    let all = (0..61).map(|number| {
        format!(
            "[[frontend]]\nservice = \"s{number}\"\nvip = \"10.200.2.{}\"\nport = 80\n\n",
            number + 1
        )
    });
    all.collect()
}

/// The instance a of `web` is one of `other` from some time on.
fn a_renamed_instance_moves(world: &World, has_hints: bool) {
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_backends(&[addresses::POD_A]);
    assert_eq!(world.source()["hints"], has_hints);
    let mut renamed = registration("a", addresses::POD_A, "passing");
    renamed["Service"]["Service"] = json!("other");
    world.register(&renamed);
    let expected = [format!("{}:{SERVED}", addresses::POD_A)];
    let moved = wait_until("it is one of the other service", ONE_WAIT, || {
        let mut frontends = world.frontends();
        let other = frontends.remove("10.200.0.2:80").unwrap_or_default();
        let web = frontends.remove("10.200.0.1:80").unwrap_or_default();
        (web.is_empty() && other == BTreeSet::from(expected.clone())).then_some(())
    });
    assert!(
        moved.is_ok(),
        "{:#?}\n{}",
        world.frontends(),
        world.agent.log()
    );
}

#[test]
fn a_service_that_is_renamed_under_its_id_leaves_its_old_address() {
    if let Some(world) = World::with(Plan::new(&format!("{OTHER}{WEB}")), |_, _, _| {}) {
        a_renamed_instance_moves(&world, false);
    }
}

#[test]
fn a_service_that_is_renamed_leaves_its_old_address_with_hints_too() {
    let plan = Plan::new(&format!("{}{OTHER}{WEB}", many()));
    if let Some(world) = World::with(plan, |_, _, _| {}) {
        a_renamed_instance_moves(&world, true);
    }
}

#[test]
fn a_service_that_is_renamed_leaves_its_old_address_over_https_too() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    certificates(&binary, folder.path(), &crate::tls::BOTH);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let settings: ConsulSettings = settings(folder.path());
    let consul = Consul::start(&binary, sandbox.node(), settings).unwrap();
    let mut plan = Plan::new(&format!("{OTHER}{WEB}"));
    let variables = [
        ("CONSUL_HTTP_ADDR", "https://127.0.0.1:8501".to_owned()),
        ("CONSUL_CACERT", file("consul-agent-ca.pem")),
        ("CONSUL_TLS_SERVER_NAME", "server.dc1.consul".to_owned()),
        ("CONSUL_CLIENT_CERT", file("dc1-client-consul-0.pem")),
        ("CONSUL_CLIENT_KEY", file("dc1-client-consul-0-key.pem")),
    ];
    plan.environment = variables
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
    let world = World::around(sandbox, consul, plan, |_, _, _| {});
    a_renamed_instance_moves(&world, false);
}

/// The token may not read the node n3 at first, where the instance b is.
fn rights_that_are_given_back_are_seen(frontends: &str) {
    let rest = "service_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" } \
                agent_prefix \"\" { policy = \"read\" }";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let mut plan = Plan::new(frontends);
    plan.consul.acl = true;
    let Some(world) = World::with(plan, |sandbox, consul, plan| {
        let some = format!("{rest} node \"n3\" {{ policy = \"deny\" }}");
        let token = consul.token(sandbox.node(), "shunt", &some).unwrap();
        fs::write(&file, token).unwrap();
        plan.flags = vec!["--consul-token-file".to_owned(), file.display().to_string()];
    }) else {
        return;
    };
    world.register(&registration("a", addresses::POD_A, "passing"));
    let mut hidden = registration("b", addresses::POD_B, "passing");
    hidden["Node"] = json!("n3");
    hidden["Checks"][0]["Node"] = json!("n3");
    hidden["Address"] = json!("10.1.0.9");
    world.register(&hidden);
    world.await_backends(&[addresses::POD_A]);
    world
        .consul
        .change_policy(world.node(), "shunt", rest)
        .unwrap();
    let seen = wait_until("the hidden instance is seen", ONE_WAIT, || {
        (world.backends().len() == 2).then_some(())
    });
    assert!(seen.is_ok(), "{:#}\n{}", world.source(), world.agent.log());
}

#[test]
fn rights_that_are_given_back_are_seen_after_one_wait() {
    rights_that_are_given_back_are_seen(WEB);
}

#[test]
fn rights_that_are_given_back_are_seen_with_hints_too() {
    rights_that_are_given_back_are_seen(&format!("{}{WEB}", many()));
}
