//! An ExternalWorkload, of our own group (`workload.shunt.io/v1alpha1`) or of linkerd's
//! (`workload.linkerd.io/v1beta1`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    num::NonZeroU16,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;
use shunt_model::unusable;

use super::{
    address::Address,
    custom::CustomKind,
    external_workload_spec::{Port, ReadinessProbe, Spec},
    metadata::{Annotations, Metadata},
    null,
    readiness_probe::Probe,
    service::protocol,
};

/// The annotation that has the probe of a workload of linkerd's group.
const PROBE: &str = "workload.shunt.io/readiness-probe";

/// Group of an object's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Group {
    /// Ours.
    Shunt,
    /// linkerd's.
    Linkerd,
}

impl Group {
    /// Group and version, as objects and paths have them.
    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            Self::Shunt => "workload.shunt.io/v1alpha1",
            Self::Linkerd => "workload.linkerd.io/v1beta1",
        }
    }

    /// The kind that has to be defined.
    pub(crate) const fn kind(self) -> CustomKind {
        match self {
            Self::Shunt => CustomKind::ExternalWorkload,
            Self::Linkerd => CustomKind::LinkerdExternalWorkload,
        }
    }
}

/// Key of an ExternalWorkload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkloadKey {
    /// Its namespace.
    pub(crate) namespace: Box<str>,
    /// Its group.
    pub(crate) group: Group,
    /// Its name.
    pub(crate) name: Box<str>,
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            group,
            name,
        } = self;
        match group {
            Group::Shunt => write!(f, "ExternalWorkload {namespace}/{name}"),
            Group::Linkerd => write!(f, "ExternalWorkload {namespace}/{name} of linkerd"),
        }
    }
}

/// An ExternalWorkload, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExternalWorkload {
    /// Its identity.
    pub(crate) key: Arc<WorkloadKey>,
    /// Unique id, which no other object has or had.
    pub(crate) uid: Box<str>,
    /// Its version, of which a status is written.
    pub(crate) version: Box<str>,
    /// Number of changes of its spec.
    pub(crate) generation: i64,
    /// Its labels, all of them.
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    /// True if it is being deleted.
    pub(crate) is_terminating: bool,
    /// True if a condition shows that it is ready.
    pub(crate) is_ready: bool,
    /// The conditions of its status, as they are.
    pub(crate) conditions: Vec<Value>,
    /// Its content; `Err`: why that cannot be used.
    pub(crate) body: Result<Body, Box<str>>,
    /// Probe of its readiness, if it has one; `Err`: why that cannot be. Of our group the body cannot be used,
    /// either.
    pub(crate) probe: Option<Result<Arc<Probe>, Box<str>>>,
    /// Its owner, if that is one object: kind and name.
    pub(crate) owner: Option<(Box<str>, Box<str>)>,
    /// The ports whose protocol proxies are not to look into, by names and numbers; `None`: it names none.
    pub(crate) opaque_ports: Option<Box<str>>,
    /// The identity of its proxy, if it is part of linkerd's mesh.
    pub(crate) mesh_tls: Option<MeshTls>,
}

/// Identity of a proxy, which linkerd's group requires (`spec.meshTLS`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MeshTls {
    /// A URI, such as `spiffe://root.linkerd.cluster.local/vm`.
    pub(crate) identity: Box<str>,
    /// The name that clients give in TLS.
    pub(crate) server_name: Box<str>,
}

impl MeshTls {
    /// Reads it out of a spec. One that lacks a part is none: no peer could be verified by it.
    fn of(spec: &Value) -> Option<Self> {
        let found = Self::deserialize(spec.get("meshTLS")?).ok()?;
        let is_whole = !found.identity.is_empty() && !found.server_name.is_empty();
        is_whole.then_some(found)
    }
}

/// Content of an ExternalWorkload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    /// Its addresses, each once, in their order.
    pub(crate) ips: Box<[IpAddr]>,
    /// Texts that stand in place of addresses, and addresses that lead nowhere.
    pub(crate) bad_ips: Box<[Box<str>]>,
    /// Its ports.
    pub(crate) ports: Box<[DeclaredPort]>,
}

/// A port that a workload declares.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeclaredPort {
    /// Its number.
    pub(crate) port: NonZeroU16,
    /// Its name; empty if it has none.
    pub(crate) name: Box<str>,
    /// Its protocol, as it is written; TCP if it is not.
    pub(crate) protocol: Box<str>,
}

/// Object as it comes. Its content is read by itself, so that one that cannot be read does not take a list of
/// others along.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawWorkload {
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawMetadata {
    #[serde(flatten)]
    common: Metadata,
    #[serde(default)]
    labels: Option<BTreeMap<Box<str>, Box<str>>>,
    #[serde(
        rename = "ownerReferences",
        default,
        deserialize_with = "null::or_default"
    )]
    owners: Vec<RawOwner>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawOwner {
    kind: Box<str>,
    name: Box<str>,
}

/// One of our own group, as it comes.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct RawOwn(RawWorkload);

/// One of linkerd's group, as it comes.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct RawLinkerd(RawWorkload);

impl RawOwn {
    pub(crate) const fn metadata(&self) -> &Metadata {
        &self.0.metadata.common
    }
}

impl RawLinkerd {
    pub(crate) const fn metadata(&self) -> &Metadata {
        &self.0.metadata.common
    }
}

impl From<RawOwn> for ExternalWorkload {
    fn from(RawOwn(raw): RawOwn) -> Self {
        raw.read(Group::Shunt)
    }
}

impl From<RawLinkerd> for ExternalWorkload {
    fn from(RawLinkerd(raw): RawLinkerd) -> Self {
        raw.read(Group::Linkerd)
    }
}

impl RawWorkload {
    fn read(self, group: Group) -> ExternalWorkload {
        let Self {
            metadata:
                RawMetadata {
                    common,
                    labels,
                    owners,
                },
            spec,
            mut status,
        } = self;
        // The status may be anything: no key is taken of what is no object.
        let conditions = match status.get_mut("conditions").map(Value::take) {
            Some(Value::Array(conditions)) => conditions,
            _ => Vec::new(),
        };
        let mesh_tls = match group {
            // Its definition has no place for it.
            Group::Shunt => None,
            Group::Linkerd => MeshTls::of(&spec),
        };
        let mut spec = Spec::deserialize(spec).map_err(|error| format!("spec: {error}"));
        let probe = match (group, &mut spec) {
            (Group::Shunt, Ok(spec)) => spec.readiness_probe.take().map(own_probe),
            (Group::Shunt, Err(_)) => None,
            // Its definition has no place for it.
            (Group::Linkerd, _) => annotated_probe(common.annotations.as_ref()),
        };
        ExternalWorkload {
            key: Arc::new(WorkloadKey {
                namespace: common.namespace.unwrap_or_default(),
                group,
                name: common.name.unwrap_or_default(),
            }),
            uid: common.uid.unwrap_or_default(),
            version: common.resource_version.unwrap_or_default(),
            generation: common.generation.unwrap_or_default(),
            labels: labels.unwrap_or_default(),
            is_terminating: common.deletion_timestamp.is_some(),
            is_ready: conditions
                .iter()
                .any(|one| one["type"] == "Ready" && one["status"] == "True"),
            conditions,
            body: spec
                .and_then(Body::try_from)
                .and_then(|body| match (group, &probe) {
                    (Group::Shunt, Some(Err(error))) => Err(error.to_string()),
                    (Group::Shunt, _) => body.checked(),
                    (Group::Linkerd, _) => Ok(body),
                })
                .map_err(String::into_boxed_str),
            probe,
            owner: match <[RawOwner; 1]>::try_from(owners) {
                Ok([RawOwner { kind, name }]) => Some((kind, name)),
                Err(_) => None,
            },
            opaque_ports: common.annotations.and_then(|own| own.opaque_ports),
            mesh_tls,
        }
    }
}

fn own_probe(probe: ReadinessProbe) -> Result<Arc<Probe>, Box<str>> {
    let probe = Probe::try_from(probe);
    let probe = probe.map_err(|error| format!("spec.readinessProbe: {error}"));
    Ok(Arc::new(probe?))
}

/// Returns the probe of an annotation: in JSON, as the specs of our group have it.
fn annotated_probe(annotations: Option<&Annotations>) -> Option<Result<Arc<Probe>, Box<str>>> {
    let text = annotations?.readiness_probe.as_deref()?;
    let probe = serde_json::from_str::<ReadinessProbe>(text);
    let probe = probe.map_err(|error| error.to_string());
    let probe = probe.and_then(Probe::try_from);
    let named = |error| format!("the annotation {PROBE}: {error}").into_boxed_str();
    Some(probe.map(Arc::new).map_err(named))
}

impl TryFrom<Spec> for Body {
    type Error = String;

    fn try_from(spec: Spec) -> Result<Self, String> {
        let Spec {
            workload_ips,
            ports,
            readiness_probe: _,
        } = spec;
        let (mut ips, mut bad_ips) = (Vec::new(), Vec::new());
        for one in workload_ips.unwrap_or_default() {
            let text = one.ip.unwrap_or_default();
            match Address::of(&text) {
                Address::Ip(ip) if unusable(ip).is_some() || is_link_local(ip) => {
                    bad_ips.push(text);
                }
                Address::Ip(ip) if !ips.contains(&ip) => ips.push(ip),
                Address::Ip(_) => {}
                Address::Bad(text) => bad_ips.push(text),
            }
        }
        let ports = ports.unwrap_or_default().into_iter();
        let ports = ports.enumerate().map(|(index, port)| {
            let Port {
                name,
                port,
                protocol,
            } = port;
            Ok(DeclaredPort {
                port: NonZeroU16::new(port)
                    .ok_or_else(|| format!("spec.ports[{index}].port: 0 is no port"))?,
                name: name.unwrap_or_default(),
                protocol: protocol
                    .filter(|text| !text.is_empty())
                    .unwrap_or_else(|| "TCP".into()),
            })
        });
        Ok(Self {
            ips: ips.into(),
            bad_ips: bad_ips.into(),
            ports: ports.collect::<Result<_, String>>()?,
        })
    }
}

/// Slices do not take link-local addresses of either family.
const fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

impl Body {
    /// The same, if it is as the definition of our group wants it: a server that does not know the
    /// definition's rules, or an older definition, lets others pass.
    fn checked(self) -> Result<Self, String> {
        if let Some(bad) = self.bad_ips.first() {
            return Err(format!(
                "spec.workloadIPs: `{bad}` is no address that a client could reach"
            ));
        }
        for is_v4 in [true, false] {
            if self.ips.iter().filter(|ip| ip.is_ipv4() == is_v4).count() > 1 {
                return Err("spec.workloadIPs: more than one address of a family".to_owned());
            }
        }
        let mut names = BTreeSet::new();
        for DeclaredPort {
            name,
            protocol: own,
            ..
        } in &self.ports
        {
            if !name.is_empty() && !names.insert(name) {
                return Err(format!("spec.ports: two ports have the name `{name}`"));
            }
            if protocol(Some(own)).is_none() {
                return Err(format!(
                    "spec.ports: `{own}` is none of the protocols TCP, UDP and SCTP"
                ));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: &Value) -> Result<Body, Box<str>> {
        let raw: RawOwn = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        ExternalWorkload::from(raw).body
    }

    #[test]
    fn what_the_definition_forbids_is_refused_again() {
        let ips = |ips: &[&str]| {
            let ips: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
            json!({ "workloadIPs": ips })
        };
        let ports = |ports: Value| json!({ "ports": ports });
        for (spec, is_good) in [
            (ips(&["192.0.2.1", "fd00::1"]), true),
            (ips(&["192.0.2.1", "192.0.2.2"]), false),
            (ips(&["fd00::1", "fd00::2"]), false),
            (ips(&["host"]), false),
            (ips(&["127.0.0.1"]), false),
            (ips(&["169.254.1.1"]), false),
            (
                ports(json!([{ "port": 1, "name": "a" }, { "port": 2, "name": "b" }])),
                true,
            ),
            (
                ports(json!([{ "port": 1, "name": "a" }, { "port": 2, "name": "a" }])),
                false,
            ),
            (
                ports(json!([{ "port": 1 }, { "port": 2, "protocol": "SCTP" }])),
                true,
            ),
            (ports(json!([{ "port": 1, "protocol": "tcp" }])), false),
            (ports(json!([{ "port": 0 }])), false),
            (ports(json!([{ "port": 70000 }])), false),
            (ports(json!([{ "port": "80" }])), false),
            (ports(json!([{}])), false),
            (
                json!({ "readinessProbe": { "tcpSocket": { "port": 1 } } }),
                true,
            ),
            (json!({ "readinessProbe": {} }), false),
            (json!({ "readinessProbe": { "tcpSocket": {} } }), false),
            (json!({}), true),
            (json!(null), false),
            (json!("text"), false),
        ] {
            let found = read(&spec);
            assert_eq!(found.is_ok(), is_good, "{spec}: {found:?}");
        }
    }

    #[test]
    fn of_linkerds_what_can_be_used_is_used() {
        let raw: RawLinkerd = serde_json::from_value(json!({
            "metadata": {
                "namespace": "a", "name": "vm", "labels": { "app": "db" }, "generation": 3,
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{ "kind": "A", "name": "a" }, { "kind": "B", "name": "b" }],
            },
            "spec": {
                "meshTLS": { "identity": "spiffe://a", "serverName": "a" },
                "workloadIPs": [{ "ip": "192.0.2.010" }, { "ip": "nonsense" }, { "ip": "192.0.2.9" }],
                "ports": [{ "port": 80 }, { "port": 81, "protocol": "QUIC" }],
            },
            "status": { "conditions": [
                { "type": "Ready", "status": "False" }, { "type": "Ready", "status": "True" },
            ] },
        }))
        .unwrap();
        let found = ExternalWorkload::from(raw);
        assert_eq!(found.key.to_string(), "ExternalWorkload a/vm of linkerd");
        assert!(found.is_terminating && found.is_ready);
        let MeshTls {
            identity,
            server_name,
        } = found.mesh_tls.as_ref().unwrap();
        assert_eq!((&**identity, &**server_name), ("spiffe://a", "a"));
        assert_eq!((found.generation, found.conditions.len()), (3, 2));
        let body = found.body.as_ref().unwrap();
        let ips: Vec<String> = body.ips.iter().map(ToString::to_string).collect();
        assert_eq!(
            ips,
            ["192.0.2.10", "192.0.2.9"],
            "canonical, in their order"
        );
        assert_eq!(*body.bad_ips, ["nonsense".into()]);
        assert_eq!(found.owner, None, "it has two");
        let protocols: Vec<&str> = body.ports.iter().map(|port| &*port.protocol).collect();
        assert_eq!(protocols, ["TCP", "QUIC"]);
    }

    #[test]
    fn an_identity_that_lacks_a_part_is_none() {
        for mesh_tls in [
            json!(null),
            json!("spiffe://a"),
            json!({}),
            json!({ "identity": "spiffe://a" }),
            json!({ "identity": "spiffe://a", "serverName": "" }),
            json!({ "identity": "", "serverName": "a" }),
            json!({ "identity": 1, "serverName": "a" }),
        ] {
            let spec = json!({ "meshTLS": mesh_tls, "workloadIPs": [{ "ip": "192.0.2.9" }] });
            let raw: RawLinkerd =
                serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
            let found = ExternalWorkload::from(raw);
            assert_eq!(found.mesh_tls, None, "{mesh_tls}");
            assert!(found.body.is_ok(), "{mesh_tls}");
        }
    }

    #[test]
    fn one_that_cannot_be_read_is_known_by_its_name() {
        let raw: RawLinkerd = serde_json::from_value(json!({
            "metadata": { "namespace": "a", "name": "old", "labels": null },
            "spec": { "meshTls": {}, "ports": [{ "port": "http" }] },
        }))
        .unwrap();
        let found = ExternalWorkload::from(raw);
        assert_eq!(&*found.key.name, "old");
        assert!(found.body.unwrap_err().contains("spec:"));
        assert!(!found.is_ready, "it has no conditions");
    }
}
