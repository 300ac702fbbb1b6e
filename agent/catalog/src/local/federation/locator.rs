//! By which addresses a secondary gets to its primary, as Consul's own locator of gateways decides it.

use std::collections::BTreeSet;

use crate::local::federation::{record::Gateway, states::States};

/// So many failures in a row are no accident any more.
const FAILURES: u32 = 3;

/// State of the copying from the primary so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replication {
    /// It never worked since the start.
    Never,
    /// It did, and has failed so often since.
    Worked {
        /// In a row.
        failures: u32,
    },
}

impl Replication {
    /// It worked.
    pub(super) const fn worked() -> Self {
        Self::Worked { failures: 0 }
    }

    /// It failed once more.
    #[must_use]
    pub(super) const fn failed(self) -> Self {
        match self {
            Self::Never => Self::Never,
            Self::Worked { failures } => Self::Worked {
                failures: failures.saturating_add(1),
            },
        }
    }

    /// Returns whether there is a copy at all.
    pub(super) const fn has_worked(self) -> bool {
        matches!(self, Self::Worked { .. })
    }

    /// Returns whether the way by the own gateways is to be believed.
    const fn is_good(self) -> bool {
        matches!(self, Self::Worked { failures } if failures < FAILURES)
    }
}

/// The addresses of which any leads from `own` to `primary`, sorted: the own gateways while that works,
/// and else those of the primary, with the ones that are `configured`. Only usable gateways that carry
/// the federation count.
pub(super) fn ways_to_primary(
    states: &States,
    own: &str,
    primary: &str,
    configured: &[String],
    replication: Replication,
) -> Vec<String> {
    let carrying = |datacenter| {
        let gateways = states.gateways(datacenter).iter();
        gateways.filter(|gateway| gateway.federates() && gateway.is_usable())
    };
    let near: BTreeSet<String> = carrying(own).map(Gateway::lan).collect();
    if replication.is_good() && !near.is_empty() {
        return near.into_iter().collect();
    }
    let far = carrying(primary).map(Gateway::wan);
    let all: BTreeSet<String> = far.chain(configured.iter().cloned()).collect();
    all.into_iter().collect()
}
