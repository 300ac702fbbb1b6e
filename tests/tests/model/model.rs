//! Section 4 of the design as plain code: what must become of each packet.

use std::collections::BTreeMap;

use shunt_common::{FragmentEntry, V4};

use super::{
    addresses::{HAIRPIN, NODE, SNAT_PORTS, is_pod_of_this_node, is_routed},
    cluster::{Endpoint, Event, Protocol},
    edit::{Between, Trouble},
    flow::{Flow, SECOND, Side, is_near},
    flows::Flows,
    frontends::{Cluster, Member},
    kernel::LONG,
    selection::{Bond, Bound, Service},
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
    pub(super) bonds: BTreeMap<Bound, Bond>,
    /// What the first fragment of a datagram became at a hook, and when.
    datagrams: BTreeMap<(Hook, Datagram), (Between, u64)>,
    /// Nobody but the programs knows what was chosen for the last packet.
    pub(super) lost: bool,
    /// Whether the last packet was given a place in the table, or was refused one.
    pub(super) sought_room: bool,
    /// How many connections of a family always find room, if that matters.
    pub(super) capacity: Option<usize>,
    /// How many were refused although there were not as many that stay.
    pub refused_early: u64,
    /// Whether a connection to a backend itself has been given another port.
    pub any_direct: bool,
    /// Whether a packet of the host's own has been given another port where it goes out.
    pub any_masqueraded: bool,
    pub(super) counters: BTreeMap<&'static str, u64>,
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
    /// How many packets were dropped so far because they could not be rewritten, or because their
    /// connection found no room; asked for if this one was dropped.
    pub not_rewritten: u64,
    pub no_room: u64,
}

/// The programs chose a backend that may not be chosen, or a source that it may not see.
#[derive(Debug)]
pub(crate) struct ForbiddenChoice {
    pub chosen: Option<Chosen>,
    pub allowed: Vec<Endpoint>,
}

impl Model {
    /// With tables in which so many connections of a family always find room.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity: Some(capacity),
            ..Self::default()
        }
    }

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

    /// Lets so many seconds pass, or a few more: those after which real time does not decide
    /// anything. Gives how many.
    pub(crate) fn pass(&mut self, seconds: u32) -> u32 {
        let is_clear = |seconds: &u32| !self.is_at_a_turn(u64::from(*seconds) * SECOND);
        let seconds = (seconds..seconds + 200).find(is_clear).unwrap_or(LONG);
        // A tick is 256 ms, and no fewer ticks pass.
        self.flows.pass(u64::from(seconds) * SECOND + 128);
        seconds
    }

    /// Whether real time decides about anything so many milliseconds from now.
    pub(crate) fn is_at_a_turn(&self, later: u64) -> bool {
        let now = self.flows.now() + later;
        let is_near = |then: u64, seconds| is_near(now - then, seconds);
        let mut datagrams = self.datagrams.values();
        self.flows.is_at_a_turn(later)
            || self.bonds.values().any(|bond| is_near(bond.last_used, 10))
            || datagrams.any(|(_, then)| is_near(*then, FragmentEntry::<V4>::LIFETIME))
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
            Hook::Egress => self.egress(&packet, observed),
            Hook::Ingress => self.ingress(&packet, observed),
        }
    }

    /// A reply of a known flow comes from the frontend, to the client.
    fn egress(
        &mut self,
        packet: &Packet<'_>,
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let restored = if packet.form == Form::Later {
            self.recall(packet, Hook::Egress)
        } else {
            self.flows.take_reply(packet).map(Flow::restored)
        };
        match restored {
            Some(restored) => Ok(self.send_out(packet, restored, "reply")),
            None => self.of_host(packet, observed.and_then(|observed| observed.chosen)),
        }
    }

    /// A packet goes out of its interface with these ends.
    fn send_out(&mut self, packet: &Packet<'_>, to: Between, usually: &'static str) -> Verdict {
        self.remember(packet, Hook::Egress, to);
        match packet.between(to) {
            Some(frame) => {
                self.count(packet.counts_as(usually));
                Verdict::Pass(frame)
            }
            None => self.drop("drop_rewrite"),
        }
    }

    /// A packet that goes out and is no reply. If it may begin a flow, from the address that SNAT gives, and
    /// one of SNAT's has its ends, it goes on from another port.
    fn of_host(
        &mut self,
        packet: &Packet<'_>,
        chosen: Option<Chosen>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let passed = Ok(Verdict::Pass(packet.frame.to_vec()));
        let Endpoint { ip, port } = packet.ends.source;
        if packet.form == Form::Later || !NODE.has(ip) || !SNAT_PORTS.contains(&port) {
            return passed;
        }
        let answers = packet.ends.reversed();
        let is_known = self.any_masqueraded && self.flows.with_request(packet.ends).is_some();
        if packet.is_plain && !is_known && !(packet.opens && self.flows.has_reply(answers)) {
            return passed;
        }
        let known = self
            .flows
            .find(Side::Client, packet.ends, packet.says.opens);
        let mut avoided = None;
        if let Some(index) = known {
            let flow = self.flows.at(index);
            if flow.member.is_some() {
                return passed;
            }
            if !self.is_replaced(packet, flow) {
                let to = flow.sent_on();
                self.flows.note(index, Side::Client, packet);
                return Ok(self.send_out(packet, to, "request"));
            }
            avoided = flow.is_mistaken().then_some(flow.source.port);
        }
        if packet.form == Form::Error || !packet.opens {
            return passed;
        }
        if let Some(index) = known {
            self.flows.forget(index);
        }
        let Some(index) = self.flows.find(Side::Backend, answers, packet.says.opens) else {
            return passed;
        };
        let flow = self.flows.at(index);
        let is_its_own =
            packet.ends.protocol == Protocol::TCP && flow.may_have_begun_with(packet.says.number);
        if flow.keeps_client() || is_its_own {
            return passed;
        }
        let backend = packet.ends.destination;
        let found = chosen.filter(|chosen| {
            chosen.backend == backend
                && chosen.source.ip == ip
                && SNAT_PORTS.contains(&chosen.source.port)
                && Some(chosen.source.port) != avoided
                && self.flows.is_free(packet.ends, chosen.source, backend)
        });
        let Some(found) = found else {
            let is_untouched = chosen.is_some_and(|chosen| chosen.source == packet.ends.source);
            if is_untouched && self.capacity.is_some() {
                self.note_refusal(packet);
                return passed;
            }
            let allowed = vec![backend];
            return Err(ForbiddenChoice { chosen, allowed });
        };
        self.any_masqueraded = true;
        self.sought_room = true;
        let flow = Flow::new(packet, found.source, backend, None, self.flows.now());
        let index = self.flows.open(flow);
        self.count("connection");
        let to = self.flows.at(index).sent_on();
        Ok(self.send_out(packet, to, "request"))
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
        if self.is_passed_by(packet) {
            return Ok(Verdict::Pass(packet.frame.to_vec()));
        }
        match self.answer(packet) {
            Some(restored) => Ok(self.send(packet, restored, "reply")),
            None => self.request(packet, observed),
        }
    }

    /// Whether the fast path passes a packet for a pod: no service has its address. Replies to it
    /// are seen where they go out to it.
    fn is_passed_by(&self, packet: &Packet<'_>) -> bool {
        let is_first = packet.is_syn() && self.flows.has_reply(packet.ends.reversed());
        let is_for_pod = is_pod_of_this_node(packet.ends.destination.ip);
        packet.is_plain && is_for_pod && !self.any_direct && !is_first
    }

    /// What comes to an address that stands for a client's: a pod's answer to itself goes back
    /// where it came from, a remote backend's on to its client.
    fn answer(&mut self, packet: &Packet<'_>) -> Option<Between> {
        let Endpoint { ip, port } = packet.ends.destination;
        if !HAIRPIN.has(ip) && (!SNAT_PORTS.contains(&port) || self.is_fast_request(packet)) {
            return None;
        }
        let flow = self.flows.take_reply(packet)?;
        // It is restored at the egress of its client's interface, unless its client is the host.
        let is_of_host = NODE.has(ip) && flow.member.is_none() && flow.client.port != port;
        (flow.client.ip != ip || is_of_host).then(|| flow.restored())
    }

    /// Whether the fast path takes the packet for a client's before it looks for replies.
    fn is_fast_request(&mut self, packet: &Packet<'_>) -> bool {
        if !packet.is_plain || packet.is_syn() || NODE.has(packet.ends.destination.ip) {
            return false;
        }
        let Some(index) = self.flows.find(Side::Client, packet.ends, false) else {
            return false;
        };
        let flow = self.flows.at(index);
        flow.keeps_client() && (!packet.opens || self.has_backend(flow))
    }

    /// A packet whose source stays goes on through the stack, one of a hairpin flow goes back where
    /// it came from, and every other is forwarded.
    fn send(&mut self, packet: &Packet<'_>, to: Between, usually: &'static str) -> Verdict {
        let (source, destination) = (packet.ends.source.ip, packet.ends.destination.ip);
        let stays = to.source.ip == source;
        let turns = HAIRPIN.has(to.source.ip) || HAIRPIN.has(destination);
        let (mut to, mut usually, mut through_stack) = (to, usually, stays);
        if !stays {
            if packet.hop_limit <= 1 {
                return self.tell(packet, Trouble::HopsUsedUp, "reject_expired");
            }
            if !turns && !is_routed(to.destination.ip) {
                if packet.form == Form::Error {
                    return self.drop("drop_no_route");
                }
                // The stack tells the sender.
                to.source = packet.ends.source;
                usually = "drop_no_route";
                through_stack = true;
            }
        }
        self.remember(packet, Hook::Ingress, to);
        let Some(frame) = packet.between(to) else {
            return self.drop("drop_rewrite");
        };
        self.count(packet.counts_as(usually));
        if through_stack {
            Verdict::Pass(frame)
        } else if turns {
            Verdict::Redirect(Packet::turned(Packet::forwarded(frame)))
        } else {
            Verdict::Redirect(Packet::forwarded(frame))
        }
    }

    fn request(
        &mut self,
        packet: &Packet<'_>,
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let known = self
            .flows
            .find(Side::Client, packet.ends, packet.says.opens);
        if let Some(index) = known
            && !self.is_replaced(packet, self.flows.at(index))
        {
            self.flows.note(index, Side::Client, packet);
            let to = self.flows.at(index).sent_on();
            return Ok(self.send(packet, to, "request"));
        }
        if packet.form == Form::Error || self.is_overheard(packet) {
            return Ok(Verdict::Pass(packet.frame.to_vec()));
        }
        let chosen = observed.and_then(|observed| observed.chosen);
        let members = match self.service(packet) {
            Service::NotAFrontend => return self.direct(packet, known, chosen),
            Service::Rejected => {
                if let Some(reason) = refusal(packet) {
                    return Ok(self.drop(reason));
                }
                return Ok(self.tell(packet, Trouble::NobodyListens, "reject_no_backend"));
            }
            Service::Dropped(reason) => return Ok(self.drop(reason)),
            Service::Backends(members) => members,
        };
        // The backend has a connection of its own from the port that it took the SYN's for.
        let avoided = known.and_then(|index| {
            let flow = self.flows.at(index);
            flow.is_mistaken().then_some(flow.source.port)
        });
        let is_refused = refusal(packet).is_some() || packet.hop_limit <= 1;
        let found = chosen.and_then(|chosen| {
            let member = members.iter().find(|member| member.at == chosen.backend)?;
            if is_refused && !self.keeps_source(packet.ends.source.ip, *member) {
                return None;
            }
            let source = self.source_towards(packet, *member, chosen.source, (known, avoided))?;
            Some((*member, source))
        });
        let Some((member, source)) = found else {
            if let Some(observed) = observed {
                let refused = self.without_room(packet, &members, known, observed);
                if let Some(verdict) = refused.or_else(|| self.unseen(packet, &members, observed)) {
                    return Ok(verdict);
                }
            }
            let allowed = members.iter().map(|member| member.at).collect();
            return Err(ForbiddenChoice { chosen, allowed });
        };
        let membership = self.cluster.membership(member).unwrap_or_default();
        self.bind(packet, member, membership);
        let backend = (member.at, Some((member, membership)));
        Ok(self.open(packet, source, backend, known))
    }

    /// Opens the packet's flow in place of the one that it had, and sends it on.
    fn open(
        &mut self,
        packet: &Packet<'_>,
        source: Endpoint,
        (backend, member): (Endpoint, Option<(Member, u64)>),
        known: Option<usize>,
    ) -> Verdict {
        if let Some(known) = known {
            self.flows.forget(known);
        }
        self.sought_room = true;
        let flow = Flow::new(packet, source, backend, member, self.flows.now());
        let index = self.flows.open(flow);
        self.count("connection");
        let to = self.flows.at(index).sent_on();
        self.send(packet, to, "request")
    }

    /// A packet to nobody's frontend. A SYN to a backend itself, which has a connection with the
    /// same ends through a frontend, goes on from another port.
    fn direct(
        &mut self,
        packet: &Packet<'_>,
        known: Option<usize>,
        chosen: Option<Chosen>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let passed = Ok(Verdict::Pass(packet.frame.to_vec()));
        if packet.ends.protocol != Protocol::TCP || !packet.says.opens {
            return passed;
        }
        if let Some(known) = known
            && self.flows.at(known).member.is_none()
        {
            self.flows.forget(known);
        }
        let answers = packet.ends.reversed();
        let Some(index) = self.flows.find(Side::Backend, answers, true) else {
            return passed;
        };
        let flow = self.flows.at(index);
        if flow.may_have_begun_with(packet.says.number) {
            return passed;
        }
        if flow.has_ended(self.flows.now()) {
            self.flows.forget(index);
            return passed;
        }
        let backend = packet.ends.destination;
        let found = chosen.filter(|chosen| {
            chosen.backend == backend
                && chosen.source.ip == packet.ends.source.ip
                && SNAT_PORTS.contains(&chosen.source.port)
                && self.flows.is_free(packet.ends, chosen.source, backend)
        });
        let Some(found) = found else {
            // Without room for it, it goes on as it is.
            let is_untouched = chosen.is_some_and(|chosen| {
                chosen.source == packet.ends.source && chosen.backend == backend
            });
            if is_untouched && self.capacity.is_some() {
                self.note_refusal(packet);
                return passed;
            }
            let allowed = vec![backend];
            return Err(ForbiddenChoice { chosen, allowed });
        };
        self.any_direct = true;
        Ok(self.open(packet, found.source, (backend, None), None))
    }

    /// A flow whose first packet does not go on, so that its backend cannot be seen: the verdict,
    /// if one of the backends leads to it.
    fn unseen(
        &mut self,
        packet: &Packet<'_>,
        members: &[Member],
        observed: Observed<'_>,
    ) -> Option<Verdict> {
        let is_refused = refusal(packet).is_some() || packet.hop_limit <= 1;
        let client = packet.ends.source.ip;
        let mut turns = members
            .iter()
            .map(|member| self.keeps_source(client, *member));
        let goes_on = !is_refused || turns.clone().any(|keeps| keeps);
        let stops = is_refused && turns.any(|keeps| !keeps);
        let is_cut = packet.form == Form::First && packet.ends.protocol == Protocol::SCTP;
        let failed = self.counters.get("drop_rewrite").copied().unwrap_or(0);
        let was_cut = *observed.verdict == Verdict::Drop && observed.not_rewritten > failed;
        let verdict = if goes_on && is_cut && was_cut {
            self.count("connection");
            self.drop("drop_rewrite")
        } else if stops {
            match refusal(packet) {
                Some(reason) => self.drop(reason),
                None => self.tell(packet, Trouble::HopsUsedUp, "reject_expired"),
            }
        } else {
            return None;
        };
        self.lost = true;
        Some(verdict)
    }

    /// Whether the packet, which is the flow's by its ends, begins another: one that may, if the
    /// backend is gone, and a SYN after the flow's end.
    fn is_replaced(&self, packet: &Packet<'_>, flow: &Flow) -> bool {
        let is_over = packet.says.opens && flow.is_ended(self.flows.now());
        packet.opens && (!self.has_backend(flow) || is_over)
    }

    /// Whether the flow's backend is still the one that it was.
    fn has_backend(&self, flow: &Flow) -> bool {
        flow.member
            .is_none_or(|(member, membership)| self.cluster.membership(member) == Some(membership))
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
        (self.flows.now() - then <= lifetime * SECOND).then_some(*to)
    }

    /// Tells the sender, unless that is forbidden.
    fn tell(&mut self, packet: &Packet<'_>, trouble: Trouble, reason: &'static str) -> Verdict {
        self.count(reason);
        if packet.may_be_told_about() {
            Verdict::Redirect(packet.error(trouble))
        } else {
            Verdict::Drop
        }
    }

    pub(super) fn drop(&mut self, reason: &'static str) -> Verdict {
        self.count(reason);
        Verdict::Drop
    }

    pub(super) fn count(&mut self, counter: &'static str) {
        *self.counters.entry(counter).or_default() += 1;
    }
}

/// Why no router takes the packet on, if so.
pub(super) fn refusal(packet: &Packet<'_>) -> Option<&'static str> {
    if packet.is_martian() {
        Some("drop_martian")
    } else {
        packet.has_source_route.then_some("drop_source_route")
    }
}
