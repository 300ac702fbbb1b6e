//! The interfaces for the programs, and their state.

use shunt_api::view::{Interface, InterfaceState, Status, Uplink, UplinkState};
use shunt_print::{elapsed::duration, table::Table};

/// An interface that is not there for so many seconds may have been named wrongly.
const LONG_ABSENT: u64 = 300;

/// The reason for which an interface is loading.
const VERIFYING: &str = "the kernel verifies the program";

/// Returns the interfaces for the TC programs.
pub(super) fn interfaces(status: &Status) -> Table<5> {
    let mut table = Table::new(["INTERFACE", "CHOSEN BY", "STATE", "INDEX", "REASON"]);
    for interface in &status.interfaces {
        let Interface {
            name,
            pattern,
            state,
        } = interface;
        let (state, index, reason) = match state {
            InterfaceState::Attached { index } => ("attached", index.to_string(), ""),
            InterfaceState::Attaching => ("attaching", "-".to_owned(), ""),
            InterfaceState::Loading => ("loading", "-".to_owned(), VERIFYING),
            InterfaceState::Absent { .. } => ("absent", "-".to_owned(), ""),
            InterfaceState::Failed { reason } => ("failed", "-".to_owned(), reason.as_str()),
        };
        let reason = match state {
            "absent" => absence(interface),
            _ => reason.to_owned(),
        };
        let pattern = pattern.as_deref().unwrap_or("name");
        table.push([
            name.clone(),
            pattern.to_owned(),
            state.to_owned(),
            index,
            reason,
        ]);
    }
    table
}

/// For how long it is not there.
fn absence(interface: &Interface) -> String {
    let InterfaceState::Absent { seconds } = interface.state else {
        return String::new();
    };
    let since = duration(seconds);
    if seconds < LONG_ABSENT {
        format!("for {since}")
    } else {
        format!("for {since}: is it the right name?")
    }
}

/// Returns the interfaces for the XDP program.
pub(super) fn uplinks(status: &Status) -> Table<4> {
    let mut table = Table::new(["UPLINK", "XDP", "INDEX", "REASON"]);
    for Uplink { name, state } in &status.uplinks {
        let (state, index, reason) = match state {
            UplinkState::Native { index } => ("native", index.to_string(), ""),
            UplinkState::Generic { index, reason } => (
                "generic",
                index.to_string(),
                reason.as_deref().unwrap_or_default(),
            ),
            UplinkState::Loading => ("loading", "-".to_owned(), VERIFYING),
            UplinkState::Absent => ("absent", "-".to_owned(), ""),
            UplinkState::Failed { reason } => ("failed", "-".to_owned(), reason.as_str()),
        };
        table.push([name.clone(), state.to_owned(), index, reason.to_owned()]);
    }
    table
}
