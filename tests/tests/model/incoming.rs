//! Outcome of a packet at the ingress of an interface, if it opens no connection.

use super::{
    addresses::{HAIRPIN, NODE, SNAT_PORTS, is_pod_of_this_node, is_routed},
    cluster::{Endpoint, Protocol},
    edit::{Between, Trouble},
    flow::Side,
    model::{Became, ForbiddenChoice, Hook, Model, Observed, Verdict},
    wire::{Form, Packet},
};

impl Model {
    pub(super) fn ingress(
        &mut self,
        packet: &Packet<'_>,
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        if packet.form == Form::Later {
            return Ok(match self.recall(packet, Hook::Ingress) {
                Some(Became::Sent(to)) => self.send(packet, to, "fragment"),
                Some(Became::HandedOver(node)) => self.hand_over(packet, node),
                None => {
                    self.count("pass_fragment");
                    Verdict::Pass(packet.frame.to_vec())
                }
            });
        }
        if self.is_passed_by(packet) {
            return Ok(Verdict::Pass(packet.frame.to_vec()));
        }
        if self.answers_host(packet) {
            self.count("pass_own");
            return Ok(Verdict::Pass(packet.frame.to_vec()));
        }
        if self.may_be_answer(packet) && self.is_left(packet) {
            return Ok(self.drop("drop_gone"));
        }
        match self.answer(packet) {
            Some(restored) => Ok(self.send(packet, restored, "reply")),
            None => self.request(packet, observed),
        }
    }

    /// Returns whether the fast path passes a packet for a pod: no service has its address. Replies to it
    /// are seen where they go out to it.
    fn is_passed_by(&self, packet: &Packet<'_>) -> bool {
        let may_clash = packet.is_syn() || packet.ends.protocol == Protocol::UDP;
        let clashes = may_clash && self.flows.has_reply(packet.ends.reversed());
        let is_for_pod = is_pod_of_this_node(packet.ends.destination.ip);
        packet.is_plain && is_for_pod && !self.any_direct && !clashes
    }

    /// Handles a packet to an address that stands for a client's: a pod's answer to itself goes
    /// back where it came from, a remote backend's on to its client.
    fn answer(&mut self, packet: &Packet<'_>) -> Option<Between> {
        if !self.may_be_answer(packet) {
            return None;
        }
        let Endpoint { ip, port } = packet.ends.destination;
        let flow = self.flows.take_reply(packet)?;
        // It is restored at the egress of its client's interface, unless its client is the host.
        let is_of_host = NODE.has(ip) && flow.member.is_none() && flow.client.port != port;
        (flow.client.ip != ip || is_of_host).then(|| flow.restored())
    }

    /// Returns whether the packet's destination may stand for a client's.
    fn may_be_answer(&mut self, packet: &Packet<'_>) -> bool {
        let Endpoint { ip, port } = packet.ends.destination;
        HAIRPIN.has(ip) || SNAT_PORTS.contains(&port) && !self.is_fast_request(packet)
    }

    /// Returns whether the packet is the answer of a backend that is gone to a SYN in its flow, which is over then.
    /// The next SYN chooses another backend.
    pub(super) fn is_left(&mut self, packet: &Packet<'_>) -> bool {
        if packet.form == Form::Later {
            return false;
        }
        let found = self
            .flows
            .find(Side::Backend, packet.ends, packet.says.opens);
        let Some(index) = found else {
            return false;
        };
        let flow = self.flows.at(index);
        let is_left = flow.ends_with(packet) && !self.has_backend(flow);
        if is_left {
            self.flows.leave(index);
        }
        is_left
    }

    /// Returns whether the packet answers a flow of the host's that goes on as it is. One that has ended is none for
    /// who begins another.
    fn answers_host(&mut self, packet: &Packet<'_>) -> bool {
        if !self.any_own || self.is_fast_request(packet) {
            return false;
        }
        let Some(index) = self
            .flows
            .find(Side::Backend, packet.ends, packet.says.opens)
        else {
            return false;
        };
        let flow = self.flows.at(index);
        if flow.member.is_some() || !flow.keeps_client() {
            return false;
        }
        // For no frontend and of no client, no program checks it.
        let key = (packet.ends.protocol, packet.ends.destination);
        let is_looked_for = !packet.is_plain
            || self.cluster.frontends.contains_key(&key)
            || SNAT_PORTS.contains(&packet.ends.destination.port)
            || self.flows.with_request(packet.ends).is_some();
        if !is_looked_for {
            return false;
        }
        if packet.says.opens && flow.has_ended(self.flows.now()) {
            self.flows.forget(index);
            return false;
        }
        self.flows.note(index, Side::Backend, packet);
        true
    }

    /// Returns whether the fast path takes the packet for a client's before it looks for replies.
    fn is_fast_request(&mut self, packet: &Packet<'_>) -> bool {
        if !packet.is_plain || packet.is_syn() || NODE.has(packet.ends.destination.ip) {
            return false;
        }
        let Some(index) = self.flows.find(Side::Client, packet.ends, false) else {
            return false;
        };
        let flow = self.flows.at(index);
        flow.keeps_client()
            && !flow.may_be_over(self.flows.now())
            && (!packet.opens || self.has_backend(flow))
    }

    /// A packet whose source stays goes on through the stack, one of a hairpin flow goes back where
    /// it came from, and every other is forwarded.
    pub(super) fn send(
        &mut self,
        packet: &Packet<'_>,
        to: Between,
        usually: &'static str,
    ) -> Verdict {
        let (source, destination) = (packet.ends.source.ip, packet.ends.destination.ip);
        let stays = to.source.ip == source;
        let turns = HAIRPIN.has(to.source.ip) || HAIRPIN.has(destination);
        let (mut to, mut usually, mut through_stack) = (to, usually, stays);
        if !stays {
            let is_expired = packet.hop_limit <= 1;
            let is_lost = !turns && !is_routed(to.destination.ip);
            if (is_expired || is_lost) && !turns && to.destination.ip == destination {
                // The stack has the same destination before it, and sends the error by itself.
                return Verdict::Pass(packet.frame.to_vec());
            }
            if is_expired {
                return self.tell(packet, Trouble::HopsUsedUp, "reject_expired");
            }
            if is_lost {
                if packet.form == Form::Error {
                    return self.drop("drop_no_route");
                }
                // The stack sends the error.
                to.source = packet.ends.source;
                usually = "drop_no_route";
                through_stack = true;
            }
        }
        if !through_stack && !packet.is_intact {
            return self.drop("drop_checksum");
        }
        self.remember(packet, Hook::Ingress, Became::Sent(to));
        let frame = packet.between(to);
        let Some(frame) = frame.and_then(|frame| self.adapted(packet, to, frame)) else {
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
}
