//! A frontend, and what it comes to.

use std::net::IpAddr;

use crate::source::instances::{
    frontend::{Frontend, Vip},
    instance::Instance,
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
    pub(super) const fn new(frontend: Frontend) -> Self {
        Self {
            frontend,
            claim: Claim::Open,
            address: None,
            is_pending: false,
        }
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
            is_pending: _,
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
