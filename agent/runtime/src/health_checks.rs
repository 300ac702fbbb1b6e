//! The health checks of services whose external traffic goes to local endpoints only: a load
//! balancer asks each node by them whether it has such endpoints.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU16,
};

use shunt_model::ServiceId;

/// The health check of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthCheck {
    /// The port where it is asked for, the service's `healthCheckNodePort`.
    pub port: NonZeroU16,
    /// Number of addresses, over all ports and both families, that have endpoints on this node that are
    /// ready.
    pub local_endpoints: u32,
}

/// Change of the health checks by an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HealthCheckChange {
    /// Not at all.
    #[default]
    None,
    /// A service has this one now, or none any more.
    Of(ServiceId, Option<HealthCheck>),
    /// These are all there are.
    All(BTreeMap<ServiceId, HealthCheck>),
}

/// Health checks as they were before they were [announced](HealthChecks::announce) to fail.
#[derive(Debug, PartialEq, Eq, Default)]
#[must_use = "a change that is not applied has to be taken back"]
pub(super) struct Announced(BTreeMap<ServiceId, HealthCheck>);

impl Announced {
    /// Returns whether none fails.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The health checks as they are to be answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthChecks {
    /// The addresses of this node where they are answered; empty: all of them.
    pub addresses: BTreeSet<IpAddr>,
    /// Each service that has one.
    pub services: BTreeMap<ServiceId, HealthCheck>,
}

impl HealthChecks {
    /// Makes those fail that have no local endpoint any more after `change`: load balancers are to
    /// know before the traffic stops. Returns them as they were.
    pub(super) fn announce(&mut self, change: &HealthCheckChange) -> Announced {
        let mut services = BTreeMap::new();
        let mut announce = |id: &ServiceId, old: &mut HealthCheck, new: Option<&HealthCheck>| {
            let before = *old;
            if fall(old, new) {
                services.insert(id.clone(), before);
            }
        };
        match change {
            HealthCheckChange::None => {}
            HealthCheckChange::Of(id, new) => {
                if let Some(old) = self.services.get_mut(id) {
                    announce(id, old, new.as_ref());
                }
            }
            HealthCheckChange::All(new) => {
                for (id, old) in &mut self.services {
                    announce(id, old, new.get(id));
                }
            }
        }
        Announced(services)
    }

    /// Makes them what they were before a change was announced that is not applied.
    pub(super) fn take_back(&mut self, Announced(services): Announced) {
        self.services.extend(services);
    }

    /// Makes them what they are after `change`. Returns whether anything has changed.
    pub(super) fn apply(&mut self, change: HealthCheckChange) -> bool {
        match change {
            HealthCheckChange::None => false,
            HealthCheckChange::Of(id, Some(new)) => self.services.insert(id, new) != Some(new),
            HealthCheckChange::Of(id, None) => self.services.remove(&id).is_some(),
            HealthCheckChange::All(new) => {
                let differs = self.services != new;
                self.services = new;
                differs
            }
        }
    }
}

/// Returns whether a health check that succeeded fails now.
fn fall(old: &mut HealthCheck, new: Option<&HealthCheck>) -> bool {
    let stays = new.is_some_and(|new| new.local_endpoints > 0);
    let falls = old.local_endpoints > 0 && !stays;
    if falls {
        old.local_endpoints = 0;
    }
    falls
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: NonZeroU16 = NonZeroU16::new(30_000).unwrap();

    fn id(name: &str) -> ServiceId {
        ServiceId::new("default", name)
    }

    fn check(local_endpoints: u32) -> HealthCheck {
        HealthCheck {
            port: PORT,
            local_endpoints,
        }
    }

    fn checks(counts: &[(&str, u32)]) -> BTreeMap<ServiceId, HealthCheck> {
        let counts = counts.iter();
        counts
            .map(|(name, count)| (id(name), check(*count)))
            .collect()
    }

    fn of(counts: &[(&str, u32)]) -> HealthChecks {
        HealthChecks {
            addresses: BTreeSet::new(),
            services: checks(counts),
        }
    }

    #[test]
    fn a_check_fails_before_the_event_and_succeeds_after_it() {
        for (before, new, announced, applied) in [
            (Some(2), Some(0), Some(0), Some(0)),
            (Some(2), None, Some(0), None),
            (Some(2), Some(1), Some(2), Some(1)),
            (Some(0), Some(1), Some(0), Some(1)),
            (None, Some(1), None, Some(1)),
        ] {
            let list = |count: Option<u32>| match count {
                Some(count) => of(&[("web", count)]),
                None => of(&[]),
            };
            let change = HealthCheckChange::Of(id("web"), new.map(check));
            let mut known = list(before);
            let fell = known.announce(&change);
            assert_eq!(known, list(announced), "{before:?} to {new:?}");
            assert_eq!(fell.is_empty(), before == announced);
            let mut restored = known.clone();
            restored.take_back(fell);
            assert_eq!(restored, list(before), "the change was refused");
            assert!(known.apply(change.clone()) || announced == applied);
            assert_eq!(known, list(applied), "{before:?} to {new:?}");
            assert!(known.announce(&change).is_empty(), "again");
            assert!(!known.apply(change), "again");
        }
    }

    #[test]
    fn a_snapshot_replaces_all() {
        let mut known = of(&[("gone", 1), ("kept", 1), ("emptied", 3)]);
        let change = HealthCheckChange::All(checks(&[("kept", 2), ("emptied", 0), ("new", 1)]));
        let before = known.clone();
        let fell = known.announce(&change);
        assert_eq!(known, of(&[("gone", 0), ("kept", 1), ("emptied", 0)]));
        let mut restored = known.clone();
        restored.take_back(fell);
        assert_eq!(restored, before);
        assert!(known.apply(change));
        assert_eq!(known, of(&[("kept", 2), ("emptied", 0), ("new", 1)]));
    }
}
