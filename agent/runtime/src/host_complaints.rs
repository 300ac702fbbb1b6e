//! Conditions of this host that stand in the way of translation, for the log and the status.

use std::collections::BTreeMap;

use tracing::{info, warn};

/// The part of the host that complaints are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostPart {
    /// Settings, which are read again and again.
    Settings,
    /// The kernel: no setting mends what it lacks.
    Kernel,
    /// The addresses of its interfaces, as far as events name them.
    Addresses,
    /// The devices of pods, as far as packets are to be redirected there.
    Devices,
    /// The interfaces of backends, as far as connections to these are to be masqueraded.
    Masquerade,
    /// Netfilter's rules that filter before addresses are translated.
    EarlyRules,
    /// Netfilter's flowtables, as far as connections that they forward miss the programs.
    Flowtables,
    /// The pins, and the cgroup that has programs, as far as others remove them.
    Kept,
}

/// The complaints about each part, a sentence each.
#[derive(Debug, Default)]
pub(crate) struct HostComplaints(BTreeMap<HostPart, Vec<String>>);

impl HostComplaints {
    /// Replaces the complaints about one part. Logs those that are new, and those that have ended.
    pub(crate) fn set(&mut self, part: HostPart, complaints: Vec<String>) {
        let known = self.0.entry(part).or_default();
        for new in complaints.iter().filter(|new| !known.contains(new)) {
            warn!("{new}");
        }
        for ended in known.iter().filter(|old| !complaints.contains(old)) {
            info!("no longer so: {ended}");
        }
        *known = complaints;
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.values().flatten().cloned().collect()
    }
}
