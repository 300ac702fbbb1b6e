//! Section 4 of the design as plain code: what must become of each packet.

use std::{collections::BTreeMap, net::IpAddr};

use shunt_common::{FragmentEntry, V4};

use super::{
    addresses::{HAIRPIN, NODE, SNAT_PORTS, is_routed},
    cluster::{Endpoint, Event, Protocol},
    edit::{Between, Trouble},
    flows::{Flow, Flows},
    frontends::{Cluster, FrontendKey, Member},
    selection::{Bond, Service},
    wire::{Datagram, Form, Packet, Unread},
};

/// What a program does with a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// On to the stack, as this frame.
    Pass(Vec<u8>),
    /// Dropped.
    Drop,
    /// Out of an interface, as this frame.
    Redirect(Vec<u8>),
}

/// Where a packet meets a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hook {
    Ingress,
    Egress,
}

/// Everything that was told and everything that was seen.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub cluster: Cluster,
    pub flows: Flows,
    pub(super) bonds: BTreeMap<(IpAddr, FrontendKey), Bond>,
    /// What the first fragment of a datagram became at a hook, and when.
    datagrams: BTreeMap<(Hook, Datagram), (Between, u64)>,
    /// Nobody but the programs knows what was chosen for the last packet.
    lost: bool,
    counters: BTreeMap<&'static str, u64>,
}

/// What the programs chose for a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen {
    /// Whom the backend sees.
    pub source: Endpoint,
    pub backend: Endpoint,
}

/// What the programs did with a packet: the verdict, and the choice that can be seen in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub verdict: &'a Verdict,
    pub chosen: Option<Chosen>,
    /// How many packets were dropped so far because they could not be rewritten; asked for if
    /// this one was dropped.
    pub not_rewritten: u64,
}

/// The programs chose a backend that may not be chosen, or a source that it may not see.
#[derive(Debug)]
pub(crate) struct ForbiddenChoice {
    pub chosen: Option<Chosen>,
    pub allowed: Vec<Endpoint>,
}

impl Model {
    /// Applies an event; `false` if it must be refused.
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        self.cluster.apply(event)
    }

    /// What the programs must have counted.
    pub(crate) const fn counters(&self) -> &BTreeMap<&'static str, u64> {
        &self.counters
    }

    /// Whether a flow was opened whose backend could not be seen, so that both sides have to
    /// forget all flows. Asked once.
    pub(crate) const fn take_lost(&mut self) -> bool {
        std::mem::replace(&mut self.lost, false)
    }

    /// What must become of a frame. Where a backend and a source port are to be chosen freely,
    /// what was is taken from `observed`, and from then on it must be that.
    pub(crate) fn handle(
        &mut self,
        hook: Hook,
        frame: &[u8],
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let packet = match Packet::read(frame) {
            Ok(packet) => packet,
            Err(unread) => {
                match unread {
                    Unread::Foreign => {}
                    Unread::Truncated => self.count("pass_truncated"),
                    Unread::TooManyHeaders => self.count("pass_headers"),
                }
                return Ok(Verdict::Pass(frame.to_vec()));
            }
        };
        match hook {
            Hook::Egress => Ok(self.egress(&packet)),
            Hook::Ingress => self.ingress(&packet, observed),
        }
    }

    /// A reply of a known flow comes from the frontend, to the client.
    fn egress(&mut self, packet: &Packet<'_>) -> Verdict {
        let restored = if packet.form == Form::Later {
            self.recall(packet, Hook::Egress)
        } else {
            self.flows.note_reply(packet).map(Flow::restored)
        };
        let Some(restored) = restored else {
            return Verdict::Pass(packet.frame.to_vec());
        };
        self.remember(packet, Hook::Egress, restored);
        match packet.between(restored) {
            Some(frame) => {
                self.count(packet.counts_as("reply"));
                Verdict::Pass(frame)
            }
            None => self.drop("drop_rewrite"),
        }
    }

    fn ingress(
        &mut self,
        packet: &Packet<'_>,
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        if packet.form == Form::Later {
            return Ok(match self.recall(packet, Hook::Ingress) {
                Some(to) => self.send(packet, to, "fragment"),
                None => {
                    self.count("pass_fragment");
                    Verdict::Pass(packet.frame.to_vec())
                }
            });
        }
        match self.answer(packet) {
            Some(restored) => Ok(self.send(packet, restored, "reply")),
            None => self.request(packet, observed),
        }
    }

    /// What comes to an address that stands for a client's: a pod's answer to itself goes back
    /// where it came from, a remote backend's on to its client.
    fn answer(&mut self, packet: &Packet<'_>) -> Option<Between> {
        let Endpoint { ip, port } = packet.ends.destination;
        if !HAIRPIN.has(ip) && !SNAT_PORTS.contains(&port) {
            return None;
        }
        let flow = self.flows.of_reply(packet)?;
        if flow.source.ip == flow.client.ip {
            // It is noted where it is restored, at the egress of its client's interface.
            return None;
        }
        self.flows.note_reply(packet).map(Flow::restored)
    }

    /// A packet whose source stays goes on through the stack, one of a hairpin flow goes back where
    /// it came from, and every other is forwarded.
    fn send(&mut self, packet: &Packet<'_>, to: Between, usually: &'static str) -> Verdict {
        let (source, destination) = (packet.ends.source.ip, packet.ends.destination.ip);
        let stays = to.source.ip == source;
        let turns = HAIRPIN.has(to.source.ip) || HAIRPIN.has(destination);
        if !stays && !turns {
            if packet.hop_limit <= 1 {
                return self.tell(packet, Trouble::HopsUsedUp, "reject_expired");
            }
            if !is_routed(to.destination.ip) {
                return self.drop("drop_no_route");
            }
        }
        self.remember(packet, Hook::Ingress, to);
        let Some(frame) = packet.between(to) else {
            return self.drop("drop_rewrite");
        };
        self.count(packet.counts_as(usually));
        if stays {
            Verdict::Pass(frame)
        } else if turns {
            Verdict::Redirect(Packet::turned(frame))
        } else {
            Verdict::Redirect(Packet::forwarded(frame))
        }
    }

    fn request(
        &mut self,
        packet: &Packet<'_>,
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let continues = self.has_flow(packet);
        // A flow takes note of every packet that has its ends, even of one that begins another.
        self.flows.note_request(packet);
        if !continues {
            if packet.form == Form::Error || self.is_overheard(packet) {
                return Ok(Verdict::Pass(packet.frame.to_vec()));
            }
            let members = match self.service(packet) {
                Service::NotAFrontend => return Ok(Verdict::Pass(packet.frame.to_vec())),
                Service::Rejected => {
                    return Ok(self.tell(packet, Trouble::NobodyListens, "reject_no_backend"));
                }
                Service::Dropped(reason) => return Ok(self.drop(reason)),
                Service::Backends(members) => members,
            };
            let chosen = observed.and_then(|observed| observed.chosen);
            let found = chosen.and_then(|chosen| {
                let member = members.iter().find(|member| member.at == chosen.backend)?;
                let source = self.source_towards(packet, *member, chosen.source)?;
                Some((member, source))
            });
            let Some((member, source)) = found else {
                if let Some(observed) = observed
                    && let Some(verdict) = self.unseen(packet, &members, observed)
                {
                    return Ok(verdict);
                }
                let allowed = members.iter().map(|member| member.at).collect();
                return Err(ForbiddenChoice { chosen, allowed });
            };
            self.open(packet, *member, source);
        }
        let Some(flow) = self.flows.of_request(packet) else {
            return Ok(Verdict::Pass(packet.frame.to_vec()));
        };
        let to = flow.sent_on();
        Ok(self.send(packet, to, "request"))
    }

    /// Opens the packet's flow with the backend that was chosen.
    fn open(&mut self, packet: &Packet<'_>, member: Member, source: Endpoint) {
        // A usable backend is a member.
        let membership = self.cluster.membership(member).unwrap_or_default();
        let now = self.flows.now();
        self.bind(packet, member, membership);
        let flow = Flow::new(packet, source, (member, membership), now);
        self.flows.open(flow);
        self.flows.note_request(packet);
        self.count("connection");
    }

    /// A flow whose first packet does not go on, so that its backend cannot be seen: the verdict,
    /// if one of the backends leads to it.
    fn unseen(
        &mut self,
        packet: &Packet<'_>,
        members: &[Member],
        observed: Observed<'_>,
    ) -> Option<Verdict> {
        let is_expired = |member: &Member| {
            let source = self.source_for(packet.ends.source.ip, *member);
            NODE.has(source) && source != packet.ends.source.ip && packet.hop_limit <= 1
        };
        let expires = members.iter().any(is_expired);
        let goes_on = !members.iter().all(is_expired);
        let is_cut = packet.form == Form::First && packet.ends.protocol == Protocol::SCTP;
        let failed = self.counters.get("drop_rewrite").copied().unwrap_or(0);
        let was_cut = *observed.verdict == Verdict::Drop && observed.not_rewritten > failed;
        let verdict = if goes_on && is_cut && was_cut {
            self.drop("drop_rewrite")
        } else if expires {
            self.tell(packet, Trouble::HopsUsedUp, "reject_expired")
        } else {
            return None;
        };
        self.lost = true;
        self.count("connection");
        Some(verdict)
    }

    /// Whether the packet continues a flow. A packet that might begin one does so if the flow has
    /// ended or its backend is gone.
    fn has_flow(&self, packet: &Packet<'_>) -> bool {
        let stays = |flow: &Flow| {
            let current = self.cluster.membership(flow.member) == Some(flow.membership);
            !packet.opens || !flow.is_ended() && current
        };
        self.flows.of_request(packet).is_some_and(stays)
    }

    /// Remembers what a first fragment became.
    fn remember(&mut self, packet: &Packet<'_>, hook: Hook, to: Between) {
        if packet.form == Form::First {
            let now = self.flows.now();
            self.datagrams.insert((hook, packet.datagram), (to, now));
        }
    }

    /// What the first fragment of the packet's datagram became, if that was not too long ago.
    fn recall(&self, packet: &Packet<'_>, hook: Hook) -> Option<Between> {
        let (to, then) = self.datagrams.get(&(hook, packet.datagram))?;
        let lifetime = u64::from(FragmentEntry::<V4>::LIFETIME);
        (self.flows.now() - then <= lifetime).then_some(*to)
    }

    /// Tells the sender, unless that is forbidden: about an error or a part of a datagram, and a
    /// group (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
    fn tell(&mut self, packet: &Packet<'_>, trouble: Trouble, reason: &'static str) -> Verdict {
        self.count(reason);
        let own = matches!(packet.form, Form::Whole | Form::First);
        if own && is_unicast(packet.ends.source.ip) {
            Verdict::Redirect(packet.error(trouble))
        } else {
            Verdict::Drop
        }
    }

    fn drop(&mut self, reason: &'static str) -> Verdict {
        self.count(reason);
        Verdict::Drop
    }

    fn count(&mut self, counter: &'static str) {
        *self.counters.entry(counter).or_default() += 1;
    }
}

/// Whether one host may have the address: of IPv4 classes A to C without network 0.
fn is_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => (1..224).contains(&ip.octets()[0]),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    }
}
