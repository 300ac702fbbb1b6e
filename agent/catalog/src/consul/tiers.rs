//! The tiers of a frontend, where Consul decides them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::Deserialize;
use shunt_model::ServiceId;
use tokio::{sync::mpsc, task::JoinSet, time::interval};

use crate::{
    consul::{
        http::{client::Client, error::AskError},
        objects::{null, part, read},
        watch::{
            hinted::Hinted,
            path::{Heard, Taken, follow},
            told::{News, Reason, Told, Topic, Trouble},
        },
    },
    instances::{
        frontend::Frontend,
        tier::{Datacenter, Failover, Tier},
    },
};

/// Interval of the requests for the near datacenters: these do not block.
const NEAR_AGAIN: Duration = Duration::from_mins(1);
const LIMIT: Duration = Duration::from_secs(10);

/// The tiers of a frontend.
#[derive(Debug)]
pub(super) struct Tiered {
    pub(super) id: Arc<ServiceId>,
    pub(super) tiers: Vec<Tier>,
    /// Targets of the answer that are no tiers here, and why.
    pub(super) skipped: Vec<String>,
}

/// Path of all resolvers. Whatever a chain is made of changes its index.
const RESOLVERS: &str = "/v1/config/service-resolver";

/// Begins to follow the sources of these frontends' tiers, in datacenter `own`. If there are too many queries for one
/// each, one of all resolvers gives hints for chains.
pub(super) fn follow_tiers<'a>(
    tasks: &mut JoinSet<()>,
    client: &Client,
    own: &str,
    frontends: impl Iterator<Item = &'a Frontend>,
    told: &mpsc::Sender<Told>,
    tiered: &mpsc::UnboundedSender<Tiered>,
    needs_hints: bool,
) {
    let mut resolved = BTreeMap::<Box<str>, Vec<Arc<ServiceId>>>::new();
    let mut near = Vec::new();
    for frontend in frontends {
        match frontend.failover {
            Failover::Resolver => {
                let service = resolved.entry(frontend.service.clone()).or_default();
                service.push(Arc::clone(&frontend.id));
            }
            Failover::Datacenters { .. } => near.push(frontend.clone()),
        }
    }
    let hinted = (needs_hints && !resolved.is_empty()).then(Arc::<Hinted>::default);
    if let Some(hinted) = hinted.clone() {
        let (client, told) = (client.clone(), told.clone());
        tasks.spawn(async move {
            let (topic, heard) = (Topic::Resolvers, Heard::All(&hinted));
            let take = |_: &[u8]| Ok(Taken::News);
            follow(client, RESOLVERS, topic, told, take, heard).await;
        });
    }
    for (service, ids) in resolved {
        let waiter = hinted.as_ref().map(|hinted| hinted.add(&service));
        let (client, told, tiered) = (client.clone(), told.clone(), tiered.clone());
        let own: Box<str> = own.into();
        tasks.spawn(async move {
            let path = format!("/v1/discovery-chain/{}", part(&service));
            let take = |body: &[u8]| {
                let Resolved { tiers, skipped } = resolved_tiers(body, &own)?;
                for id in &ids {
                    // The receiver is gone when the agent ends.
                    drop(tiered.send(Tiered {
                        id: Arc::clone(id),
                        tiers: tiers.clone(),
                        skipped: skipped.clone(),
                    }));
                }
                Ok(Taken::News)
            };
            let topic = Topic::Resolver(service.clone());
            let heard = waiter.as_ref().map_or(Heard::Nothing, Heard::Waits);
            follow(client, &path, topic, told, take, heard).await;
        });
    }
    if !near.is_empty() {
        let (client, told, tiered) = (client.clone(), told.clone(), tiered.clone());
        tasks.spawn(by_distance(client, own.into(), near, told, tiered));
    }
}

/// Requests the near datacenters again and again, and sends a new answer to its receivers.
async fn by_distance(
    client: Client,
    own: Box<str>,
    frontends: Vec<Frontend>,
    told: mpsc::Sender<Told>,
    tiered: mpsc::UnboundedSender<Tiered>,
) {
    let mut known = None;
    let mut stale_since = None;
    let mut tick = interval(NEAR_AGAIN);
    loop {
        tick.tick().await;
        let path = "/v1/catalog/datacenters";
        let answer = client.get(0, path, LIMIT).await;
        let near = answer.and_then(|answer| read::<Vec<Box<str>>>(&answer.body));
        let news = match near {
            Ok(mut near) => {
                // They stand in the order of their distance, the own one first.
                near.retain(|name| *name != own);
                if known.as_ref() != Some(&near) {
                    for frontend in &frontends {
                        let tiers = frontend.tiers_with(&near);
                        drop(tiered.send(Tiered {
                            id: Arc::clone(&frontend.id),
                            tiers,
                            skipped: Vec::new(),
                        }));
                    }
                    known = Some(near);
                }
                stale_since.take().map(|_| News::UpToDate)
            }
            Err(error) => {
                let since = *stale_since.get_or_insert_with(SystemTime::now);
                let reason = Reason::Failed(error);
                Some(News::Stale(Trouble { since, reason }))
            }
        };
        if let Some(news) = news {
            let topic = Topic::Datacenters;
            if told.send(Told { topic, news }).await.is_err() {
                return;
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Compiled {
    chain: Chain,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Chain {
    start_node: String,
    #[serde(default, deserialize_with = "null")]
    nodes: BTreeMap<String, Node>,
    #[serde(default, deserialize_with = "null")]
    targets: BTreeMap<String, Target>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    resolver: Option<Resolver>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Resolver {
    target: String,
    failover: Option<FailoverTargets>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FailoverTargets {
    #[serde(default, deserialize_with = "null")]
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Target {
    service: Box<str>,
    /// A target of a peer has none.
    #[serde(default, deserialize_with = "null")]
    datacenter: Box<str>,
    /// Cluster that it is in, if it is another one than ours.
    #[serde(default, deserialize_with = "null")]
    peer: Box<str>,
    subset: Option<Subset>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Subset {
    #[serde(default, deserialize_with = "null")]
    filter: Box<str>,
    #[serde(default, deserialize_with = "null")]
    only_passing: bool,
}

/// Content of a chain.
#[derive(Debug)]
struct Resolved {
    tiers: Vec<Tier>,
    /// The targets that are no tiers here, and why.
    skipped: Vec<String>,
}

/// The tiers of a compiled chain.
///
/// # Errors
///
/// It is none, begins with what looks into requests (a router or a splitter), or has no target that can be asked for.
fn resolved_tiers(body: &[u8], own: &str) -> Result<Resolved, AskError> {
    let Compiled {
        chain: Chain {
            start_node,
            nodes,
            targets,
        },
    } = read(body)?;
    let resolver = nodes
        .get(&start_node)
        .and_then(|node| node.resolver.as_ref());
    let Some(Resolver { target, failover }) = resolver else {
        return Err(AskError::Unreadable(format!(
            "its chain begins with `{start_node}`, which looks into requests: only resolvers can be \
             followed here; name the datacenters in the configuration"
        )));
    };
    let further = failover.iter().flat_map(|failover| &failover.targets);
    let mut tiers: Vec<Tier> = Vec::new();
    let mut skipped = Vec::new();
    for name in std::iter::once(target).chain(further) {
        let Some(target) = targets.get(name) else {
            let missing = format!("its chain has no target `{name}`");
            return Err(AskError::Unreadable(missing));
        };
        if !target.peer.is_empty() || target.datacenter.is_empty() {
            skipped.push(format!(
                "the target `{name}` of its resolver is of the peer `{}`: only datacenters can be followed here",
                target.peer
            ));
            continue;
        }
        let subset = target.subset.as_ref();
        let filter = subset.map(|subset| subset.filter.clone());
        let tier = Tier {
            datacenter: if *target.datacenter == *own {
                Datacenter::Own
            } else {
                Datacenter::Other(target.datacenter.clone())
            },
            service: target.service.clone(),
            filter: filter.filter(|filter| !filter.is_empty()),
            only_passing: subset.is_some_and(|subset| subset.only_passing),
        };
        if !tiers.contains(&tier) {
            tiers.push(tier);
        }
    }
    if tiers.is_empty() {
        return Err(AskError::Unreadable(skipped.join("; ")));
    }
    Ok(Resolved { tiers, skipped })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Consul 1.8.7 answers, of which some is left out.
    const CHAIN: &str = r#"{"Chain":{"ServiceName":"web","Datacenter":"dc1","Protocol":"tcp",
        "StartNode":"resolver:v2.web.default.dc1","Nodes":{"resolver:v2.web.default.dc1":{
        "Type":"resolver","Name":"v2.web.default.dc1","Resolver":{"ConnectTimeout":"5s",
        "Target":"v2.web.default.dc1","Failover":{"Targets":["web.default.dc2","v2.web.default.dc1","other.default.dc3"]}}}},
        "Targets":{
        "v2.web.default.dc1":{"ID":"v2.web.default.dc1","Service":"web","ServiceSubset":"v2","Namespace":"default",
            "Datacenter":"dc1","MeshGateway":{},"Subset":{"Filter":"Service.Meta.v == 2","OnlyPassing":true}},
        "web.default.dc2":{"ID":"web.default.dc2","Service":"web","Datacenter":"dc2","Subset":{}},
        "other.default.dc3":{"Service":"other","Datacenter":"dc3"}}}}"#;

    #[test]
    fn a_resolver_says_the_tiers_with_their_subsets_and_redirects() {
        let Resolved { tiers, skipped } = resolved_tiers(CHAIN.as_bytes(), "dc1").unwrap();
        assert_eq!(skipped.len(), 0);
        let other = |name: &str| Datacenter::Other(name.into());
        let first = Tier {
            filter: Some("Service.Meta.v == 2".into()),
            only_passing: true,
            ..Tier::of("web", Datacenter::Own)
        };
        let expected = [
            first,
            Tier::of("web", other("dc2")),
            Tier::of("other", other("dc3")),
        ];
        assert_eq!(tiers, expected);
    }

    /// As Consul 1.13 and later answer, of which some is left out.
    const PEERS: &str = r#"{"Chain":{"StartNode":"resolver:web.default.default.dc1","Nodes":{
        "resolver:web.default.default.dc1":{"Type":"resolver","Resolver":{"Target":"web.default.default.dc1",
        "Failover":{"Targets":["web.default.default.external.east","web.default.default.dc2"]}}}},"Targets":{
        "web.default.default.dc1":{"Service":"web","Datacenter":"dc1"},
        "web.default.default.dc2":{"Service":"web","Datacenter":"dc2"},
        "web.default.default.external.east":{"Service":"web","Peer":"east"}}}}"#;

    #[test]
    fn a_target_of_a_peer_is_skipped_and_named() {
        let Resolved { tiers, skipped } = resolved_tiers(PEERS.as_bytes(), "dc1").unwrap();
        let dc2 = Datacenter::Other("dc2".into());
        let expected = [Tier::of("web", Datacenter::Own), Tier::of("web", dc2)];
        assert_eq!(tiers, expected);
        let [reason] = &skipped[..] else {
            panic!("{skipped:?}")
        };
        assert!(reason.contains("of the peer `east`"), "{reason}");
        // Nothing else is left.
        let only = PEERS.replace(
            r#""Target":"web.default.default.dc1""#,
            r#""Target":"web.default.default.external.east""#,
        );
        let only = only.replace(r#","web.default.default.dc2"]"#, "]");
        let error = resolved_tiers(only.as_bytes(), "dc1").unwrap_err();
        assert!(error.to_string().contains("of the peer `east`"), "{error}");
    }

    #[test]
    fn what_looks_into_requests_is_no_list_of_tiers() {
        for (from, to, said) in [
            (
                "\"StartNode\":\"resolver",
                "\"StartNode\":\"splitter",
                "looks into requests",
            ),
            ("\"web.default.dc2\":{\"ID", "\"gone\":{\"ID", "no target"),
            ("\"Chain\"", "\"Chains\"", "missing field"),
        ] {
            let error = resolved_tiers(CHAIN.replace(from, to).as_bytes(), "dc1").unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
