//! Machines outside the cluster (ExternalWorkloads), as lookups know them.

use std::{collections::BTreeMap, num::NonZeroU16, sync::Arc};

use shunt_model::{
    Mesh, MeshIdentity, Phase, Workload, WorkloadId, WorkloadKind, WorkloadOwner, WorkloadPort,
};

use crate::{
    objects::{
        external_workload::{DeclaredPort, ExternalWorkload, Group, MeshTls},
        opaque_ports::opaque_ports,
        service::protocol,
    },
    pods::{Known, Pods},
    watch::step::Step,
};

/// The name of the port where a machine's proxy takes connections of other proxies, and the port without one
/// (linkerd2, pkg/k8s/labels.go, `ProxyPortName`).
const PROXY_PORT: &str = "linkerd-proxy";
const DEFAULT_PROXY_PORT: NonZeroU16 = NonZeroU16::new(4143).unwrap();

/// All machines that are followed. To lookups two of one name are one, since a group is no part of it: then
/// that of our group counts.
#[derive(Debug, Default)]
pub(super) struct Machines(BTreeMap<Arc<WorkloadId>, BTreeMap<Group, Known>>);

impl Machines {
    /// Takes note of machines of a group, and has the renderer get them.
    pub(super) fn take(&mut self, group: Group, step: Step<ExternalWorkload>, told: &mut Pods) {
        match step {
            Step::Listed(list) => {
                let ids = self.0.keys();
                let ids = ids.filter(|id| !list.keeps(&id.namespace, &id.name));
                let ids: Vec<Arc<WorkloadId>> = ids.cloned().collect();
                let list = list.objects.iter();
                let mut list: BTreeMap<_, _> = list.map(|one| (id(one), known(one))).collect();
                for id in ids {
                    let listed = list.remove(&id).flatten();
                    self.set(group, id, listed, told);
                }
                for (id, workload) in list {
                    self.set(group, id, workload, told);
                }
            }
            Step::Applied(one) => self.set(group, id(&one), known(&one), told),
            Step::Deleted(one) => self.set(group, id(&one), None, told),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
    }

    fn set(&mut self, group: Group, id: Arc<WorkloadId>, workload: Option<Known>, told: &mut Pods) {
        let known = self.0.entry(Arc::clone(&id)).or_default();
        match workload {
            Some(workload) => drop(known.insert(group, workload)),
            None => drop(known.remove(&group)),
        }
        let first = known.values().next().cloned();
        if first.is_none() {
            self.0.remove(&id);
        }
        told.set(id, first);
    }
}

fn id(machine: &ExternalWorkload) -> Arc<WorkloadId> {
    Arc::new(WorkloadId {
        kind: WorkloadKind::ExternalWorkload,
        namespace: machine.key.namespace.clone(),
        name: machine.key.name.clone(),
    })
}

/// Returns its workload for lookups, with its labels; `None`: it cannot be read.
fn known(machine: &ExternalWorkload) -> Option<Known> {
    let labels = machine.labels.iter();
    Some(Known {
        workload: workload(machine)?,
        labels: labels
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
    })
}

fn workload(machine: &ExternalWorkload) -> Option<Arc<Workload>> {
    let body = machine.body.as_ref().ok()?;
    let ports = body.ports.iter().filter_map(|port| {
        Some(WorkloadPort {
            name: (&*port.name).into(),
            port: port.port,
            protocol: protocol(Some(&port.protocol))?,
        })
    });
    let named = body.ports.iter().map(|port| (&*port.name, port.port.get()));
    let opaque = machine.opaque_ports.as_deref();
    let owner = machine.owner.as_ref();
    Some(Arc::new(Workload {
        id: id(machine),
        ips: body.ips.clone(),
        ports: ports.collect(),
        host_ports: Box::default(),
        node: None,
        phase: if machine.is_terminating {
            Phase::Terminating
        } else {
            Phase::Running
        },
        ready: Some(machine.is_ready),
        owner: owner.map(|(kind, name)| WorkloadOwner {
            kind: (&**kind).into(),
            name: (&**name).into(),
        }),
        opaque_ports: opaque.map(|text| opaque_ports(text, &named).into_iter().collect()),
        policy_opaque_ports: Box::default(),
        mesh: machine
            .mesh_tls
            .as_ref()
            .map(|tls| Box::new(mesh(tls, &body.ports))),
    }))
}

/// Returns the proxy of a machine. It has the port that is named for it, or linkerd's own.
fn mesh(tls: &MeshTls, ports: &[DeclaredPort]) -> Mesh {
    let MeshTls {
        identity,
        server_name,
    } = tls;
    let own = ports.iter().find(|port| &*port.name == PROXY_PORT);
    Mesh {
        identity: MeshIdentity::Uri {
            uri: (&**identity).into(),
            server_name: (&**server_name).into(),
        },
        inbound_port: own.map_or(DEFAULT_PROXY_PORT, |port| port.port),
        skipped_ports: Box::default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::objects::external_workload::{RawLinkerd, RawOwn};

    fn object(ip: &str) -> Value {
        json!({
            "metadata": {
                "namespace": "a", "name": "vm",
                "annotations": { "config.linkerd.io/opaque-ports": "db,25" },
                "ownerReferences": [{ "kind": "ExternalGroup", "name": "vms" }],
            },
            "spec": {
                "workloadIPs": [{ "ip": ip }, { "ip": "fd00::1" }],
                "ports": [
                    { "name": "db", "port": 5432 }, { "port": 53, "protocol": "UDP" },
                ],
            },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    fn own(ip: &str) -> ExternalWorkload {
        serde_json::from_value::<RawOwn>(object(ip)).unwrap().into()
    }

    fn linkerds(ip: &str) -> ExternalWorkload {
        let raw: RawLinkerd = serde_json::from_value(object(ip)).unwrap();
        raw.into()
    }

    /// The first address of the one machine, if there is one.
    fn first(told: &mut Pods) -> Option<String> {
        let all = told.all();
        assert!(all.len() <= 1, "{all:?}");
        Some(all.first()?.ips[0].to_string())
    }

    #[test]
    fn a_machine_is_reduced_to_where_it_answers() {
        let found = workload(&own("192.0.2.1")).unwrap();
        assert_eq!(found.id.to_string(), "ExternalWorkload a/vm");
        assert_eq!((found.phase, found.ready), (Phase::Running, Some(true)));
        let ports = found.ports.iter();
        let ports: Vec<_> = ports
            .map(|port| format!("{}/{}", port.port, port.protocol))
            .collect();
        assert_eq!(ports, ["5432/TCP", "53/UDP"]);
        let owner = found.owner.as_ref().unwrap();
        assert_eq!((&*owner.kind, &*owner.name), ("ExternalGroup", "vms"));
        let opaque = found.opaque_ports.iter().flatten();
        let opaque: Vec<_> = opaque.map(ToString::to_string).collect();
        assert_eq!(opaque, ["25", "5432"]);
        assert!(workload(&own("host")).is_none(), "nobody can read it");
    }

    #[test]
    fn a_machine_of_linkerds_has_the_identity_of_its_proxy() {
        let mut object = object("192.0.2.1");
        object["spec"]["meshTLS"] =
            json!({ "identity": "spiffe://a/vm", "serverName": "vm.example.org" });
        let mesh = |object: &Value| {
            let raw: RawLinkerd = serde_json::from_value(object.clone()).unwrap();
            workload(&raw.into()).unwrap().mesh.as_deref().cloned()
        };
        let expected = |port| Mesh {
            identity: MeshIdentity::Uri {
                uri: "spiffe://a/vm".into(),
                server_name: "vm.example.org".into(),
            },
            inbound_port: NonZeroU16::new(port).unwrap(),
            skipped_ports: Box::default(),
        };
        assert_eq!(mesh(&object), Some(expected(4143)));
        object["spec"]["ports"] = json!([
            { "name": "db", "port": 5432 }, { "name": "linkerd-proxy", "port": 4999 },
        ]);
        assert_eq!(mesh(&object), Some(expected(4999)));
        let ours: RawOwn = serde_json::from_value(object).unwrap();
        assert_eq!(workload(&ours.into()).unwrap().mesh, None);
    }

    #[test]
    fn of_two_of_one_name_that_of_our_group_counts() {
        let (mut machines, mut told) = (Machines::default(), Pods::default());
        let mut take = |group, step| {
            machines.take(group, step, &mut told);
            first(&mut told)
        };
        let (ours, theirs) = (|| own("192.0.2.1"), || linkerds("192.0.2.2"));
        let shown = |ip: &str| Some(ip.to_owned());
        let listed = Step::listed(vec![theirs()]);
        assert_eq!(take(Group::Linkerd, listed), shown("192.0.2.2"));
        assert_eq!(
            take(Group::Shunt, Step::Applied(ours())),
            shown("192.0.2.1")
        );
        assert_eq!(
            take(Group::Linkerd, Step::Applied(theirs())),
            shown("192.0.2.1")
        );
        assert_eq!(take(Group::Shunt, Step::listed(vec![])), shown("192.0.2.2"));
        assert_eq!(
            take(Group::Shunt, Step::Applied(own("host"))),
            shown("192.0.2.2")
        );
        assert_eq!(take(Group::Linkerd, Step::Deleted(theirs())), None);
    }
}
