//! The ranges that this node's pods have their addresses of, asked for once, before anything is
//! translated.

use std::time::Duration;

use ipnet::IpNet;
use kube::{Client, Config, api::ListParams, core::Request};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::{
    objects::node::Node,
    watch::{
        client::{ApiServerError, client},
        item,
        kind::{Kind as _, Nodes, Selectors},
        page::Page,
    },
};

/// Time that a Node may have none that must have some, as with kube-proxy.
const PATIENCE: Duration = Duration::from_mins(5);

/// Interval of the requests for it.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest time for one answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Why they are not known.
#[derive(Debug, Error)]
pub enum PodCidrsError {
    /// The server cannot be asked.
    #[error(transparent)]
    Server(#[from] ApiServerError),
    /// The Node has none, or cannot be had.
    #[error("the Node {node} does not say its pods' ranges (spec.podCIDRs) within 300 s: {reason}")]
    Unknown {
        /// Its name.
        node: String,
        /// Finding of the last look.
        reason: String,
    },
}

/// The first range of each family of the Node of this name. Waits for it.
///
/// # Errors
///
/// The server cannot be asked, or the Node has none for too long.
pub(crate) async fn wait_for_pod_cidrs(
    config: Config,
    node: &str,
) -> Result<Vec<IpNet>, PodCidrsError> {
    let client = client(config)?;
    let start = Instant::now();
    let mut told = false;
    loop {
        let reason = match ask(&client, node).await {
            Ok(ranges) => return Ok(ranges),
            Err(reason) => reason,
        };
        if start.elapsed() >= PATIENCE {
            let node = node.to_owned();
            return Err(PodCidrsError::Unknown { node, reason });
        }
        if !told {
            warn!("waiting for spec.podCIDRs of the Node {node}: {reason}");
            told = true;
        }
        sleep(PAUSE).await;
    }
}

/// As [`wait_for_pod_cidrs`], if the Node has them now: one request, and none if it does not.
///
/// # Errors
///
/// The server cannot be asked.
pub(crate) async fn known_pod_cidrs(
    config: Config,
    node: &str,
) -> Result<Vec<IpNet>, PodCidrsError> {
    Ok(ask(&client(config)?, node).await.unwrap_or_else(|reason| {
        info!("the Node {node} does not say its pods' ranges (spec.podCIDRs): {reason}");
        Vec::new()
    }))
}

/// They are listed, as the watch lists Nodes, so that this needs no right of its own.
async fn ask(client: &Client, node: &str) -> Result<Vec<IpNet>, String> {
    let params = ListParams {
        field_selector: Selectors::node(node).fields,
        ..ListParams::default()
    };
    let request = Request::new(Nodes::PATH).list(&params);
    let request = request.map_err(|error| error.to_string())?;
    let text = timeout(ANSWER, client.request_text(request)).await;
    let text = text.map_err(|_| format!("no answer within {} s", ANSWER.as_secs()))?;
    let text = text.map_err(|error| error.to_string())?;
    let page: Page<'_> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let nodes = page.items.unwrap_or_default().into_iter();
    let nodes: Result<Vec<Node>, String> = nodes
        .map(|text| match item::read::<Nodes>(text) {
            Ok(raw) => Ok(raw.into()),
            Err(unreadable) => Err(unreadable.reason),
        })
        .collect();
    let found = nodes?.into_iter().find(|found| *found.name == *node);
    let ranges = found.ok_or("there is no such Node")?.pod_cidrs;
    if ranges.is_empty() {
        return Err("it has none".to_owned());
    }
    Ok(ranges)
}
