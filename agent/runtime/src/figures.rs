//! The agent's figures for a scrape of the metrics. They cost the event loop no system call
//! but those that read the tables' use, and no look at any table in the kernel.

use std::{collections::BTreeSet, time::Duration};

use shunt_datapath::{
    Cured, InterfaceState, InterfaceStatus, SocketLb, SocketStatus, TableUse, UplinkState,
    UplinkStatus,
};
use shunt_model::{FrontendKind, Override};

use crate::{agent::Agent, health::ByFamily, ip_family::IpFamily};

/// Figures of the event loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// True if a Resync was applied since the agent's start.
    pub synced: bool,
    /// Events that are held until one is.
    pub held: usize,
    /// Time for which an event has waited for a decision of an operator, if one waits.
    pub removal_held: Option<Duration>,
    /// Number of overrides by an operator.
    pub overrides: OverrideCounts,
    /// Frontends that events lead to, in each family.
    pub frontends: ByFamily<usize>,
    /// Claims that wait for an older one.
    pub conflicts: usize,
    /// Service ports of policy Local without an endpoint on this node, though there is one
    /// elsewhere.
    pub no_local_endpoints: ByFamily<NoLocalEndpoints>,
    /// Number of interfaces in each state.
    pub interfaces: Interfaces,
    /// Number of uplinks in each state.
    pub uplinks: Uplinks,
    /// State of the programs for sockets.
    pub sockets: SocketHooks,
    /// Use of the tables.
    pub tables: Vec<TableUse>,
    /// Sockets of the node's processes that had no backend.
    pub sockets_cured: Cured,
}

/// Overrides by an operator, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverrideCounts {
    /// Drained endpoints.
    pub drain: usize,
    /// Drained nodes.
    pub drain_node: usize,
    /// Weights.
    pub weight: usize,
}

/// Service ports, by the policy that leaves them without an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoLocalEndpoints {
    /// `internalTrafficPolicy`.
    pub internal: usize,
    /// `externalTrafficPolicy`.
    pub external: usize,
}

/// Interfaces that are to have the programs, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interfaces {
    /// They have them.
    pub attached: usize,
    /// They are about to get them.
    pub attaching: usize,
    /// The kernel verifies their programs.
    pub loading: usize,
    /// They do not exist.
    pub absent: usize,
    /// The kernel refused.
    pub failed: usize,
}

/// Interfaces that are to have the XDP program, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uplinks {
    /// It runs in the driver.
    pub native: usize,
    /// It runs before the stack.
    pub generic: usize,
    /// The kernel verifies it.
    pub loading: usize,
    /// They do not exist.
    pub absent: usize,
    /// It does not run.
    pub failed: usize,
}

/// State of translation at the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketHooks {
    /// True if anything is to be.
    pub wanted: bool,
    /// Number of hooks that have programs.
    pub attached: usize,
    /// True if these are for every process of the machine.
    pub at_root: bool,
}

impl Figures {
    pub(super) fn of(
        agent: &Agent,
        held: usize,
        removal_held: Option<Duration>,
        overrides: OverrideCounts,
    ) -> Self {
        let (renderer, datapath) = (agent.renderer(), agent.datapath());
        let [v4, v6] = renderer.frontend_counts();
        let tables = datapath.table_use().into_iter();
        let tables = tables.chain(datapath.connections().table_use());
        Self {
            synced: renderer.is_synced(),
            held,
            removal_held,
            overrides,
            frontends: ByFamily { v4, v6 },
            conflicts: renderer.conflicts().count(),
            no_local_endpoints: no_local_endpoints(agent),
            interfaces: interfaces(datapath.interfaces()),
            uplinks: uplinks(datapath.uplinks()),
            sockets: SocketHooks::of(&datapath.sockets()),
            tables: tables.collect(),
            sockets_cured: datapath.stale_sockets().cured(),
        }
    }
}

impl OverrideCounts {
    /// Counts these.
    pub(super) fn of<'a>(overrides: impl Iterator<Item = &'a Override>) -> Self {
        let mut counts = Self::default();
        for change in overrides {
            *match change {
                Override::Drain { .. } => &mut counts.drain,
                Override::DrainNode { .. } => &mut counts.drain_node,
                Override::Weight { .. } => &mut counts.weight,
            } += 1;
        }
        counts
    }
}

impl SocketHooks {
    fn of(sockets: &SocketStatus) -> Self {
        let SocketStatus {
            mode,
            cgroup: _,
            is_root,
            hooks,
            problem: _,
        } = sockets;
        Self {
            wanted: *mode != SocketLb::Off,
            attached: hooks.len(),
            at_root: *is_root && !hooks.is_empty(),
        }
    }
}

fn interfaces(statuses: impl Iterator<Item = InterfaceStatus>) -> Interfaces {
    let mut interfaces = Interfaces::default();
    for InterfaceStatus { pattern, state, .. } in statuses {
        // A pattern that means none at present lacks nothing.
        if pattern.is_some() && state == InterfaceState::Absent {
            continue;
        }
        *match state {
            InterfaceState::Attached { .. } => &mut interfaces.attached,
            InterfaceState::Attaching => &mut interfaces.attaching,
            InterfaceState::Loading => &mut interfaces.loading,
            InterfaceState::Absent => &mut interfaces.absent,
            InterfaceState::Failed(_) => &mut interfaces.failed,
        } += 1;
    }
    interfaces
}

fn uplinks(statuses: impl Iterator<Item = UplinkStatus>) -> Uplinks {
    let mut uplinks = Uplinks::default();
    for UplinkStatus { state, .. } in statuses {
        *match state {
            UplinkState::Attached { native: true, .. } => &mut uplinks.native,
            UplinkState::Attached { .. } => &mut uplinks.generic,
            UplinkState::Loading => &mut uplinks.loading,
            UplinkState::Absent => &mut uplinks.absent,
            UplinkState::Failed(_) => &mut uplinks.failed,
        } += 1;
    }
    uplinks
}

fn no_local_endpoints(agent: &Agent) -> ByFamily<NoLocalEndpoints> {
    let mut ports = BTreeSet::new();
    for (key, frontend) in agent.renderer().frontends_without_local_endpoints() {
        let is_internal = frontend.kind == FrontendKind::ClusterIp;
        let set = &frontend.backends;
        ports.insert((
            IpFamily::of(key.address),
            is_internal,
            &set.service,
            &set.port,
        ));
    }
    let mut counts = ByFamily::<NoLocalEndpoints>::default();
    for (family, is_internal, _, _) in ports {
        let counts = counts.of_mut(family);
        *if is_internal {
            &mut counts.internal
        } else {
            &mut counts.external
        } += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_at_the_root_are_told_from_others_and_from_none() {
        let hooks = vec!["connect4", "connect6"];
        for (is_root, hooks, expected) in [
            (true, hooks.clone(), (2, true)),
            (false, hooks, (2, false)),
            (true, Vec::new(), (0, false)),
        ] {
            let SocketHooks {
                wanted,
                attached,
                at_root,
            } = SocketHooks::of(&SocketStatus {
                mode: SocketLb::Host,
                cgroup: None,
                is_root,
                hooks,
                problem: None,
            });
            assert!(wanted);
            assert_eq!((attached, at_root), expected);
        }
    }
}
