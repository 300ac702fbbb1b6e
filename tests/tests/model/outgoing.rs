//! The required outcome of a packet at the egress of an interface.

use super::{
    addresses::{NODE, SNAT_PORTS},
    cluster::{Endpoint, Protocol},
    edit::Between,
    flow::{Flow, Side},
    model::{Became, ForbiddenChoice, Hook, Model, Observed, Verdict},
    wire::{Form, Packet},
};

impl Model {
    /// A reply of a known flow comes from the frontend, to the client.
    pub(super) fn egress(
        &mut self,
        packet: &Packet<'_>,
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        if self.is_left(packet) {
            return Ok(self.drop("drop_gone"));
        }
        let restored = if packet.form == Form::Later {
            match self.recall(packet, Hook::Egress) {
                Some(Became::Sent(to)) => Some(to),
                Some(Became::HandedOver(_)) | None => None,
            }
        } else {
            self.flows.take_reply(packet).map(Flow::restored)
        };
        match restored {
            Some(restored) => Ok(self.send_out(packet, restored, "reply")),
            None => self.of_host(packet, observed),
        }
    }

    /// A packet goes out of its interface with these ends.
    fn send_out(&mut self, packet: &Packet<'_>, to: Between, usually: &'static str) -> Verdict {
        self.remember(packet, Hook::Egress, Became::Sent(to));
        let frame = packet.between(to);
        match frame.and_then(|frame| self.adapted(packet, to, frame)) {
            Some(frame) => {
                self.count(packet.counts_as(usually));
                Verdict::Pass(frame)
            }
            None => self.drop("drop_rewrite"),
        }
    }

    /// A packet that goes out and is no reply. If it may begin a flow, from the address that SNAT assigns, and
    /// one of SNAT's has its ends, it goes on from another port. From a frontend's address and port its flow is
    /// remembered.
    fn of_host(
        &mut self,
        packet: &Packet<'_>,
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let chosen = observed.and_then(|observed| observed.chosen);
        let passed = Ok(Verdict::Pass(packet.frame.to_vec()));
        let Endpoint { ip, port } = packet.ends.source;
        let may_clash = NODE.has(ip) && SNAT_PORTS.contains(&port);
        let is_frontend = self.is_frontend(packet.ends.protocol, packet.ends.source);
        if packet.form == Form::Later || !may_clash && !is_frontend {
            return passed;
        }
        let answers = packet.ends.reversed();
        let is_known = self.any_masqueraded && self.flows.with_request(packet.ends).is_some();
        let clashes = may_clash && (is_known || packet.opens && self.flows.has_reply(answers));
        if packet.is_plain && !clashes && !is_frontend {
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
                let stays = flow.keeps_client();
                self.flows.note(index, Side::Client, packet);
                if stays {
                    return passed;
                }
                return Ok(self.send_out(packet, to, "request"));
            }
            avoided = flow.is_mistaken().then_some(flow.source.port);
        }
        if packet.form == Form::Error || !packet.opens && !is_frontend {
            return passed;
        }
        if let Some(index) = known {
            self.flows.forget(index);
        }
        let other = self.flows.find(Side::Backend, answers, packet.says.opens);
        let gives_way = may_clash
            && packet.opens
            && other.is_some_and(|index| {
                let flow = self.flows.at(index);
                let is_its_own = packet.ends.protocol == Protocol::TCP
                    && flow.may_have_begun_with(packet.says.number);
                !flow.keeps_client() && !is_its_own
            });
        let keeps = if gives_way {
            false
        } else if is_frontend {
            match self.keeps_port(packet, other.is_some()) {
                Some(keeps) => keeps,
                None => return passed,
            }
        } else {
            return passed;
        };
        let backend = packet.ends.destination;
        let is_free = |this: &Self, source| this.flows.is_free(packet.ends, source, backend);
        let keeps = keeps && avoided != Some(port) && is_free(self, packet.ends.source);
        let found = chosen.filter(|chosen| {
            if keeps {
                return chosen.backend == backend && chosen.source == packet.ends.source;
            }
            chosen.backend == backend
                && chosen.source.ip == ip
                && SNAT_PORTS.contains(&chosen.source.port)
                && Some(chosen.source.port) != avoided
                && is_free(self, chosen.source)
        });
        let is_untouched = chosen.is_some_and(|chosen| chosen.source == packet.ends.source);
        let found = match found {
            Some(found) => found,
            None if is_untouched && self.capacity.is_some() => {
                self.note_refusal(packet);
                return passed;
            }
            None if observed.is_some_and(|observed| self.was_cut(packet, observed)) => {
                self.lost = true;
                self.count("connection");
                return Ok(self.drop("drop_rewrite"));
            }
            None => {
                let allowed = vec![backend];
                return Err(ForbiddenChoice { chosen, allowed });
            }
        };
        self.any_masqueraded = true;
        self.any_own |= is_frontend;
        Ok(self.open_of_host(packet, found.source, keeps))
    }

    /// Opens a flow of this node's own, from `source`, and sends its packet on, unchanged if it `keeps` its port.
    fn open_of_host(&mut self, packet: &Packet<'_>, source: Endpoint, keeps: bool) -> Verdict {
        self.sought_room = true;
        let backend = packet.ends.destination;
        let flow = Flow::new(packet, source, backend, None, self.flows.now());
        let index = self.flows.open(flow);
        self.count("connection");
        if keeps {
            self.unseen = self.capacity.map(|_| index);
            return Verdict::Pass(packet.frame.to_vec());
        }
        let to = self.flows.at(index).sent_on();
        self.send_out(packet, to, "request")
    }

    fn is_frontend(&self, protocol: Protocol, at: Endpoint) -> bool {
        self.cluster.frontends.contains_key(&(protocol, at))
    }

    /// Returns whether a flow of this node's own keeps its port, which is a frontend's; `None` if it is not
    /// remembered. `is_taken`: another one has its ends towards the backend.
    fn keeps_port(&mut self, packet: &Packet<'_>, is_taken: bool) -> Option<bool> {
        let is_own = NODE.has(packet.ends.source.ip);
        let may_change = packet.opens && is_own;
        if packet.says.resets || !is_own || is_taken && !may_change {
            return None;
        }
        let client = packet.ends.reversed();
        let Some(index) = self.flows.find(Side::Client, client, packet.says.opens) else {
            return Some(true);
        };
        let flow = self.flows.at(index);
        match flow.is_asked_for(self.flows.now()) {
            _ if flow.member.is_none() => None,
            Some(true) => may_change.then_some(false),
            Some(false) => {
                self.flows.forget(index);
                Some(true)
            }
            None => None,
        }
    }
}
