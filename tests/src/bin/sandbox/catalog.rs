//! The same sandbox with Consul in place of events: instances come, fall ill and go, and clients follow.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use shunt_tests::{
    Agent, Consul, ConsulSettings, PinDir, Sandbox, Target, addresses, has_ipv6, interrupt,
    wait_until,
};

use crate::progress::Progress;

/// Port of the pods, and address for clients.
const SERVED: u16 = 8080;
const VIP: &str = "10.200.0.1";

/// The configuration of the agent.
const FRONTENDS: &str = "[[frontend]]\nservice = \"web\"\nvip = \"10.200.0.1\"\nport = 80\n";

/// Time that a change may take to reach the clients.
const SOON: Duration = Duration::from_secs(20);

/// The steps, one after the other: the event, its pod, the check's status, and the pods that answer then.
const STEPS: [(&str, &str, &str, &[&str]); 6] = [
    ("pod-a is registered", "pod-a", "passing", &["pod-a"]),
    (
        "pod-b is registered",
        "pod-b",
        "passing",
        &["pod-a", "pod-b"],
    ),
    (
        "pod-d of the second node is registered",
        "pod-d",
        "passing",
        &["pod-a", "pod-b", "pod-d"],
    ),
    (
        "pod-a is critical: it drains",
        "pod-a",
        "critical",
        &["pod-b", "pod-d"],
    ),
    (
        "pod-a is well again",
        "pod-a",
        "passing",
        &["pod-a", "pod-b", "pod-d"],
    ),
    ("pod-b is deregistered", "pod-b", "", &["pod-a", "pod-d"]),
];

/// Shows all of it, with this agent and this Consul. Returns whether all went as it should.
pub(crate) fn demonstrate(agent: &Path, consul: &Path, connections: u32) -> Result<bool> {
    let progress = Progress::start();
    progress.say("sandbox", "two nodes, their pods and a client outside");
    let mut sandbox = Sandbox::new()?;
    for pod in ["pod-a", "pod-b", "pod-d"] {
        sandbox.serve(pod, &[SERVED])?;
    }
    let node = sandbox.node();
    let consul = Consul::start(consul, node, ConsulSettings::new(addresses::NODE))?;
    progress.say(
        "consul",
        format_args!("one server on this node, at {}", consul.at()),
    );
    let (pins, folder) = (PinDir::new().with_mount(), tempfile::tempdir()?);
    let file = folder.path().join("frontends.toml");
    fs::write(&file, FRONTENDS)?;
    let file = file.display().to_string();
    let mut flags = vec!["--consul-config", &file, "--pod-cidr", addresses::POD_CIDR];
    if !has_ipv6() {
        flags.extend(["--ip-families", "ipv4"]);
    }
    for interface in ["eth0", "eth1", "pod-a", "pod-b", "pod-c"] {
        flags.extend(["--interface", interface]);
    }
    let agent = Agent::follow_consul(agent, node, &pins, &[], &flags)?;
    progress.say("agent", format_args!("ready, process {}", agent.pid()));
    let mut is_right = true;
    for (what, pod, status, expected) in STEPS {
        interrupt::check()?;
        let since = Instant::now();
        tell(&consul, &sandbox, pod, status)?;
        let found = answered_by(&sandbox, expected);
        let took = since.elapsed().as_millis();
        match found {
            Ok(()) => progress.say(
                "catalog",
                format_args!("{what}: {} answer after {took} ms", expected.join(", ")),
            ),
            Err(error) => {
                is_right = false;
                progress.say("catalog", format_args!("WRONG: {what}: {error:#}"));
            }
        }
    }
    for (client, namespace) in [
        ("a client pod", sandbox.pod("pod-c").namespace()),
        ("a client outside", sandbox.outside()),
    ] {
        let tally =
            namespace.enter(|| target().map(|target| target.ask_times(connections, 100)))?;
        let failures = tally.failures.len();
        is_right &= failures == 0;
        let shares = tally.shares.values();
        let shares: Vec<String> = shares
            .map(|share| format!("{} {}", share.name, share.connections))
            .collect();
        progress.say(
            "traffic",
            format_args!("{client}: {}, {failures} failures", shares.join(", ")),
        );
    }
    if !is_right {
        println!("\nThe agent's log:\n{}", agent.log());
    }
    Ok(is_right)
}

fn target() -> Result<Target> {
    let vip: IpAddr = VIP.parse().context("the address")?;
    Ok(Target::tcp(SocketAddr::new(vip, 80)))
}

/// Registers a pod with this health; deregisters it if it is to have none.
fn tell(consul: &Consul, sandbox: &Sandbox, pod: &str, status: &str) -> Result<()> {
    let node = sandbox.node();
    if status.is_empty() {
        let body = json!({ "Node": "n2", "ServiceID": pod });
        consul.put(node, "/v1/catalog/deregister", &body)?;
        return Ok(());
    }
    let address = sandbox.pod(pod).address().to_string();
    let body: Value = json!({
        "Node": "n2",
        "Address": addresses::NODE2.to_string(),
        "Service": { "Service": "web", "ID": pod, "Address": address, "Port": SERVED },
        "Check": { "Node": "n2", "CheckID": pod, "Name": "c", "Status": status, "ServiceID": pod },
    });
    consul.put(node, "/v1/catalog/register", &body)?;
    Ok(())
}

/// Waits until exactly these pods answer.
fn answered_by(sandbox: &Sandbox, pods: &[&str]) -> Result<()> {
    let expected: BTreeSet<&str> = pods.iter().copied().collect();
    let target = target()?.within(Duration::from_millis(500));
    let mut last = BTreeSet::new();
    let client = sandbox.pod("pod-c").namespace();
    let found = wait_until("the right pods answer", SOON, || {
        let tally = client.enter(|| target.ask_times(24, 100));
        last = tally
            .shares
            .values()
            .map(|share| share.name.clone())
            .collect();
        let is_right = tally.failures.is_empty()
            && last.iter().map(|name| &**name).eq(expected.iter().copied());
        is_right.then_some(())
    });
    if let Err(error) = found {
        bail!("{error}: {last:?} answer");
    }
    Ok(())
}
