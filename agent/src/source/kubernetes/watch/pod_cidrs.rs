//! The ranges that this node's pods have their addresses of, asked for once, before anything is
//! translated.

use std::time::Duration;

use ipnet::IpNet;
use kube::{
    Client, Config,
    core::{Request, params::GetParams},
};
use serde::Deserialize;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::source::kubernetes::watch::client::{ApiServerError, client};

/// How long a Node may have none, as with kube-proxy.
const PATIENCE: Duration = Duration::from_mins(5);

/// How often it is asked for.
const PAUSE: Duration = Duration::from_secs(1);

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
        /// What the last look found.
        reason: String,
    },
}

/// What is read of the Node.
#[derive(Debug, Deserialize)]
struct Node {
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<IpNet>>,
}

/// The first range of each family of the Node of this name. Waits for it.
///
/// # Errors
///
/// The server cannot be asked, or the Node has none for too long.
pub(in super::super) async fn pod_cidrs(
    config: Config,
    node: &str,
) -> Result<Vec<IpNet>, PodCidrsError> {
    let client = client(config)?;
    let start = Instant::now();
    let mut told = false;
    loop {
        let reason = match ask(&client, node).await {
            Ok(ranges) if !ranges.is_empty() => return Ok(ranges),
            Ok(_) => "it has none".to_owned(),
            Err(error) => error.to_string(),
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

async fn ask(client: &Client, node: &str) -> Result<Vec<IpNet>, kube::Error> {
    let request = Request::new("/api/v1/nodes")
        .get(node, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    let Node { spec } = client.request(request).await?;
    let ranges = spec.pod_cidrs.unwrap_or_default();
    let first = |v4: bool| {
        let mut ranges = ranges.iter().copied();
        ranges.find(|range| matches!(range, IpNet::V4(_)) == v4)
    };
    Ok([first(true), first(false)].into_iter().flatten().collect())
}
