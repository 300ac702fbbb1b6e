//! Instances that the token may not see.

use std::{collections::BTreeSet, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    consul::{
        http::{client::Client, error::AskError},
        objects::within,
    },
    instances::{
        instance::Instance,
        query::{Query, QueryKind},
        tier::Datacenter,
    },
};

/// So many rights are asked for at once: Consul refuses more.
const AT_ONCE: usize = 64;

/// A right to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Right<'a> {
    Service(&'a str),
    Node(&'a str),
}

impl fmt::Display for Right<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name) => write!(f, "service:read on `{name}`"),
            Self::Node(name) => write!(f, "node:read on `{name}`"),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Question<'a> {
    resource: &'static str,
    access: &'static str,
    segment: &'a str,
}

impl<'a> From<&Right<'a>> for Question<'a> {
    fn from(right: &Right<'a>) -> Self {
        let (resource, segment) = match *right {
            Right::Service(name) => ("service", name),
            Right::Node(name) => ("node", name),
        };
        Self {
            resource,
            access: "read",
            segment,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Verdict {
    allow: bool,
}

/// Instances that the token may not see, of those that have vanished from a query's answers, so that nothing is known
/// of these, and the rights that it lacks.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    pub(super) instances: Vec<Instance>,
    pub(super) lacks: Option<String>,
}

/// Returns those of these instances of a query that the token may not see.
pub(super) async fn hidden<'a>(
    client: &Client,
    query: &'a Query,
    vanished: &[&'a Instance],
    limit: Duration,
) -> Result<Hidden, AskError> {
    let of = |instance: &'a Instance| rights(query, &instance.service, &instance.node);
    let wanted = vanished.iter().copied().flat_map(of).collect();
    let lacking = lacking(client, &query.datacenter, &wanted, limit).await?;
    let is_hidden = |instance: &&'a Instance| of(instance).any(|right| lacking.contains(&right));
    let instances = vanished.iter().copied().filter(is_hidden);
    Ok(Hidden {
        instances: instances.cloned().collect(),
        lacks: listed(&lacking),
    })
}

/// Returns the rights that the token lacks to see instances of a service of which none was ever seen; `None`: no right,
/// so that there are no instances. `node` is our own.
pub(super) async fn missing(
    client: &Client,
    query: &Query,
    node: &str,
    limit: Duration,
) -> Result<Option<String>, AskError> {
    let wanted = rights(query, &query.service, node).collect();
    let lacking = lacking(client, &query.datacenter, &wanted, limit).await?;
    Ok(listed(&lacking))
}

/// Returns the rights that are needed to see an instance of this service on this node.
fn rights<'a>(
    query: &'a Query,
    service: &'a str,
    node: &'a str,
) -> impl Iterator<Item = Right<'a>> {
    // Mesh gateways may have any name.
    let asked = (query.kind != QueryKind::MeshGateways).then_some(&*query.service);
    let asked = asked.map(Right::Service);
    asked
        .into_iter()
        .chain([Right::Service(service), Right::Node(node)])
}

/// Returns those of these rights that the token does not have. There are none to lack where ACLs are off.
async fn lacking<'a>(
    client: &Client,
    datacenter: &Datacenter,
    wanted: &BTreeSet<Right<'a>>,
    limit: Duration,
) -> Result<BTreeSet<Right<'a>>, AskError> {
    let unreadable = |error: serde_json::Error| AskError::Unreadable(error.to_string());
    let path = within("/v1/internal/acl/authorize", datacenter);
    let mut lacking = BTreeSet::new();
    let wanted: Vec<Right<'_>> = wanted.iter().copied().collect();
    for wanted in wanted.chunks(AT_ONCE) {
        let questions: Vec<Question<'_>> = wanted.iter().map(Question::from).collect();
        let body = serde_json::to_vec(&questions).map_err(unreadable)?;
        let Some(answer) = client.authorize(&path, body, limit).await? else {
            return Ok(BTreeSet::new());
        };
        let verdicts: Vec<Verdict> = serde_json::from_slice(&answer.body).map_err(unreadable)?;
        if verdicts.len() != wanted.len() {
            return Err(AskError::Unreadable(format!(
                "{} rights for {} questions",
                verdicts.len(),
                wanted.len()
            )));
        }
        let refused = wanted.iter().zip(verdicts);
        let refused = refused.filter(|(_, verdict)| !verdict.allow);
        lacking.extend(refused.map(|(right, _)| *right));
    }
    Ok(lacking)
}

fn listed(rights: &BTreeSet<Right<'_>>) -> Option<String> {
    let rights: Vec<String> = rights.iter().map(ToString::to_string).collect();
    (!rights.is_empty()).then(|| rights.join(", "))
}
