//! Connections that are open while the backends change.

use std::{collections::BTreeMap, fmt, net::SocketAddr};

use anyhow::{Result, anyhow, bail};
use shunt_tests::{Connection, Target};

use super::held_frontend;
use crate::{cluster::Cluster, event::Service, model::Client, report::Report, steady::REQUEST};

/// Number of connections opened to find every backend. With shares of one in a hundred, one in 10^8
/// such searches fails.
const SEARCH: usize = 2_000;

/// One connection to each backend of a service, all from the client pod to the same ClusterIP.
#[derive(Debug)]
pub(super) struct HeldConnections {
    frontend: String,
    open: BTreeMap<SocketAddr, Connection>,
}

impl HeldConnections {
    /// Opens connections until there is one to each backend.
    pub(super) fn open(cluster: &Cluster, service: &Service) -> Result<Self> {
        let Some(frontend) = held_frontend(cluster, service) else {
            bail!("{} has no ClusterIP over TCP", service.spec.id);
        };
        let target = Target::tcp(frontend.address);
        let open = cluster.namespace(Client::Pod).enter(|| {
            let mut open = BTreeMap::new();
            for _ in 0..SEARCH {
                let mut connection = target.connect()?;
                let answer = connection.echo(REQUEST)?;
                open.entry(answer.backend).or_insert(connection);
                if open.len() == frontend.weights.len() {
                    return Ok(open);
                }
            }
            Err(anyhow!("{frontend} never chose some of its backends"))
        })?;
        Ok(Self {
            frontend: frontend.to_string(),
            open,
        })
    }

    /// Every one of them must still reach the backend that it was opened to, also one whose
    /// backend gets no new connections any more.
    pub(super) fn check(&mut self, after: &str, report: &mut Report) {
        let Self { frontend, open } = self;
        for (backend, connection) in open {
            let text = match connection.echo(REQUEST) {
                Ok(answer) if answer.backend == *backend => continue,
                Ok(answer) => format!("is now with {}", answer.backend),
                Err(failure) => failure.to_string(),
            };
            report.problem(format!(
                "an open connection to {backend} through {frontend} broke when {after}: {text}"
            ));
        }
    }
}

impl fmt::Display for HeldConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frontend, open } = self;
        write!(
            f,
            "{} connections, one to each backend of {frontend},",
            open.len()
        )
    }
}
