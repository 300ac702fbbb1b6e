//! Reads of services, nodes and checks by clients: at once, or as soon as the answer is another.

use hyper::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};
use serde_json::json as value;
use shunt_catalog::{Check, LocalNode, NoPlace, Registered, Registrar, Registry, Status, Subject};
use shunt_http::{Answer, text, with_header};

use crate::local_api::{
    catalog::{self, CatalogService, ShownInstance},
    index::{index_and_wait, with_index},
    request::{Parameters, decoded},
    shown::{DATACENTER, ShownCheck, json},
};

/// Header with the age of an answer, in milliseconds.
const LAST_CONTACT: HeaderName = HeaderName::from_static("x-consul-lastcontact");

/// Header that shows whether the answer comes from one that knows it.
const KNOWN_LEADER: HeaderName = HeaderName::from_static("x-consul-knownleader");

/// The port where Consul's servers listen to each other. Here it has no listener.
const SERVER_PORT: u16 = 8300;

/// A read of what is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    /// The services of a name, with their checks.
    Health(String),
    /// The checks of the services of a name.
    ChecksOfName(String),
    /// All checks that have this status.
    ChecksInState(String),
    /// The checks of a node and its services.
    ChecksOfNode(String),
    /// The names of all services, with their tags.
    Names,
    /// The services of a name.
    Services(String),
    /// The nodes.
    Nodes,
    /// A node and its services.
    Node(String),
    /// The datacenters.
    Datacenters,
    /// The address of the leader.
    Leader,
    /// The addresses of the servers.
    Peers,
}

impl Read {
    /// Returns what a path asks for.
    pub(super) fn of(path: &str) -> Option<Self> {
        let path = path.strip_prefix("/v1/")?;
        let rest = |prefix: &str| path.strip_prefix(prefix).map(decoded);
        Some(match path {
            "catalog/services" => Self::Names,
            "catalog/nodes" => Self::Nodes,
            "catalog/datacenters" => Self::Datacenters,
            "status/leader" => Self::Leader,
            "status/peers" => Self::Peers,
            _ => None
                .or_else(|| rest("health/service/").map(Self::Health))
                .or_else(|| rest("health/checks/").map(Self::ChecksOfName))
                .or_else(|| rest("health/state/").map(Self::ChecksInState))
                .or_else(|| rest("health/node/").map(Self::ChecksOfNode))
                .or_else(|| rest("catalog/service/").map(Self::Services))
                .or_else(|| rest("catalog/node/").map(Self::Node))?,
        })
    }

    /// Returns what it waits for; `None`: it does not.
    fn subject(&self) -> Option<Subject> {
        Some(match self {
            Self::Health(name) | Self::ChecksOfName(name) | Self::Services(name) => {
                Subject::name(name)
            }
            Self::ChecksInState(_) | Self::ChecksOfNode(_) => Subject::All,
            Self::Names | Self::Node(_) => Subject::Services,
            Self::Nodes => Subject::Nodes,
            Self::Datacenters | Self::Leader | Self::Peers => return None,
        })
    }

    /// Returns what is missing in its path, in Consul's words.
    fn lacks(&self) -> Option<&'static str> {
        let (name, lacking) = match self {
            Self::Health(name) | Self::ChecksOfName(name) | Self::Services(name) => {
                (name, "Missing service name")
            }
            Self::ChecksInState(state) => (state, "Missing check state"),
            Self::ChecksOfNode(node) | Self::Node(node) => (node, "Missing node name"),
            Self::Names | Self::Nodes | Self::Datacenters | Self::Leader | Self::Peers => {
                return None;
            }
        };
        name.is_empty().then_some(lacking)
    }
}

/// Services and nodes that a client wants.
#[derive(Debug)]
struct Wanted {
    /// In lower case, all of them.
    tags: Vec<String>,
    /// True if all checks have to pass.
    is_passing: bool,
    /// True if only nodes with some meta are wanted: this one has none.
    is_elsewhere: bool,
}

impl Wanted {
    /// Reads the parameters, if Consul's agent would take them.
    fn of(asked: &Parameters) -> Result<Self, Box<Answer>> {
        let refused = |status, reason| Box::new(text(status, reason));
        let datacenter = asked.get("dc").unwrap_or_default();
        if !["", DATACENTER].contains(&datacenter) {
            let reason = "No path to datacenter";
            return Err(refused(StatusCode::INTERNAL_SERVER_ERROR, reason));
        }
        if asked.get("filter").is_some_and(|filter| !filter.is_empty()) {
            let reason = "filter is not evaluated here: ask without it, and choose from the answer";
            return Err(refused(StatusCode::BAD_REQUEST, reason));
        }
        let is_passing = match asked.get("passing") {
            // As Go reads it; without a value it means yes.
            Some("" | "1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            Some(_) => {
                let reason = "Invalid value for ?passing";
                return Err(refused(StatusCode::BAD_REQUEST, reason));
            }
        };
        let tags = asked.all("tag").iter().filter(|tag| !tag.is_empty());
        Ok(Self {
            tags: tags.map(|tag| tag.to_lowercase()).collect(),
            is_passing,
            is_elsewhere: !asked.all("node-meta").is_empty(),
        })
    }

    fn has(&self, registered: &Registered, registry: &Registry) -> bool {
        let service = &registered.service;
        let has_tag = |wanted: &String| {
            let mut tags = service.tags.iter();
            tags.any(|tag| tag.to_lowercase() == *wanted)
        };
        let mut checks = registry.known().checks_of(&service.id);
        !self.is_elsewhere
            && self.tags.iter().all(has_tag)
            && (!self.is_passing || checks.all(|it| registry.status(it) == Status::Passing))
    }
}

/// Answers a read, as soon as there is something that the client has not seen.
///
/// # Errors
///
/// The answer, if the read makes no sense or too many wait.
pub(super) async fn respond(
    registrar: &Registrar,
    read: Read,
    asked: &Parameters,
) -> Result<Answer, Box<Answer>> {
    if let Some(lacking) = read.lacks() {
        return Err(Box::new(text(StatusCode::BAD_REQUEST, lacking)));
    }
    let (index, wait) = index_and_wait(asked)?;
    let wanted = Wanted::of(asked)?;
    let Some(subject) = read.subject() else {
        return Ok(cluster(&read, registrar.node(), asked));
    };
    let waited = registrar.newer(subject.clone(), index, wait).await;
    waited.map_err(|NoPlace| {
        let reason = "too many wait for services to change: try again later";
        Box::new(text(StatusCode::SERVICE_UNAVAILABLE, reason))
    })?;
    let registry = registrar.look();
    let answer = shown(&read, &registry, registrar.node(), &wanted, asked);
    let answer = with_index(answer, registry.indexes().of(&subject));
    let answer = with_header(answer, LAST_CONTACT, HeaderValue::from_static("0"));
    let known = HeaderValue::from_static("true");
    Ok(with_header(answer, KNOWN_LEADER, known))
}

/// Answers for the cluster that there is: this host.
fn cluster(read: &Read, node: &LocalNode, asked: &Parameters) -> Answer {
    let address = catalog::address(node);
    let server = if address.contains(':') {
        format!("[{address}]:{SERVER_PORT}")
    } else {
        format!("{address}:{SERVER_PORT}")
    };
    match read {
        Read::Leader => json(&server, asked),
        Read::Peers => json(&[server], asked),
        _ => json(&[DATACENTER], asked),
    }
}

fn shown(
    read: &Read,
    registry: &Registry,
    node: &LocalNode,
    wanted: &Wanted,
    asked: &Parameters,
) -> Answer {
    let is_here = |name: &String| name.eq_ignore_ascii_case(&node.name);
    let all_of = |name: &str| {
        let name = name.to_lowercase();
        let services = registry.known().services();
        services
            .filter(move |it| it.service.name.to_lowercase() == name && wanted.has(it, registry))
    };
    let checks = |is_wanted: &dyn Fn(&Check) -> bool| {
        let checks = registry.known().checks();
        let checks = checks.filter(|check| !wanted.is_elsewhere && is_wanted(check));
        let shown = checks.map(|check| ShownCheck::in_catalog(check, registry, node));
        json(&shown.collect::<Vec<_>>(), asked)
    };
    match read {
        Read::Health(name) => {
            let shown = all_of(name).map(|it| ShownInstance::of(it, registry, node));
            json(&shown.collect::<Vec<_>>(), asked)
        }
        Read::Services(name) => {
            let shown = all_of(name).map(|it| CatalogService::of(it, registry, node));
            json(&shown.collect::<Vec<_>>(), asked)
        }
        Read::ChecksOfName(name) => {
            let name = name.to_lowercase();
            checks(&|check| {
                let service = registry.known().service(&check.service);
                service.is_some_and(|it| it.service.name.to_lowercase() == name)
            })
        }
        Read::ChecksInState(state) => {
            checks(&|check| state == "any" || *state == registry.status(check).name())
        }
        Read::ChecksOfNode(name) => checks(&|_| is_here(name)),
        Read::Names if wanted.is_elsewhere => json(&value!({}), asked),
        Read::Names => json(&catalog::names(registry), asked),
        Read::Node(name) if is_here(name) => json(&catalog::node(registry, node), asked),
        Read::Node(_) => json(&(), asked),
        _ if wanted.is_elsewhere => json(&value!([]), asked),
        _ => json(&[catalog::ShownNode::of(registry, node)], asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_what_consuls_clients_read() {
        let web = || "web/\u{fc}".to_owned();
        for (path, read) in [
            ("health/service/web%2F%C3%BC", Read::Health(web())),
            ("health/checks/web/%C3%BC", Read::ChecksOfName(web())),
            ("health/state/any", Read::ChecksInState("any".to_owned())),
            ("health/node/n1", Read::ChecksOfNode("n1".to_owned())),
            ("catalog/services", Read::Names),
            ("catalog/service/web/%C3%BC", Read::Services(web())),
            ("catalog/nodes", Read::Nodes),
            ("catalog/node/n1", Read::Node("n1".to_owned())),
            ("catalog/datacenters", Read::Datacenters),
            ("status/leader", Read::Leader),
            ("status/peers", Read::Peers),
        ] {
            assert_eq!(Read::of(&format!("/v1/{path}")), Some(read), "{path}");
        }
        for path in ["/v1/health/", "/v1/catalog/register", "/v1/kv/a", "/"] {
            assert_eq!(Read::of(path), None, "{path}");
        }
    }

    #[test]
    fn parameters_are_taken_as_consul_takes_them() {
        for (query, status) in [
            ("", None),
            ("dc=local&tag=a&tag=B&passing&near=_agent&stale", None),
            ("dc=other", Some(500)),
            ("passing=maybe", Some(400)),
            ("filter=Service.Port==80", Some(400)),
        ] {
            let wanted = Wanted::of(&Parameters::of(Some(query)));
            let refused = wanted.as_ref().err().map(|it| it.status().as_u16());
            assert_eq!(refused, status, "{query}");
            if let (Ok(wanted), true) = (wanted, query.contains("tag")) {
                assert_eq!(wanted.tags, ["a", "b"]);
                assert!(wanted.is_passing);
            }
        }
    }
}
