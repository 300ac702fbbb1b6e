//! Whether an empty answer means that there is nothing, or that we may not see it.

use std::{collections::BTreeSet, time::Duration};

use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::source::{
    consul::{
        http::{client::Client, error::AskError},
        objects::within,
    },
    instances::{
        instance::Instance,
        query::{Query, QueryKind},
    },
};

/// Of so many nodes is asked at most.
const NODES: usize = 8;

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Question<'a> {
    resource: &'static str,
    access: &'static str,
    segment: &'a str,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Right {
    allow: bool,
}

/// What the token lacks to see instances of a service, which it answers with an empty list; `None`:
/// nothing, so that there are none. `known` are those that there were, `node` is our own.
pub(super) async fn missing(
    client: &Client,
    query: &Query,
    known: &[Instance],
    node: &str,
    limit: Duration,
) -> Result<Option<String>, AskError> {
    let mut nodes: BTreeSet<&str> = known.iter().map(|instance| &*instance.node).collect();
    if nodes.is_empty() {
        nodes.insert(node);
    }
    let mut services = BTreeSet::from([&*query.service]);
    if query.kind == QueryKind::MeshGateways && !known.is_empty() {
        // They may have any name.
        services = known.iter().map(|gateway| &*gateway.service).collect();
    }
    let services = services.into_iter().take(NODES);
    let mut questions: Vec<_> = services.map(|name| question("service", name)).collect();
    questions.extend(
        nodes
            .into_iter()
            .take(NODES)
            .map(|node| question("node", node)),
    );
    let body = serde_json::to_vec(&questions);
    let body = body.map_err(|error| AskError::Unreadable(error.to_string()))?;
    let path = within("/v1/internal/acl/authorize", &query.datacenter);
    let answer = match client.send(Method::POST, &path, body, limit).await {
        Ok(answer) => answer,
        // There are no rights to lack where ACLs are off.
        Err(AskError::Status { code: 401, .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let rights: Vec<Right> = serde_json::from_slice(&answer.body)
        .map_err(|error| AskError::Unreadable(error.to_string()))?;
    if rights.len() != questions.len() {
        return Err(AskError::Unreadable(format!(
            "{} rights for {} questions",
            rights.len(),
            questions.len()
        )));
    }
    let lacking = questions
        .iter()
        .zip(rights)
        .filter(|(_, right)| !right.allow);
    let lacking: Vec<String> = lacking
        .map(|(question, _)| format!("{}:read on `{}`", question.resource, question.segment))
        .collect();
    Ok((!lacking.is_empty()).then(|| lacking.join(", ")))
}

const fn question<'a>(resource: &'static str, segment: &'a str) -> Question<'a> {
    Question {
        resource,
        access: "read",
        segment,
    }
}
