//! The listener of kubelet's probes.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use serde_json::Value;
use shunt_tests::{PinDir, Sandbox, http_get, wait_until};

use crate::{
    command::shunt_at,
    config::Config,
    interfaces::frontend_interfaces,
    tun::Tun,
    world::{SERVED, Unattended, World, binary, resync, try_start_agent_with},
};

/// The address of the manifests, without its port, which is the default.
const PROBED: [&str; 2] = ["--probe-bind-address", "127.0.0.1"];
const PORT: u16 = 10_268;

/// Longer than the agent waits before it tries an address again.
const SOON: Duration = Duration::from_secs(10);

impl World {
    /// The status with which a probe is answered, and the words.
    pub(crate) fn probe(&self, path: &str) -> (u16, String) {
        let answer = self.get(Ipv4Addr::LOCALHOST, PORT, path);
        (answer.status, answer.body)
    }
}

fn proxy_configuration(healthz: &str) -> String {
    format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
         healthzBindAddress: \"{healthz}\"\nmetricsBindAddress: \"\"\n"
    )
}

#[test]
fn no_configuration_of_kube_proxy_moves_the_probes() {
    for (name, healthz, answering) in [
        ("nothing-said", "", 10_256),
        ("elsewhere", "127.0.0.1:20256", 20_256),
    ] {
        let config = Config::new(&format!("probes-{name}"), &proxy_configuration(healthz));
        let flags = [&["--config", config.path()], &PROBED[..]].concat();
        let Some(world) = World::with_flags(&flags) else {
            return;
        };
        for path in ["/livez", "/readyz"] {
            assert_eq!(world.probe(path).0, 200, "{name}: {path}");
        }
        // What is for load balancers is not asked here.
        assert_eq!(world.probe("/healthz").0, 404, "{name}");
        let answer = world.get(Ipv4Addr::LOCALHOST, answering, "/healthz");
        assert_eq!(answer.status, 200, "{name}");
        let metrics = world.get(Ipv4Addr::LOCALHOST, 10_249, "/metrics").body;
        let counted = "kubeproxy_proxy_livez_total{code=\"200\"} 1";
        assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    }
}

#[test]
fn probes_are_answered_where_health_is_not() {
    let flags = [&PROBED[..], &["--healthz-bind-address", ""]].concat();
    let Some(world) = World::with_flags(&flags) else {
        return;
    };
    assert_eq!(world.probe("/livez").0, 200);
    // A client that is not on this node gets no answer.
    let address = SocketAddr::new(shunt_tests::addresses::NODE, PORT);
    let outside = world.sandbox.outside();
    outside
        .enter(|| http_get(address, "/livez", &[]))
        .unwrap_err();
}

#[test]
fn an_agent_is_ready_after_its_first_resync() {
    let Some(sandbox) = Sandbox::serving(SERVED) else {
        return;
    };
    let pins = PinDir::new();
    let mut world = Unattended { pins, sandbox }.start(&PROBED);
    assert_eq!(world.probe("/livez").0, 200);
    let waits = (503, "no Resync was applied yet".to_owned());
    assert_eq!(world.probe("/readyz"), waits);
    world.apply(&resync());
    assert_eq!(world.probe("/readyz"), (200, "ok".to_owned()));
    // The next one has to apply one of its own, whatever is pinned.
    let mut world = world.killed().start(&PROBED);
    assert_eq!(world.probe("/readyz"), waits);
    world.apply(&resync());
    assert_eq!(world.probe("/readyz").0, 200);
}

#[test]
fn an_agent_whose_hook_failed_is_not_ready() {
    const IEEE802154: libc::c_ulong = 804;
    let Some(mut world) = World::with_flags(&PROBED) else {
        return;
    };
    let tun = Tun::new(world.sandbox.node(), "radio");
    tun.claim(IEEE802154);
    world.apply(&frontend_interfaces(&["eth0", "radio"]));
    let await_readiness = |world: &World, wanted: u16| {
        let ready = || Some(world.probe("/readyz")).filter(|(status, _)| *status == wanted);
        wait_until("the answer is the right one", SOON, ready).unwrap()
    };
    let (_, reason) = await_readiness(&world, 503);
    assert!(
        reason.starts_with("a hook failed: radio: ") && reason.contains("link type 804"),
        "{reason}"
    );
    assert_eq!(world.probe("/livez").0, 200, "a restart would not cure it");
    // The next agent meets the same.
    let mut world = world.killed().start(&PROBED);
    world.apply(&resync());
    world.apply(&frontend_interfaces(&["eth0", "radio"]));
    await_readiness(&world, 503);
    drop(tun);
    await_readiness(&world, 200);
}

/// `bindAddressHardFail` is a setting of kube-proxy's, and has no effect here either.
#[test]
fn a_probe_address_that_is_taken_is_tried_again() {
    let Some(world) = World::new() else {
        return;
    };
    let node = world.sandbox.node();
    let holder = node.enter(|| TcpListener::bind(("127.0.0.1", PORT)).unwrap());
    let pins = PinDir::new();
    let flags = [&PROBED[..], &["--bind-address-hard-fail"]].concat();
    let agent = try_start_agent_with(&binary(), node, &pins, &flags).unwrap();
    let problem = || {
        let ran = shunt_at(agent.socket(), &["status", "-o", "json"], "");
        let listeners = ran.json()["listeners"].clone();
        assert_eq!(listeners.as_array().unwrap().len(), 1, "{ran:?}");
        assert_eq!(listeners[0]["name"], "probes");
        listeners[0]["problem"].clone()
    };
    let said = problem();
    assert!(
        said.as_str().unwrap().contains("Address already in use"),
        "{said}"
    );
    drop(holder);
    wait_until("the address is had", SOON, || {
        (problem() == Value::Null).then_some(())
    })
    .unwrap();
    assert_eq!(world.probe("/livez").0, 200);
}
