//! The agent's status as it is shown.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use shunt_api::proto::{
    Conflict, CounterValue, FrontendDifference, Interface, LastError, StatusResponse, TableUse,
    interface::State,
};

use crate::commands::listing::{difference_name, live_key};

/// The status. The order of the fields is the order in JSON.
#[derive(Debug, Serialize)]
pub(super) struct StatusView {
    pub(super) version: String,
    pub(super) uptime_seconds: u64,
    pub(super) pin_dir: Option<String>,
    pub(super) synced: bool,
    pub(super) held: u64,
    pub(super) applied: u64,
    pub(super) refused: u64,
    pub(super) last_error: Option<ErrorView>,
    pub(super) node_ips: Vec<String>,
    pub(super) own_node_ips: Vec<String>,
    pub(super) interfaces: Vec<InterfaceView>,
    pub(super) conflicts: Vec<ConflictView>,
    pub(super) differences: Vec<DifferenceView>,
    pub(super) untranslated: u64,
    pub(super) tables: Vec<TableView>,
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) conntrack_removed_for_room: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct ErrorView {
    pub(super) text: String,
    pub(super) seconds_ago: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct InterfaceView {
    pub(super) name: String,
    /// `attached`, `absent` or `failed`.
    pub(super) state: &'static str,
    pub(super) index: Option<u32>,
    pub(super) reason: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct ConflictView {
    pub(super) frontend: String,
    pub(super) holder: String,
    pub(super) waiting: String,
}

#[derive(Debug, Serialize)]
pub(super) struct DifferenceView {
    pub(super) frontend: String,
    /// `changed`, `unknown` or `missing`.
    pub(super) difference: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct TableView {
    pub(super) name: String,
    pub(super) used: u64,
    pub(super) capacity: u64,
}

impl TryFrom<StatusResponse> for StatusView {
    type Error = anyhow::Error;

    fn try_from(status: StatusResponse) -> Result<Self> {
        let StatusResponse {
            version,
            uptime_seconds,
            pin_dir,
            synced,
            held,
            applied,
            refused,
            last_error,
            node_ips,
            own_node_ips,
            interfaces,
            conflicts,
            differences,
            untranslated,
            tables,
            counters,
            conntrack_removed_for_room,
        } = status;
        Ok(Self {
            version,
            uptime_seconds,
            pin_dir,
            synced,
            held,
            applied,
            refused,
            last_error: last_error
                .map(|LastError { text, seconds_ago }| ErrorView { text, seconds_ago }),
            node_ips,
            own_node_ips,
            interfaces: interfaces.into_iter().map(interface).collect(),
            conflicts: conflicts.into_iter().map(conflict).collect::<Result<_>>()?,
            differences: differences
                .into_iter()
                .map(difference)
                .collect::<Result<_>>()?,
            untranslated,
            tables: tables.into_iter().map(table).collect(),
            counters: counters
                .into_iter()
                .map(|CounterValue { name, packets }| (name, packets))
                .collect(),
            conntrack_removed_for_room,
        })
    }
}

fn interface(interface: Interface) -> InterfaceView {
    let attached = interface.state() == State::Attached;
    let state = match interface.state() {
        State::Unspecified => "unknown",
        State::Attached => "attached",
        State::Absent => "absent",
        State::Failed => "failed",
    };
    let Interface {
        name,
        state: _,
        index,
        reason,
    } = interface;
    InterfaceView {
        name,
        state,
        index: attached.then_some(index),
        reason: Some(reason).filter(|reason| !reason.is_empty()),
    }
}

fn conflict(conflict: Conflict) -> Result<ConflictView> {
    let Conflict {
        frontend,
        holder,
        waiting,
    } = conflict;
    Ok(ConflictView {
        frontend: live_key(frontend)?.to_string(),
        holder,
        waiting,
    })
}

fn difference(difference: FrontendDifference) -> Result<DifferenceView> {
    let name = difference_name(difference.difference()).unwrap_or("none");
    Ok(DifferenceView {
        frontend: live_key(difference.frontend)?.to_string(),
        difference: name,
    })
}

fn table(table: TableUse) -> TableView {
    let TableUse {
        name,
        used,
        capacity,
    } = table;
    TableView {
        name,
        used,
        capacity,
    }
}
