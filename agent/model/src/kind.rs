//! The one list of the events: their names, and the fields that each has in JSON.

use crate::named::FromName;

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A complete snapshot.
    Resync,
    /// A service that is new, or is to be replaced.
    AddService,
    /// A service in its new form.
    UpdateService,
    /// A service that is gone.
    DeleteService,
    /// The nodes of the cluster, and services that the change concerns.
    UpdateNodePortServices,
    /// All interfaces where clients are.
    UpdateLocalFrontendIfs,
    /// All interfaces where backends are.
    UpdateLocalBackendIfs,
    /// All ranges of addresses that services get theirs of.
    UpdateServiceCidrs,
    /// The nodes of the cluster, by name.
    UpdateNodes,
    /// Workloads at addresses that are no service's.
    UpdateWorkloads,
}

impl EventKind {
    /// Every kind, in the order in which they are listed.
    pub const ALL: [Self; 10] = [
        Self::Resync,
        Self::AddService,
        Self::UpdateService,
        Self::DeleteService,
        Self::UpdateNodePortServices,
        Self::UpdateLocalFrontendIfs,
        Self::UpdateLocalBackendIfs,
        Self::UpdateServiceCidrs,
        Self::UpdateNodes,
        Self::UpdateWorkloads,
    ];

    /// The name as it is written and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resync => "Resync",
            Self::AddService => "AddService",
            Self::UpdateService => "UpdateService",
            Self::DeleteService => "DeleteService",
            Self::UpdateNodePortServices => "UpdateNodePortServices",
            Self::UpdateLocalFrontendIfs => "UpdateLocalFrontendIfs",
            Self::UpdateLocalBackendIfs => "UpdateLocalBackendIfs",
            Self::UpdateServiceCidrs => "UpdateServiceCidrs",
            Self::UpdateNodes => "UpdateNodes",
            Self::UpdateWorkloads => "UpdateWorkloads",
        }
    }

    /// The names of the fields that an event of this kind has in JSON, besides `event`. The old
    /// value that some may have is ignored.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Resync => &[
                "node_ips",
                "services",
                "frontend_ifs",
                "backend_ifs",
                "service_cidrs",
                "nodes",
                "workloads",
            ],
            Self::AddService => &["service"],
            Self::UpdateService => &["service", "old"],
            Self::DeleteService => &["id"],
            Self::UpdateNodePortServices => &["node_ips", "services"],
            Self::UpdateLocalFrontendIfs | Self::UpdateLocalBackendIfs => &["old", "new"],
            Self::UpdateServiceCidrs => &["new"],
            Self::UpdateNodes => &["nodes"],
            Self::UpdateWorkloads => &["workloads", "gone"],
        }
    }
}

impl FromName for EventKind {
    const EXPECTED: &'static str = "one of `Resync`, `AddService`, `UpdateService`, \
        `DeleteService`, `UpdateNodePortServices`, `UpdateLocalFrontendIfs`, \
        `UpdateLocalBackendIfs`, `UpdateServiceCidrs`, \
        `UpdateNodes`, `UpdateWorkloads`";

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_lists_every_kind() {
        let names = EventKind::ALL.map(EventKind::name);
        let list = format!("one of `{}`", names.join("`, `"));
        assert_eq!(EventKind::EXPECTED, list);
    }

    #[test]
    fn the_documentation_names_every_kind_and_every_field() {
        let documentation = include_str!("../../../docs/events.md");
        for kind in EventKind::ALL {
            let name = format!("\"event\":\"{}\"", kind.name());
            assert!(documentation.contains(&name), "{name} is missing");
            for field in kind.fields() {
                let field = format!("\"{field}\":");
                assert!(documentation.contains(&field), "{field} is missing");
            }
        }
    }
}
