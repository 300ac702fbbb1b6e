//! Section 4 of the design as plain code: what must become of each packet.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::{
    addresses::{HAIRPIN, NODE, SNAT_PORTS},
    cluster::{Backend, Endpoint, Event},
    flows::{Flow, Flows},
    frontends::{Cluster, Frontend, FrontendKey, Kind, Member},
    packet::{Form, Packet},
};

/// What a program does with a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// On to the stack, as this frame.
    Pass(Vec<u8>),
    /// Dropped.
    Drop,
    /// Out of an interface, as this frame.
    Redirect(Vec<u8>),
}

/// Where a packet meets a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    Ingress,
    Egress,
}

/// Everything that was told and everything that was seen.
#[derive(Debug, Default)]
pub struct Model {
    pub cluster: Cluster,
    pub flows: Flows,
    bonds: BTreeMap<(Ipv4Addr, FrontendKey), Bond>,
    counters: BTreeMap<&'static str, u64>,
}

/// Whom a client had last at a frontend.
#[derive(Debug)]
struct Bond {
    member: Member,
    membership: u64,
    last_used: u64,
}

/// Who gets a packet that belongs to no flow.
enum Service {
    NotAFrontend,
    Rejected,
    Dropped(&'static str),
    /// One of these.
    Backends(Vec<Member>),
}

/// What the programs chose for a flow.
#[derive(Debug, Clone, Copy)]
pub struct Chosen {
    /// Whom the backend sees.
    pub source: Endpoint,
    pub backend: Endpoint,
}

/// The programs chose a backend that may not be chosen, or a source that it may not see.
#[derive(Debug)]
pub struct ForbiddenChoice {
    pub chosen: Option<Chosen>,
    pub allowed: Vec<Endpoint>,
}

impl Model {
    /// Applies an event; `false` if it must be refused.
    pub fn apply(&mut self, event: &Event) -> bool {
        self.cluster.apply(event)
    }

    /// What the programs must have counted.
    pub const fn counters(&self) -> &BTreeMap<&'static str, u64> {
        &self.counters
    }

    /// What must become of a packet. Where a backend and a source port are to be chosen freely,
    /// `chosen` is what was, and from then on it must be that.
    pub fn handle(
        &mut self,
        hook: Hook,
        packet: &Packet,
        chosen: Option<Chosen>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let reason = match packet.form() {
            Form::Whole => {
                return match hook {
                    Hook::Egress => Ok(self.reply(packet).map_or_else(
                        || Verdict::Pass(packet.frame()),
                        |reply| Verdict::Pass(reply.frame()),
                    )),
                    Hook::Ingress => match self.answer(packet) {
                        Some(verdict) => Ok(verdict),
                        None => self.request(packet, chosen),
                    },
                };
            }
            Form::Truncated => Some("pass_truncated"),
            Form::Fragment => Some("pass_fragment"),
            Form::Foreign => None,
        };
        if let Some(reason) = reason {
            self.count(reason);
        }
        Ok(Verdict::Pass(packet.frame()))
    }

    /// A reply of a known flow comes from the frontend, to the client.
    fn reply(&mut self, packet: &Packet) -> Option<Packet> {
        let flow = self.flows.note_reply(packet)?;
        let restored = packet.between(flow.frontend, flow.client);
        self.count("reply");
        Some(restored)
    }

    /// What comes to an address that stands for a client's: a pod's answer to itself goes back
    /// where it came from, a remote backend's on to its client.
    fn answer(&mut self, packet: &Packet) -> Option<Verdict> {
        let Endpoint { ip, port } = packet.destination;
        if ip != HAIRPIN && !SNAT_PORTS.contains(&port) {
            return None;
        }
        let flow = self.flows.note_reply(packet)?;
        if flow.source.ip == flow.client.ip {
            return None;
        }
        let restored = packet.between(flow.frontend, flow.client);
        self.count("reply");
        Some(if ip == HAIRPIN {
            Verdict::Redirect(restored.turned().frame())
        } else {
            Verdict::Redirect(restored.forwarded().frame())
        })
    }

    fn request(
        &mut self,
        packet: &Packet,
        chosen: Option<Chosen>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let continues = self.has_flow(packet);
        // A flow takes note of every packet that has its ends, even of one that begins another.
        self.flows.note_request(packet);
        if !continues {
            let members = match self.service(packet) {
                Service::NotAFrontend => return Ok(Verdict::Pass(packet.frame())),
                Service::Rejected => {
                    self.count("reject_no_backend");
                    return Ok(Verdict::Redirect(packet.unreachable()));
                }
                Service::Dropped(reason) => {
                    self.count(reason);
                    return Ok(Verdict::Drop);
                }
                Service::Backends(members) => members,
            };
            let found = chosen.and_then(|chosen| {
                let member = members.iter().find(|member| member.at == chosen.backend)?;
                let source = self.source_towards(packet, *member, chosen.source)?;
                Some((member, source))
            });
            let Some((member, source)) = found else {
                let allowed = members.iter().map(|member| member.at).collect();
                return Err(ForbiddenChoice { chosen, allowed });
            };
            // A usable backend is a member.
            let membership = self.cluster.membership(*member).unwrap_or_default();
            let now = self.flows.now();
            let key = (packet.protocol, packet.destination);
            self.bonds.insert(
                (packet.source.ip, key),
                Bond {
                    member: *member,
                    membership,
                    last_used: now,
                },
            );
            let flow = Flow::new(packet, source, (*member, membership), now);
            self.flows.open(flow);
            self.flows.note_request(packet);
            self.count("connection");
        }
        let Some(flow) = self.flows.of_request(packet) else {
            return Ok(Verdict::Pass(packet.frame()));
        };
        let translated = packet.between(flow.source, flow.backend);
        self.count("request");
        Ok(if translated.source.ip == packet.source.ip {
            Verdict::Pass(translated.frame())
        } else if translated.source.ip == HAIRPIN {
            Verdict::Redirect(translated.turned().frame())
        } else {
            Verdict::Redirect(translated.forwarded().frame())
        })
    }

    /// Whether the packet continues a flow. A packet that might begin one does so if the flow has
    /// ended or its backend is gone.
    fn has_flow(&self, packet: &Packet) -> bool {
        let stays = |flow: &Flow| {
            let current = self.cluster.membership(flow.member) == Some(flow.membership);
            !packet.may_open() || !flow.is_ended() && current
        };
        self.flows.of_request(packet).is_some_and(stays)
    }

    fn service(&self, packet: &Packet) -> Service {
        let key = (packet.protocol, packet.destination);
        let on_this_node = self.cluster.is_on_this_node(packet.source.ip);
        let Some(frontend) = self.cluster.frontends.get(&key) else {
            return Service::NotAFrontend;
        };
        if frontend.this_node_only && !on_this_node {
            return Service::NotAFrontend;
        }
        if let Some(reason) = self.refusal(frontend, packet) {
            return Service::Dropped(reason);
        }
        let mut candidates = self.candidates(frontend, on_this_node);
        if let Some(bound) = self.bound(frontend, packet)
            && candidates.contains(&bound)
        {
            candidates = vec![bound];
        }
        if !candidates.is_empty() {
            return Service::Backends(candidates);
        }
        let backends = self.cluster.backends(frontend);
        if backends.iter().any(Backend::is_usable) {
            Service::Dropped("drop_no_backend")
        } else {
            Service::Rejected
        }
    }

    /// Why the frontend does not serve this client, if it does not.
    fn refusal(&self, frontend: &Frontend, packet: &Packet) -> Option<&'static str> {
        let ranges = &self.cluster.services[&frontend.service].source_ranges;
        let open = ranges.is_empty() || ranges.iter().any(|range| is_in(packet.source.ip, *range));
        let refused = frontend.kind == Kind::LoadBalancerIp && !open;
        refused.then_some("drop_source_range")
    }

    /// Whom the client stays with at this frontend, if its service has session affinity.
    fn bound(&self, frontend: &Frontend, packet: &Packet) -> Option<Member> {
        let timeout = self.cluster.services[&frontend.service].affinity;
        let key = (packet.source.ip, (packet.protocol, packet.destination));
        let bond = self.bonds.get(&key)?;
        let current = self.cluster.membership(bond.member) == Some(bond.membership);
        let recent = self.flows.now() - bond.last_used <= timeout.into();
        (timeout > 0 && current && recent).then_some(bond.member)
    }

    /// Who may be chosen.
    fn candidates(&self, frontend: &Frontend, on_this_node: bool) -> Vec<Member> {
        let set = frontend.set_for(on_this_node);
        let backends = self.cluster.backends(frontend).iter();
        let usable = backends.filter(|backend| backend.is_usable() && backend.is_in(set));
        usable
            .map(|backend| Member {
                service: frontend.service,
                port: frontend.port,
                at: backend.at,
            })
            .collect()
    }

    /// Whom the backend sees, if it may be `chosen`: the client, with its own port unless that is
    /// taken; or an address in its place, if the client is the backend itself, or outside and the
    /// backend elsewhere.
    fn source_towards(
        &self,
        packet: &Packet,
        member: Member,
        chosen: Endpoint,
    ) -> Option<Endpoint> {
        let Endpoint { ip, port } = packet.source;
        let service = &self.cluster.services[&member.service];
        let mut backends = service.ports[member.port].backends.iter();
        let local = backends.any(|backend| backend.at == member.at && backend.local);
        let (ip, keeps_port) = if ip == member.at.ip {
            (HAIRPIN, true)
        } else if local || self.cluster.is_on_this_node(ip) {
            (ip, true)
        } else {
            (NODE, false)
        };
        let own = Endpoint { ip, port };
        if keeps_port && self.flows.is_free(packet, own, member.at) {
            return Some(own);
        }
        let right = chosen.ip == ip
            && SNAT_PORTS.contains(&chosen.port)
            && self.flows.is_free(packet, chosen, member.at);
        right.then_some(chosen)
    }

    fn count(&mut self, counter: &'static str) {
        *self.counters.entry(counter).or_default() += 1;
    }
}

fn is_in(ip: Ipv4Addr, (range, length): (Ipv4Addr, u8)) -> bool {
    let differing = u32::from(ip) ^ u32::from(range);
    length == 0 || differing >> (32 - length) == 0
}
