//! Datacenters that know each other: a server each, joined by their gossip.

use std::{net::IpAddr, path::Path};

use serde_json::{Value, json};
use shunt_tests::{Consul, ConsulSettings, Namespace, Sandbox, addresses, wait_until};

use crate::world::SOON;

/// The datacenter of the client, which is the primary one.
pub(crate) const NEAR: &str = "dc1";

/// Address of its server for others.
const NEAR_SERVER: &str = "192.168.16.10:8602";

/// Ports that servers of other datacenters reach.
pub(crate) fn ports() -> Value {
    json!({
        "http": 8500, "dns": -1, "grpc": -1, "server": 8600, "serf_lan": 8601, "serf_wan": 8602,
    })
}

/// The server of a datacenter. Others than the near one join that.
pub(crate) fn server(datacenter: &str, address: IpAddr) -> ConsulSettings {
    let mut further = json!({
        "datacenter": datacenter,
        "primary_datacenter": NEAR,
        "ports": ports(),
        // Neither a member nor its distance is waited for any longer than it has to be.
        "gossip_wan": { "probe_interval": "200ms", "probe_timeout": "150ms" },
    });
    let is_near = datacenter == NEAR;
    if !is_near {
        further["retry_join_wan"] = json!([NEAR_SERVER]);
        further["retry_interval_wan"] = json!("1s");
    }
    ConsulSettings {
        node: if is_near {
            "n1".to_owned()
        } else {
            format!("far-{datacenter}")
        },
        further,
        ..ConsulSettings::new(address)
    }
}

/// Waits until the near server may ask `far`, which is the one of `datacenter`.
#[track_caller]
pub(crate) fn await_joined(near: &Consul, node: &Namespace, datacenter: &str, far: &Consul) {
    let path = format!("/v1/health/service/consul?dc={datacenter}");
    let joined = wait_until("the other datacenter is known", SOON, || {
        let answer = near.ask(node, "GET", &path, "").ok()?;
        (answer.status == 200).then_some(())
    });
    joined.unwrap_or_else(|error| panic!("{error}\n{}\n{}", near.log(), far.log()));
}

/// dc1 on this node, and dc2 on the second one.
pub(crate) fn two_datacenters(sandbox: &Sandbox, binary: &Path) -> (Consul, Consul) {
    let [node, node2] = [sandbox.node(), sandbox.node2()];
    let near = Consul::launch(binary, node, server(NEAR, addresses::NODE)).unwrap();
    let far = Consul::launch(binary, node2, server("dc2", addresses::NODE2)).unwrap();
    near.wait(node).unwrap();
    far.wait(node2).unwrap();
    await_joined(&near, node, "dc2", &far);
    (near, far)
}
