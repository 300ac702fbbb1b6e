//! The backends that may be chosen for a flow, and the source that they may see.

use std::net::IpAddr;

use shunt_common::{
    Tuple, V4, V6,
    connections::{Key, Role, Wide},
    maglev::client_number,
};
use shunt_model::maglev;

use super::{
    addresses::{HAIRPIN, NODE, SNAT_PORTS},
    cluster::{Endpoint, Policy, PortName, Protocol, ServiceId},
    dsr::Served,
    flow::SECOND,
    frontends::{Frontend, Kind, Member},
    model::Model,
    wire::Packet,
};

/// Key of a client's affinity: a service port's, by whichever of its frontends.
pub(crate) type Bound = (IpAddr, ServiceId, PortName, bool);

/// A client's last backend.
#[derive(Debug)]
pub(crate) struct Bond {
    member: Member,
    membership: u64,
    pub last_used: u64,
}

/// True if some connections are refused that could be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MayRefuse(pub bool);

/// The service of a packet that belongs to no flow.
pub(crate) enum Service {
    NotAFrontend,
    Rejected,
    Dropped(&'static str),
    /// One of these, or none if some are refused.
    Backends(Vec<Member>, MayRefuse),
}

impl Model {
    /// Returns whether it is for another station, and no pod of this node has sent it.
    pub(super) fn is_overheard(&self, packet: &Packet<'_>) -> bool {
        packet.overheard && !self.cluster.is_on_this_node(packet.ends.source.ip)
    }

    /// Returns the service of the packet, which is served here.
    pub(super) fn service(&self, packet: &Packet<'_>, served: Served) -> Service {
        let key = self.frontend_of(packet);
        let on_this_node = self.cluster.is_on_this_node(packet.ends.source.ip);
        let Some(frontend) = self.cluster.frontends.get(&key) else {
            return Service::NotAFrontend;
        };
        if frontend.this_node_only && !on_this_node {
            return Service::NotAFrontend;
        }
        if let Some(reason) = self.refusal(frontend, packet) {
            return Service::Dropped(reason);
        }
        let set = frontend.set_for(on_this_node);
        let (_, mut may_refuse) = self.cluster.taking(frontend, set);
        let mut candidates = self.candidates(frontend, set);
        if frontend.is_dsr && served == Served::ByOwn {
            let own = self.candidates(frontend, Policy::Local);
            if !own.is_empty() {
                candidates = own;
            }
        }
        if let Some(bound) = self.bound(frontend, packet)
            && candidates.contains(&bound)
        {
            candidates = vec![bound];
            may_refuse = false;
        } else if self.cluster.services[&frontend.service].maglev {
            candidates = self.by_table(frontend, packet, candidates);
        }
        if !candidates.is_empty() {
            return Service::Backends(candidates, MayRefuse(may_refuse));
        }
        if self.cluster.has_usable(frontend) {
            Service::Dropped("drop_no_backend")
        } else {
            Service::Rejected
        }
    }

    /// Returns the reason why the frontend does not serve this client, if it does not.
    pub(super) fn refusal(&self, frontend: &Frontend, packet: &Packet<'_>) -> Option<&'static str> {
        let client = packet.ends.source.ip;
        let ranges = &self.cluster.services[&frontend.service].source_ranges;
        let of_family = |(ip, _): &&(IpAddr, u8)| ip.is_ipv4() == client.is_ipv4();
        let mut ranges = ranges.iter().filter(of_family).peekable();
        let open = ranges.peek().is_none() || ranges.any(|range| is_in(client, *range));
        let refused = frontend.kind == Kind::LoadBalancerIp && !open;
        refused.then_some("drop_source_range")
    }

    /// Returns the backend that the client stays with at this frontend's service port, if that has session affinity.
    fn bound(&self, frontend: &Frontend, packet: &Packet<'_>) -> Option<Member> {
        let timeout = self.cluster.services[&frontend.service].affinity;
        let &Frontend {
            service,
            port,
            is_beside_split,
            ..
        } = frontend;
        let key = (packet.ends.source.ip, service, port, is_beside_split);
        let bond = self.bonds.get(&key)?;
        let current = self.cluster.membership(bond.member) == Some(bond.membership);
        let recent = self.flows.now() - bond.last_used <= u64::from(timeout) * SECOND;
        (timeout > 0 && current && recent).then_some(bond.member)
    }

    /// Returns the members of this set that may be chosen.
    pub(super) fn candidates(&self, frontend: &Frontend, set: Policy) -> Vec<Member> {
        let (taking, _) = self.cluster.taking(frontend, set);
        let members = taking.into_iter().map(|at| frontend.member(at));
        members.collect()
    }

    /// The one of these that the Maglev table of them names for the packet; with session affinity for
    /// all packets of its client.
    pub(super) fn by_table(
        &self,
        frontend: &Frontend,
        packet: &Packet<'_>,
        mut candidates: Vec<Member>,
    ) -> Vec<Member> {
        candidates.sort_by_key(|member| member.at);
        let service = &self.cluster.services[&frontend.service];
        let backends = &service.ports[frontend.port].backends;
        let weight = |member: &Member| {
            let mut backends = backends.iter();
            let found = backends.find(|backend| backend.at == member.at);
            found.map_or(0, |backend| backend.weight)
        };
        let members: Vec<_> = candidates
            .iter()
            .map(|member| maglev::Member {
                ip: member.at.ip,
                port: member.at.port,
                weight: weight(member),
            })
            .collect();
        match by_number(&members, packet_number(packet, service.affinity > 0)) {
            Some(place) => vec![candidates[place]],
            None => candidates,
        }
    }

    /// Returns whether the backend sees the client's own address.
    pub(super) fn keeps_source(&self, client: IpAddr, member: Member) -> bool {
        self.source_for(client, member) == client
    }

    /// The address that the backend sees: the client's own where replies come back by themselves,
    /// the hairpin address if that is the backend's, and this node's elsewhere. No interface has the programs here, so
    /// that masquerading towards backends on this node has no effect.
    fn source_for(&self, client: IpAddr, member: Member) -> IpAddr {
        if !self.cluster.is_local(member) && !self.cluster.is_on_this_node(client) {
            NODE.like(client)
        } else if client == member.at.ip {
            HAIRPIN.like(client)
        } else {
            client
        }
    }

    /// Returns the source that the backend sees, if it may be `chosen`: one that keeps its address,
    /// or has the hairpin address, keeps its own port unless that is taken. Of the flow that gives
    /// way to this one the source is free, unless its port is `avoided`.
    pub(super) fn source_towards(
        &self,
        packet: &Packet<'_>,
        member: Member,
        chosen: Endpoint,
        (known, avoided): (Option<usize>, Option<u16>),
    ) -> Option<Endpoint> {
        let Endpoint { ip: client, port } = packet.ends.source;
        let ip = self.source_for(client, member);
        let keeps_port = ip == client || HAIRPIN.has(ip);
        let own = Endpoint { ip, port };
        let is_known = |source: Endpoint| {
            known.is_some_and(|known| {
                let known = self.flows.at(known);
                known.backend == member.at && known.source == source
            })
        };
        let is_free = |source: Endpoint| {
            avoided != Some(source.port)
                && (is_known(source) || self.flows.is_free(packet.ends, source, member.at))
        };
        if keeps_port && is_free(own) {
            return Some(own);
        }
        let right = chosen.ip == ip && SNAT_PORTS.contains(&chosen.port) && is_free(chosen);
        right.then_some(chosen)
    }

    /// Returns whether the service of these has session affinity.
    pub(super) fn has_affinity(&self, members: &[Member]) -> bool {
        let mut services = members.iter().map(|member| member.service);
        services.any(|service| self.cluster.services[&service].affinity > 0)
    }

    /// Remembers whom the client has now, if the service has session affinity.
    pub(super) fn bind(&mut self, packet: &Packet<'_>, member: Member, membership: u64) {
        if self.cluster.services[&member.service].affinity > 0 {
            let bond = Bond {
                member,
                membership,
                last_used: self.flows.now(),
            };
            let Member {
                service,
                port,
                is_beside_split,
                at: _,
            } = member;
            let bound = (packet.ends.source.ip, service, port, is_beside_split);
            self.bonds.insert(bound, bond);
        }
    }
}

/// The place of the one that the Maglev table of these names for the number, if they have a table.
pub(super) fn by_number(members: &[maglev::Member], number: u32) -> Option<usize> {
    let size = maglev::EntriesPerBackend::default().table_size(members.len());
    let table = maglev::table(members, size)?;
    let entry = (u64::from(number) * table.len() as u64) >> 32;
    Some(usize::from(table[entry as usize]))
}

/// The number by which every node chooses for the packet; if clients stay, that of its client.
pub(super) fn packet_number(packet: &Packet<'_>, stays: bool) -> u32 {
    let ends = &packet.ends;
    match (ends.source.ip, ends.destination.ip) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let word = |ip: std::net::Ipv4Addr| u32::from_ne_bytes(ip.octets());
            number::<V4>(packet, word(source), word(destination), stays)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let words = |ip: std::net::Ipv6Addr| {
                let octets = ip.octets();
                let word = |place: usize| {
                    let [a, b, c, d] = std::array::from_fn(|byte| octets[4 * place + byte]);
                    u32::from_ne_bytes([a, b, c, d])
                };
                std::array::from_fn(word)
            };
            number::<V6>(packet, words(source), words(destination), stays)
        }
        _ => unreachable!("a packet is of one family"),
    }
}

fn number<F: Wide>(
    packet: &Packet<'_>,
    source: F::Address,
    destination: F::Address,
    stays: bool,
) -> u32 {
    if stays {
        return client_number::<F>(source);
    }
    let tuple = Tuple::<F> {
        source,
        destination,
        source_port: packet.ends.source.port.to_be(),
        destination_port: packet.ends.destination.port.to_be(),
    };
    let Protocol(protocol) = packet.ends.protocol;
    shunt_common::maglev::number(&Key::new(&tuple, protocol, Role::Forward))
}

fn is_in(ip: IpAddr, (range, length): (IpAddr, u8)) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    (bits(ip) ^ bits(range)) & mask == 0
}
