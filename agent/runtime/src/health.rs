//! Check that the agent keeps up, as kube-proxy's health server judges it: no change waits for too long. A change that
//! was refused, because a table is full, does not wait: what cured that would be no restart, nor another node.

use std::time::{Duration, Instant, SystemTime};

use crate::ip_family::IpFamily;

/// A change that waits for so long makes the agent unhealthy: twice kube-proxy's `syncPeriod`.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Changes that a source knows of and that are not applied yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// Changes of services.
    pub services: u64,
    /// Changes of endpoints.
    pub endpoints: u64,
    /// Services among them whose change was refused, and is tried again.
    pub refused: u64,
    /// Since when the oldest of the others has waited, for each family that they concern.
    pub oldest: ByFamily<Option<Instant>>,
}

/// Something of each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByFamily<T> {
    /// Of IPv4.
    pub v4: T,
    /// Of IPv6.
    pub v6: T,
}

impl<T> ByFamily<T> {
    /// That of `family`.
    pub const fn of(&self, family: IpFamily) -> &T {
        match family {
            IpFamily::V4 => &self.v4,
            IpFamily::V6 => &self.v6,
        }
    }

    /// That of `family`, to be changed.
    pub const fn of_mut(&mut self, family: IpFamily) -> &mut T {
        match family {
            IpFamily::V4 => &mut self.v4,
            IpFamily::V6 => &mut self.v6,
        }
    }
}

/// State by which the agent's health is judged.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// True if load balancers may send new connections to this node; `None` without a cluster that
    /// decides it.
    pub node_eligible: Option<bool>,
    /// Changes of the source that are not applied yet.
    pub pending: Pending,
    /// Since when the oldest event in the queue has waited, and how many there are.
    pub queued: Option<(Instant, u64)>,
    /// True if an event waits for a decision of an operator, and all later ones behind it.
    pub is_undecided: bool,
    /// Since when the event loop is at what it does now, whatever that is; `None`: it waits.
    pub busy: Option<Instant>,
    /// Time at which the last event that concerned the family was applied.
    pub updated: ByFamily<Option<SystemTime>>,
    /// True if pinned tables translate until the first event.
    pub over_pinned_tables: bool,
    /// True if a Resync was applied since the agent's start, with all services or without those that do not fit.
    pub synced: bool,
    /// The hooks that the kernel refused, a phrase each.
    pub failed_hooks: Vec<String>,
}

/// Health of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyHealth {
    /// True if no change of it has waited for too long.
    pub healthy: bool,
    /// Time at which it was last brought up to date, if it ever was.
    pub updated: Option<SystemTime>,
}

impl Health {
    /// Returns the health of `family` at `now`.
    pub fn family(&self, family: IpFamily, now: Instant) -> FamilyHealth {
        let queued = self.queued.map(|(since, _)| since);
        // No restart decides in an operator's place, and no other node has a newer state.
        let changes = [*self.pending.oldest.of(family), queued];
        let changes = changes.into_iter().flatten().filter(|_| !self.is_undecided);
        // The reader that is notified of the next change may be in the same thread.
        let mut waiting = changes.chain(self.busy);
        let late = |since| now.saturating_duration_since(since) >= PATIENCE;
        FamilyHealth {
            healthy: !waiting.any(late),
            updated: *self.updated.of(family),
        }
    }

    /// Returns whether both families are healthy at `now`.
    pub fn is_healthy(&self, now: Instant) -> bool {
        let mut families = IpFamily::ALL.into_iter();
        families.all(|family| self.family(family, now).healthy)
    }

    /// Returns whether this node translates: by the first event that was applied, or by pinned tables until then.
    pub fn is_translating(&self) -> bool {
        let ByFamily { v4, v6 } = self.updated;
        self.over_pinned_tables || v4.or(v6).is_some()
    }

    /// Returns whether load balancers may send new connections to this node.
    pub fn is_node_eligible(&self) -> bool {
        self.node_eligible.unwrap_or(true)
    }

    /// An event was put into the queue.
    pub(super) fn queue(&mut self, now: Instant) {
        let (since, count) = self.queued.unwrap_or((now, 0));
        self.queued = Some((since, count + 1));
    }

    /// The oldest event was taken out of the queue and is done with. The next has not waited longer
    /// than this one took.
    pub(super) fn unqueue(&mut self, now: Instant) {
        self.queued = match self.queued {
            Some((_, count)) if count > 1 => Some((now, count - 1)),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(v4: Option<Instant>, v6: Option<Instant>) -> Health {
        Health {
            pending: Pending {
                oldest: ByFamily { v4, v6 },
                ..Pending::default()
            },
            ..Health::default()
        }
    }

    #[test]
    fn a_change_that_waits_for_a_minute_makes_its_family_unhealthy() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let health = pending(Some(start), Some(after(30)));
        for (seconds, v4, v6) in [
            (0, true, true),
            (59, true, true),
            (60, false, true),
            (90, false, false),
        ] {
            let at = after(seconds);
            let families = IpFamily::ALL.map(|family| health.family(family, at).healthy);
            assert_eq!(families, [v4, v6], "after {seconds} s");
            assert_eq!(health.is_healthy(at), v4 && v6);
        }
        assert!(
            pending(None, None).is_healthy(after(10_000)),
            "nothing waits"
        );
    }

    #[test]
    fn an_event_that_nobody_takes_makes_both_families_unhealthy() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut health = Health::default();
        health.queue(start);
        health.queue(after(50));
        assert!(!health.is_healthy(after(60)));
        health.unqueue(after(61));
        assert!(health.is_healthy(after(120)));
        assert!(
            !health.is_healthy(after(121)),
            "the second has waited since then"
        );
        health.unqueue(after(121));
        assert!(health.is_healthy(after(10_000)));
    }

    #[test]
    fn an_event_loop_that_is_stuck_is_unhealthy_though_no_change_is_known_to_wait() {
        let start = Instant::now();
        let health = Health {
            busy: Some(start),
            ..Health::default()
        };
        assert!(health.is_healthy(start + Duration::from_secs(59)));
        assert!(!health.is_healthy(start + PATIENCE));
    }

    #[test]
    fn changes_that_wait_for_a_decision_make_no_agent_unhealthy() {
        let start = Instant::now();
        let late = start + PATIENCE;
        let mut health = pending(Some(start), Some(start));
        health.queue(start);
        health.is_undecided = true;
        assert!(health.is_healthy(late));
        health.busy = Some(start);
        assert!(!health.is_healthy(late), "it is stuck");
        health.busy = None;
        health.is_undecided = false;
        assert!(!health.is_healthy(late));
    }

    #[test]
    fn a_node_translates_from_the_first_event_on_or_by_pinned_tables() {
        let mut health = Health::default();
        assert!(!health.is_translating());
        health.over_pinned_tables = true;
        assert!(health.is_translating());
        let updated = ByFamily {
            v4: None,
            v6: Some(SystemTime::now()),
        };
        let health = Health {
            updated,
            ..Health::default()
        };
        assert!(health.is_translating());
    }

    #[test]
    fn a_node_is_eligible_unless_a_cluster_says_otherwise() {
        for (said, eligible) in [(None, true), (Some(true), true), (Some(false), false)] {
            let health = Health {
                node_eligible: said,
                ..Health::default()
            };
            assert_eq!(health.is_node_eligible(), eligible);
        }
    }
}
