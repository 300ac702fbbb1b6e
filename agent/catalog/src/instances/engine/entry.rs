//! A frontend, and its state in the engine.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use crate::instances::{
    frontend::{Frontend, Vip},
    query::{Query, TierQueries},
    tier::{Datacenter, Failover, Tier},
    vip::{Address, Agreed, Said, agree},
};

/// Time that a frontend waits for what is not known of its tiers, and all of them at the start for services of this
/// datacenter. A datacenter may be out of reach for long, or nowhere.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A frontend, and its remembered state.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) frontend: Frontend,
    pub(super) claim: Claim,
    /// The address on which its instances agreed last.
    pub(super) agreed: Option<Agreed>,
    pub(super) is_pending: bool,
    /// Tiers of its instances, the most wanted first, and their queries.
    pub(super) tiers: Vec<(Tier, TierQueries)>,
    /// True if its tiers are not all known yet.
    pub(super) tiers_are_open: bool,
    /// Notes on its tiers, to be shown.
    pub(super) notes: Vec<String>,
    /// State of the wait for what is not known of its tiers yet.
    waiting: Waiting,
    /// Datacenter of the instances that take new connections, as the renderer got them.
    pub(super) serving: Option<Datacenter>,
}

/// State of the wait for what is not known of a frontend's tiers. Meanwhile the frontend stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// From the first look at it on.
    ToBegin,
    /// Since then.
    Since(Instant),
    /// No longer: all is known that was needed, or it has taken too long.
    Over,
}

/// State of an address that is to be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nothing yet.
    Open,
    /// It is this one.
    At(IpAddr),
    /// There is none, and why.
    Refused(String),
}

impl Entry {
    pub(super) fn new(frontend: Frontend) -> Self {
        Self {
            tiers: with_queries(&frontend, frontend.configured_tiers()),
            tiers_are_open: !frontend.has_fixed_tiers(),
            notes: Vec::new(),
            waiting: Waiting::ToBegin,
            serving: None,
            frontend,
            claim: Claim::Open,
            agreed: None,
            is_pending: false,
        }
    }

    /// Sets the tiers. Returns whether they are others than before.
    pub(super) fn set_tiers(&mut self, tiers: Vec<Tier>, now: Instant) -> bool {
        let was_open = std::mem::replace(&mut self.tiers_are_open, false);
        let tiers = with_queries(&self.frontend, tiers);
        let is_new = tiers != self.tiers;
        if is_new {
            self.waiting = Waiting::Since(now);
        }
        self.tiers = tiers;
        is_new || was_open
    }

    /// Returns whether what is not known of its tiers is still waited for.
    pub(super) fn waits(&self) -> bool {
        self.waiting != Waiting::Over
    }

    /// Waits for nothing any more.
    pub(super) const fn stop_waiting(&mut self) {
        self.waiting = Waiting::Over;
    }

    /// Begins to wait, if it is to. Returns whether it has just taken too long.
    pub(super) fn has_waited(&mut self, now: Instant) -> bool {
        match self.waiting {
            Waiting::ToBegin => {
                self.waiting = Waiting::Since(now);
                false
            }
            Waiting::Since(since) => {
                let is_over = now.duration_since(since) >= PATIENCE;
                if is_over {
                    self.waiting = Waiting::Over;
                }
                is_over
            }
            Waiting::Over => false,
        }
    }

    /// Returns whether its first tier is not known yet.
    pub(super) fn first_is_open(&self) -> bool {
        self.tiers_are_open && self.frontend.failover == Failover::Resolver
    }

    /// Returns the queries that it needs.
    pub(super) fn queries(&self) -> impl Iterator<Item = Query> + use<> {
        let queries = self.tiers.iter().map(|(_, queries)| queries.clone());
        let queries: Vec<TierQueries> = queries.collect();
        queries.into_iter().flat_map(TierQueries::all)
    }

    /// Returns the frontend's address from its instances, those of the most wanted tier first, and its faults.
    pub(super) fn address(
        &mut self,
        said: &[Said<'_>],
        problems: &mut Vec<String>,
    ) -> Option<Address> {
        let Self {
            frontend,
            claim,
            agreed,
            ..
        } = self;
        match &frontend.vip {
            Vip::Fixed(ips) => Some(Address {
                ips: ips.clone(),
                port: frontend.port?,
            }),
            Vip::Claimed(_) => match claim {
                Claim::Open => None,
                Claim::At(ip) => Some(Address {
                    ips: vec![*ip],
                    port: frontend.port?,
                }),
                Claim::Refused(reason) => {
                    problems.push(reason.clone());
                    None
                }
            },
            Vip::Tagged(tag) => {
                if let Some(found) = agree(frontend, tag, said, agreed.as_ref(), problems) {
                    *agreed = Some(found);
                }
                agreed.as_ref().map(|agreed| agreed.address.clone())
            }
        }
    }
}

fn with_queries(frontend: &Frontend, tiers: Vec<Tier>) -> Vec<(Tier, TierQueries)> {
    let tiers = tiers.into_iter();
    let with = |tier: Tier| {
        let queries = TierQueries::of(frontend, &tier);
        (tier, queries)
    };
    tiers.map(with).collect()
}
