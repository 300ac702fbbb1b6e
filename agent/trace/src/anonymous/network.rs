//! The node's network and the names of frontends, with others in place.

use std::net::SocketAddr;

use super::Replaced;
use crate::dump::{
    content::{Frontend, Hop, Interface, Neighbour, Route, Rule, Share},
    record::Dump,
};

impl Replaced {
    /// All that is in no table.
    pub(super) fn network(&mut self, dump: &Dump, new: &mut Dump) {
        let interfaces = dump.interfaces.iter();
        new.interfaces = interfaces.map(|old| self.interface(old)).collect();
        new.routes = dump.routes.iter().map(|old| self.route(old)).collect();
        new.rules = dump.rules.iter().map(|old| self.rule(old)).collect();
        let neighbours = dump.neighbours.iter();
        new.neighbours = neighbours.map(|old| self.neighbour(old)).collect();
        let frontends = dump.frontends.iter();
        new.frontends = frontends.map(|old| self.frontend(old)).collect();
    }

    fn interface(&mut self, old: &Interface) -> Interface {
        Interface {
            name: self.names.interface(&old.name),
            link_address: old.link_address.map(|link| self.addresses.link(link)),
            addresses: old
                .addresses
                .iter()
                .map(|range| self.addresses.range(*range))
                .collect(),
            ..old.clone()
        }
    }

    fn route(&mut self, old: &Route) -> Route {
        Route {
            destination: self.addresses.range(old.destination),
            source: old.source.map(|range| self.addresses.range(range)),
            hops: old
                .hops
                .iter()
                .map(|hop| Hop {
                    gateway: hop.gateway.map(|address| self.addresses.address(address)),
                    ..hop.clone()
                })
                .collect(),
            ..old.clone()
        }
    }

    fn rule(&mut self, old: &Rule) -> Rule {
        Rule {
            source: old.source.map(|range| self.addresses.range(range)),
            destination: old.destination.map(|range| self.addresses.range(range)),
            interface: old
                .interface
                .as_deref()
                .map(|name| self.names.interface(name)),
            ..old.clone()
        }
    }

    fn neighbour(&mut self, old: &Neighbour) -> Neighbour {
        Neighbour {
            address: self.addresses.address(old.address),
            link_address: old.link_address.map(|link| self.addresses.link(link)),
            ..old.clone()
        }
    }

    fn frontend(&mut self, old: &Frontend) -> Frontend {
        let share = |share: &Share, this: &mut Self| Share {
            service: share
                .service
                .as_ref()
                .map(|(name, port)| (this.names.service(name), *port)),
            address: share
                .address
                .map(|to| SocketAddr::new(this.addresses.address(to.ip()), to.port())),
            weight: share.weight,
        };
        Frontend {
            address: self.addresses.address(old.address),
            service: self.names.service(&old.service),
            service_port: self.names.port(&old.service_port),
            split: old.split.iter().map(|old| share(old, self)).collect(),
            ..old.clone()
        }
    }
}
