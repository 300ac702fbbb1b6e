//! Pairs of services of which one waits for frontends of the other, as far as they have been logged.

use std::{collections::BTreeMap, fmt};

use shunt_model::Conflict;

use crate::pairs::{Extent, Pair, Pairs, pair_of};

/// The pairs of services that are logged for one event at most.
const SHOWN: usize = 10;

/// The pairs, each with the number of frontends.
#[derive(Debug, Default)]
pub(super) struct Disputes(Pairs<usize>);

/// A pair that is new or has more frontends.
#[derive(Debug, PartialEq, Eq)]
struct Dispute<'a> {
    example: &'a Conflict,
    count: usize,
}

/// The pairs of an event that are to be logged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct News<'a>(Vec<Dispute<'a>>);

impl Disputes {
    /// Records the conflicts of an event. Returns the pairs that are new, or have more frontends than before.
    pub(super) fn note<'a>(&mut self, extent: Extent<'_>, found: &'a [Conflict]) -> News<'a> {
        let mut now = BTreeMap::<Pair, Dispute<'a>>::new();
        for example in found {
            let dispute = Dispute { example, count: 0 };
            let dispute = now.entry(pair_of(example)).or_insert(dispute);
            dispute.count += 1;
        }
        let Self(pairs) = self;
        let counts: Vec<_> = now
            .iter()
            .map(|(pair, dispute)| (pair.clone(), dispute.count))
            .collect();
        now.retain(|pair, dispute| pairs.get(pair).is_none_or(|known| dispute.count > *known));
        pairs.note(extent, counts, usize::max);
        News(now.into_values().collect())
    }
}

impl News<'_> {
    /// A line for each of the first pairs, and one that counts the others.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let more = self.0.len().saturating_sub(SHOWN);
        let more = (more > 0).then(|| format!("{more} more pairs of services: see `shunt status`"));
        self.0
            .iter()
            .take(SHOWN)
            .map(ToString::to_string)
            .chain(more)
    }
}

impl fmt::Display for Dispute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { example, count } = self;
        write!(f, "{example}")?;
        if *count > 1 {
            write!(f, ", and {} more", count - 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use shunt_model::{FrontendKey, Precedence, Protocol, ServiceId};

    use super::*;

    fn id(name: &str) -> Arc<ServiceId> {
        Arc::new(ServiceId::new("default", name))
    }

    /// `waiting` wants this many frontends of `holder`.
    fn conflicts(waiting: &str, holder: &str, ports: u16) -> Vec<Conflict> {
        let conflict = |port| Conflict {
            key: FrontendKey {
                address: IpAddr::from([203, 0, 113, 1]),
                port,
                protocol: Protocol::Tcp,
            },
            holder: id(holder),
            waiting: id(waiting),
            precedence: Precedence::Older,
        };
        (1..=ports).map(conflict).collect()
    }

    fn said(disputes: &mut Disputes, extent: Extent<'_>, found: &[Conflict]) -> Vec<String> {
        disputes.note(extent, found).lines().collect()
    }

    #[test]
    fn a_pair_is_said_once_until_it_has_more_frontends_or_was_gone() {
        let mut disputes = Disputes::default();
        let (all, b) = (Extent::All, id("b"));
        let b = Extent::Service(&b);
        let line = |more: &str| {
            format!(
                "service default/b: frontend 203.0.113.1:1/TCP belongs to service default/a, whose claim is older{more}"
            )
        };
        let many = conflicts("b", "a", 60_000);
        assert_eq!(said(&mut disputes, all, &many), [line(", and 59999 more")]);
        assert_eq!(said(&mut disputes, b, &many), [""; 0]);
        assert_eq!(said(&mut disputes, all, &many), [""; 0]);
        assert_eq!(
            said(&mut disputes, b, &conflicts("b", "a", 60_001)),
            [line(", and 60000 more")]
        );
        assert_eq!(
            said(&mut disputes, Extent::Some, &conflicts("b", "a", 1)),
            [""; 0],
            "the others are still there"
        );
        assert_eq!(
            said(&mut disputes, b, &conflicts("b", "a", 60_001)),
            [""; 0]
        );
        assert_eq!(said(&mut disputes, b, &[]), [""; 0]);
        assert_eq!(said(&mut disputes, b, &conflicts("b", "a", 1)), [line("")]);
    }

    #[test]
    fn an_event_of_the_holder_ends_a_pair_too() {
        let mut disputes = Disputes::default();
        let (a, c) = (id("a"), id("c"));
        let one = conflicts("b", "a", 1);
        assert_eq!(said(&mut disputes, Extent::Service(&a), &one).len(), 1);
        assert_eq!(said(&mut disputes, Extent::Service(&c), &[]).len(), 0);
        assert_eq!(said(&mut disputes, Extent::Service(&a), &one).len(), 0);
        assert_eq!(said(&mut disputes, Extent::Service(&a), &[]).len(), 0);
        assert!(disputes.0.is_empty());
    }

    #[test]
    fn of_many_pairs_the_first_are_named() {
        let all: Vec<_> = (0..30)
            .flat_map(|number| conflicts(&format!("b{number:02}"), "a", 1))
            .collect();
        let said = said(&mut Disputes::default(), Extent::All, &all);
        assert_eq!(said.len(), SHOWN + 1);
        assert_eq!(said[SHOWN], "20 more pairs of services: see `shunt status`");
    }
}
