//! A frontend, and what it comes to.

use std::net::IpAddr;

use crate::source::instances::{
    frontend::{Frontend, Vip},
    instance::Instance,
    query::{Query, TierQueries},
    tier::{Datacenter, Tier},
    vip::{Address, tagged},
};

/// A frontend, and what is remembered of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) frontend: Frontend,
    pub(super) claim: Claim,
    /// The address that it was last given by its instances.
    address: Option<Address>,
    pub(super) is_pending: bool,
    /// Where its instances are, in the order in which they are wanted, and what is asked for them.
    pub(super) tiers: Vec<(Tier, TierQueries)>,
    /// Whether somebody has still to say which tiers there are.
    pub(super) tiers_are_open: bool,
    /// Where those are that take new connections, of what the renderer is told.
    pub(super) serving: Option<Datacenter>,
}

/// What is known of an address that is to be claimed.
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
            serving: None,
            frontend,
            claim: Claim::Open,
            address: None,
            is_pending: false,
        }
    }

    /// Has other tiers from now on. Gives whether they are others than before.
    pub(super) fn set_tiers(&mut self, tiers: Vec<Tier>) -> bool {
        let was_open = std::mem::replace(&mut self.tiers_are_open, false);
        let tiers = with_queries(&self.frontend, tiers);
        let is_new = tiers != self.tiers;
        self.tiers = tiers;
        is_new || was_open
    }

    /// What has to be known for it.
    pub(super) fn queries(&self) -> impl Iterator<Item = Query> + use<> {
        let queries = self.tiers.iter().map(|(_, queries)| queries.clone());
        let queries: Vec<TierQueries> = queries.collect();
        queries.into_iter().flat_map(TierQueries::all)
    }

    /// The frontend's address, and what is wrong with it. One that instances gave stays until they agree
    /// on another: nobody is without an address because of one registration.
    pub(super) fn address(
        &mut self,
        instances: &[Instance],
        problems: &mut Vec<String>,
    ) -> Option<Address> {
        let Self {
            frontend,
            claim,
            address,
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
                let wanted = instances.iter();
                let wanted = wanted.filter(|instance| frontend.is_for(instance));
                match tagged(frontend, tag, wanted) {
                    Ok(found) => *address = Some(found),
                    Err(problem) => problems.push(problem.to_string()),
                }
                address.clone()
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
