//! The agent's identity, in Consul's words.

use std::{net::IpAddr, time::Duration};

use serde::Deserialize;

use crate::{
    consul::{
        http::{client::Client, error::AskError},
        objects::read,
    },
    instances::place::Place,
};

/// Longest time for the answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Identity of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// Our node and its datacenter.
    pub(super) place: Place,
    /// The node's address, if it is known.
    pub(super) address: Option<IpAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Myself {
    config: Config,
    member: Option<Member>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    node_name: Box<str>,
    datacenter: Box<str>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Member {
    addr: Option<Box<str>>,
}

/// Reads the identity from the Consul agent. If that may not be read, the node is the one that was `given`.
///
/// # Errors
///
/// It does not answer, or may not be read and no node was given.
pub(super) async fn identity(client: &Client, given: Option<&str>) -> Result<Identity, AskError> {
    let answer = match (client.get(0, "/v1/agent/self", LIMIT).await, given) {
        (Ok(answer), _) => answer,
        (Err(error), Some(node)) if error.code() == Some(403) => {
            return of_node(client, node).await;
        }
        (Err(error), _) => return Err(error),
    };
    let Myself {
        config: Config {
            node_name,
            datacenter,
        },
        member,
    } = read(&answer.body)?;
    let address = member.and_then(|member| member.addr?.parse().ok());
    Ok(Identity {
        place: Place {
            node: given.map_or(node_name, Into::into),
            datacenter,
            here: None,
        },
        address,
    })
}

/// The own datacenter is the nearest one.
async fn of_node(client: &Client, node: &str) -> Result<Identity, AskError> {
    let answer = client.get(0, "/v1/catalog/datacenters", LIMIT).await?;
    let datacenters: Vec<Box<str>> = read(&answer.body)?;
    let datacenter = datacenters.into_iter().next();
    let nothing = || AskError::Unreadable("Consul knows no datacenter".to_owned());
    Ok(Identity {
        place: Place {
            node: node.into(),
            datacenter: datacenter.ok_or_else(nothing)?,
            here: None,
        },
        address: None,
    })
}
