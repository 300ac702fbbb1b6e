//! The connections that are meant, a page at a time. The table is read beside the event loop, piece by
//! piece, and no further than to the page's end.

use std::time::Duration;

use serde_json::{Value, json};
use shunt_api::view::{Connection, ConnectionFilter, ConnectionState, ProtocolNumber};
use shunt_model::{Escaped, Protocol};
use shunt_runtime::Inspector;

use crate::ui::{
    parameters::Parameters,
    sampler::{Sampler, Seen},
    turn::Turn,
};

/// Maximum number of connections on a page.
const PAGE: usize = 200;

/// Depth to which pages go into the table.
const DEPTH: usize = 100_000;

/// Time to wait for another reading.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no page.
#[derive(Debug)]
pub(super) enum NoPage {
    /// The request is wrong.
    Bad(String),
    /// Others read the table.
    Busy,
    /// The kernel refuses.
    Unreadable(String),
}

/// The page that is asked for. One request reads at a time: a table of millions takes its time.
///
/// # Errors
///
/// There is none.
pub(super) async fn connections(
    sampler: &Sampler,
    reading: &Turn,
    parameters: &Parameters,
) -> Result<Value, NoPage> {
    let filter = filter(parameters).map_err(NoPage::Bad)?;
    let number = |name| parameters.value::<usize>(name).map_err(NoPage::Bad);
    let (offset, limit) = (
        number("offset")?.unwrap_or(0).min(DEPTH),
        number("limit")?.unwrap_or(PAGE).clamp(1, PAGE),
    );
    let _turn = reading.wait(PATIENCE).await.ok_or(NoPage::Busy)?;
    let (found, more) = read(sampler.inspector(), filter, offset, limit)
        .await
        .map_err(NoPage::Unreadable)?;
    sampler.freshen().await;
    let seen = sampler.seen();
    let rows = found.iter().map(|connection| shown(connection, &seen));
    Ok(json!({
        "offset": offset,
        "more": more,
        "connections": rows.collect::<Vec<_>>(),
    }))
}

/// So many after the first ones, and whether there are others behind them.
async fn read(
    inspector: &Inspector,
    filter: ConnectionFilter,
    offset: usize,
    limit: usize,
) -> Result<(Vec<Connection>, bool), String> {
    let mut pieces = inspector.connections(filter);
    let (mut passed, mut page) = (0, Vec::new());
    while let Some((piece, rest)) = pieces.next().await.map_err(|error| error.to_string())? {
        for connection in piece {
            if passed < offset {
                passed += 1;
            } else if page.len() < limit {
                page.push(connection);
            } else {
                return Ok((page, true));
            }
        }
        pieces = rest;
    }
    Ok((page, false))
}

/// As `shunt conntrack -o json` shows it, with the service.
fn shown(connection: &Connection, seen: &Seen) -> Value {
    let ProtocolNumber(protocol) = connection.protocol;
    let frontend = connection.frontend;
    let owner = seen.catalog.owner((frontend.ip, frontend.port, protocol));
    let mut value = json!(connection);
    value["service"] = json!(owner.map(ToString::to_string));
    value
}

/// Returns the filter of the connections that are meant.
fn filter(parameters: &Parameters) -> Result<ConnectionFilter, String> {
    let states = parameters.text("state").map(state).transpose()?;
    let protocol = parameters.text("protocol").map(protocol).transpose()?;
    Ok(ConnectionFilter {
        client: parameters.value("client")?,
        frontend: parameters.value("frontend")?,
        backend: parameters.value("backend")?,
        protocol,
        states: states.into_iter().collect(),
        idle_seconds: parameters.value("idle")?.unwrap_or_default(),
    })
}

fn protocol(text: &str) -> Result<ProtocolNumber, String> {
    let mut all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter();
    let found = all.find(|protocol| protocol.to_string().eq_ignore_ascii_case(text));
    found
        .map(Into::into)
        .ok_or_else(|| format!("protocol: `{}` is not TCP, UDP or SCTP", Escaped(text)))
}

fn state(text: &str) -> Result<ConnectionState, String> {
    let mut states = ConnectionState::ALL.into_iter();
    let found = states.find(|state| state.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("state: there is no state `{}`", Escaped(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_makes_no_sense_is_said_to() {
        let of = |query| filter(&Parameters::of(Some(query)));
        let all = of("client=10.1.0.0/16&protocol=tcp&state=established&idle=5").unwrap();
        assert_eq!(all.states, [ConnectionState::Established]);
        assert_eq!(all.idle_seconds, 5);
        assert!(of("").unwrap().is_all());
        for (query, expected) in [
            ("client=web", "client: `web` is not an address"),
            ("state=up", "state: there is no state `up`"),
            ("protocol=icmp", "protocol: `icmp` is not TCP, UDP or SCTP"),
            ("idle=x", "idle: invalid digit"),
        ] {
            let error = of(query).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
