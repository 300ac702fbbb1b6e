//! The required outcome of a client's packet, which may open a connection.

use super::{
    addresses::SNAT_PORTS,
    cluster::{Endpoint, Protocol},
    dsr::Served,
    edit::Trouble,
    flow::{Ends, Flow, Side},
    frontends::{Kind, Member},
    model::{Chosen, ForbiddenChoice, Model, Observed, Verdict},
    selection::{MayRefuse, Service},
    wire::{Form, Packet},
};

/// Attempt to connect: the ends of its SYNs, and their sequence number.
pub(super) type Attempt = (Ends, u32);

impl Model {
    pub(super) fn request(
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
        if self.is_overheard(packet) {
            return Ok(Verdict::Pass(packet.frame.to_vec()));
        }
        let served = self.served(packet);
        if let Served::At(node) = served
            && !packet.says.answers
        {
            if let Some(replaced) = known {
                self.flows.forget(replaced);
            }
            return Ok(self.hand_over(packet, node));
        }
        if packet.form == Form::Error {
            return Ok(Verdict::Pass(packet.frame.to_vec()));
        }
        let is_for_frontend = self
            .cluster
            .frontends
            .contains_key(&self.frontend_of(packet));
        if is_for_frontend && !packet.is_intact {
            return Ok(self.drop("drop_checksum"));
        }
        if let Some(verdict) = self.unasked(packet) {
            return Ok(verdict);
        }
        let chosen = observed.and_then(|observed| observed.chosen);
        let (members, may_refuse) = match self.service(packet, served) {
            Service::NotAFrontend => return self.direct(packet, known, chosen),
            Service::Rejected => {
                if let Some(reason) = refusal(packet) {
                    return Ok(self.drop(reason));
                }
                return Ok(self.tell(packet, Trouble::NobodyListens, "reject_no_backend"));
            }
            Service::Dropped(reason) => return Ok(self.drop(reason)),
            Service::Backends(members, MayRefuse(may_refuse)) => (members, may_refuse),
        };
        // Only the programs draw, and once for all SYNs of an attempt to connect.
        if let Some(observed) = observed.filter(|_| may_refuse) {
            let attempt = self.attempt(packet, served);
            if let Some(reason) = refusal(packet).filter(|_| *observed.verdict == Verdict::Drop) {
                self.lost = true;
                return Ok(self.drop(reason));
            }
            let counted = self.counters.get("reject_no_backend").copied();
            if observed.rejected > counted.unwrap_or_default() {
                self.refused_by_splits += 1;
                self.refused.extend(attempt);
                return Ok(self.tell(packet, Trouble::NobodyListens, "reject_no_backend"));
            }
            if attempt.is_some_and(|attempt| self.refused.contains(&attempt)) {
                let allowed = Vec::new();
                return Err(ForbiddenChoice { chosen, allowed });
            }
        }
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
        let has_split = self.cluster.services[&member.service].ports[member.port]
            .split
            .is_some();
        self.by_splits += u64::from(has_split && !member.is_beside_split);
        let backend = (member.at, Some((member, membership)));
        Ok(self.open(packet, source, backend, known))
    }

    /// Returns the attempt to connect that the packet is a SYN of. Of a frontend in mode dsr, each node that the packet
    /// passes has other backends.
    fn attempt(&self, packet: &Packet<'_>, served: Served) -> Option<Attempt> {
        let is_drawn = served == Served::AsEver && !self.is_dsr(self.frontend_of(packet));
        (packet.is_syn() && is_drawn).then_some((packet.ends, packet.says.number))
    }

    /// Returns the verdict on an answer or a reset of no flow at a frontend: it begins nothing.
    fn unasked(&mut self, packet: &Packet<'_>) -> Option<Verdict> {
        let frontend = self.cluster.frontends.get(&self.frontend_of(packet))?;
        if !packet.says.answers && !packet.says.resets {
            return None;
        }
        Some(
            if frontend.kind == Kind::ClusterIp || packet.is_handed_over {
                self.drop("drop_answer")
            } else {
                self.count("pass_answer");
                Verdict::Pass(packet.frame.to_vec())
            },
        )
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

    /// A packet to no frontend. A SYN or datagram to a backend itself, which has a connection with the
    /// same ends through a frontend, goes on from another port.
    fn direct(
        &mut self,
        packet: &Packet<'_>,
        known: Option<usize>,
        chosen: Option<Chosen>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let passed = Ok(Verdict::Pass(packet.frame.to_vec()));
        let is_datagram = packet.ends.protocol == Protocol::UDP;
        let opens = packet.ends.protocol == Protocol::TCP && packet.says.opens;
        if !opens && !is_datagram || !packet.is_intact {
            return passed;
        }
        if let Some(known) = known
            && self.flows.at(known).member.is_none()
        {
            self.flows.forget(known);
        }
        let answers = packet.ends.reversed();
        let Some(index) = self.flows.find(Side::Backend, answers, opens) else {
            return passed;
        };
        let flow = self.flows.at(index);
        // A frontend's flow to a backend at the frontend's own address has but these ends.
        let is_own = known == Some(index);
        if is_datagram && !(flow.keeps_client() && flow.member.is_some()) {
            return passed;
        }
        if opens && !is_own && flow.may_have_begun_with(packet.says.number) {
            return passed;
        }
        if is_own || flow.has_ended(self.flows.now()) {
            self.flows.forget(index);
            return passed;
        }
        if let Some(known) = known {
            self.flows.forget(known);
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
        self.any_direct |= opens;
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
        let verdict = if goes_on && self.was_cut(packet, observed) {
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

    /// Returns whether the first fragment of a packet of SCTP was dropped once its connection was open: a checksum
    /// over all of the packet cannot be made anew from a part.
    pub(super) fn was_cut(&self, packet: &Packet<'_>, observed: Observed<'_>) -> bool {
        let failed = self.counters.get("drop_rewrite").copied().unwrap_or(0);
        packet.form == Form::First
            && packet.ends.protocol == Protocol::SCTP
            && *observed.verdict == Verdict::Drop
            && observed.not_rewritten > failed
    }

    /// Returns whether the packet, which is the flow's by its ends, begins another: a datagram, if the backend is
    /// gone, and a SYN by the flow's state.
    pub(super) fn is_replaced(&self, packet: &Packet<'_>, flow: &Flow) -> bool {
        let has_backend = self.has_backend(flow);
        if packet.says.opens {
            return flow.is_replaced(has_backend, self.flows.now());
        }
        packet.opens && packet.ends.protocol != Protocol::TCP && !has_backend
    }

    /// Returns whether the flow's backend is still the one that it was.
    pub(super) fn has_backend(&self, flow: &Flow) -> bool {
        flow.member
            .is_none_or(|(member, membership)| self.cluster.membership(member) == Some(membership))
    }
}

/// Returns the reason why no router takes the packet on, if there is one.
pub(super) fn refusal(packet: &Packet<'_>) -> Option<&'static str> {
    if packet.is_martian() {
        Some("drop_martian")
    } else {
        packet.has_source_route.then_some("drop_source_route")
    }
}
