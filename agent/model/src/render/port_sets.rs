//! The backend sets of one service port: of its own endpoints, and of its split, if it has one.

use std::{net::IpAddr, sync::Arc};

use crate::{
    render::{
        backend_sets::{BackendSets, local_backend_weight},
        error::RenderError,
        frontend::{BackendSet, FrontendKind, Refusal},
        options::Balancing,
        reach::Reach,
        split_sets::SplitSets,
        split_target::{Others, PortIndex},
    },
    selection::Selection,
    service::{Service, ServicePort},
    split::SplitFrontends,
};

/// The sets that the frontends of a service port select from.
pub(super) struct PortSets<'a> {
    own: BackendSets<'a>,
    split: Option<(SplitFrontends, SplitSets<'a>)>,
}

impl<'a> PortSets<'a> {
    /// The sets of `port`.
    ///
    /// # Errors
    ///
    /// The weights of the port's own usable backends of one family have too large a sum.
    pub(super) fn new(
        service: &'a Service,
        port: &'a ServicePort,
        (others, index): (&Others<'a>, &PortIndex<'a>),
        balancing: &Balancing,
    ) -> Result<Self, RenderError> {
        let split = port.split.as_ref().map(|split| {
            let settings = (
                balancing.maglev_entries,
                local_backend_weight(service, port, balancing),
            );
            let sets = SplitSets::new(service, port, split, (others, index), settings);
            (split.frontends, sets)
        });
        Ok(Self {
            own: BackendSets::new(service, port, balancing)?,
            split,
        })
    }

    /// Returns the refusal of a frontend of this kind on `address` whose own set has no usable backend.
    pub(super) fn refusal(&self, address: IpAddr, kind: FrontendKind) -> Refusal {
        match &self.split {
            Some((frontends, split)) if frontends.include(kind) => split.refusal(address),
            _ => self.own.refusal(address),
        }
    }

    /// The set that a frontend of this kind on `address` selects from, in this way.
    pub(super) fn of(
        &mut self,
        address: IpAddr,
        kind: FrontendKind,
        reach: Reach,
        selection: Selection,
    ) -> Arc<BackendSet> {
        match &mut self.split {
            Some((frontends, split)) if frontends.include(kind) => {
                split.of(address, reach, selection)
            }
            _ => self.own.of(address, reach.policy(), selection),
        }
    }

    /// The set that a frontend of this kind on `address` has with its draining backends, in this way; `None` if
    /// none is draining, or if it has a split: whose endpoints they are changes with that.
    pub(super) fn with_draining(
        &mut self,
        address: IpAddr,
        kind: FrontendKind,
        selection: Selection,
    ) -> Option<Arc<BackendSet>> {
        match &self.split {
            Some((frontends, _)) if frontends.include(kind) => None,
            _ => self.own.with_draining(address, selection),
        }
    }
}

impl SplitFrontends {
    /// Returns whether frontends of this kind are among them.
    const fn include(self, kind: FrontendKind) -> bool {
        match self {
            Self::All => true,
            Self::ClusterIp => matches!(kind, FrontendKind::ClusterIp),
        }
    }
}
