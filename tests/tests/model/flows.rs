//! The model's connections: what each direction has seen, and when it is over.

use std::collections::BTreeMap;

use shunt_datapath::Timeouts;

use super::{
    cluster::{Endpoint, Protocol},
    edit::Between,
    frontends::Member,
    wire::{Form, Packet},
};

/// The two ends of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub protocol: Protocol,
    pub source: Endpoint,
    pub destination: Endpoint,
}

/// What one direction of a flow has seen.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    packet: bool,
    end: bool,
    reset: bool,
    last: u64,
}

impl Seen {
    fn note(&mut self, packet: &Packet<'_>, now: u64) {
        // An error is of the flow that it is about, but says nothing of it.
        if packet.form == Form::Error {
            return;
        }
        self.packet = true;
        self.end |= packet.closes || packet.resets;
        self.reset |= packet.resets;
        self.last = now;
    }
}

/// A client's flow to a backend.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub protocol: Protocol,
    pub client: Endpoint,
    pub frontend: Endpoint,
    /// Whom the backend sees.
    pub source: Endpoint,
    pub backend: Endpoint,
    /// Who the backend was when it was chosen.
    pub member: Member,
    pub membership: u64,
    request: Seen,
    reply: Seen,
}

impl Flow {
    /// A flow whose first packet is yet to come.
    pub(crate) fn new(
        packet: &Packet<'_>,
        source: Endpoint,
        (member, membership): (Member, u64),
        now: u64,
    ) -> Self {
        Self {
            protocol: packet.ends.protocol,
            client: packet.ends.source,
            frontend: packet.ends.destination,
            source,
            backend: member.at,
            member,
            membership,
            request: Seen::default(),
            reply: Seen {
                last: now,
                ..Seen::default()
            },
        }
    }

    /// Whether the client has ended it: its next SYN begins another.
    pub(crate) const fn is_ended(&self) -> bool {
        self.request.end
    }

    /// As its requests go on to the backend.
    pub(crate) const fn sent_on(&self) -> Between {
        Between {
            source: self.source,
            destination: self.backend,
        }
    }

    /// As its replies go on to the client.
    pub(crate) const fn restored(&self) -> Between {
        Between {
            source: self.frontend,
            destination: self.client,
        }
    }

    /// As its requests come in.
    pub(crate) const fn request_ends(&self) -> Ends {
        Ends {
            protocol: self.protocol,
            source: self.client,
            destination: self.frontend,
        }
    }

    /// As its replies come in.
    pub(crate) const fn reply_ends(&self) -> Ends {
        Ends {
            protocol: self.protocol,
            source: self.backend,
            destination: self.source,
        }
    }
}

/// All flows that are remembered. A flow's two directions are found separately: a client that
/// begins anew leaves the earlier flow only its late replies.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    now: u64,
    next: usize,
    flows: BTreeMap<usize, Flow>,
    requests: BTreeMap<Ends, usize>,
    replies: BTreeMap<Ends, usize>,
}

impl Flows {
    /// Seconds since the beginning.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// The flow that a request belongs to.
    pub(crate) fn of_request(&self, packet: &Packet<'_>) -> Option<&Flow> {
        self.flows.get(self.requests.get(&packet.ends)?)
    }

    /// Notes what a request says to its flow.
    pub(crate) fn note_request(&mut self, packet: &Packet<'_>) {
        let index = self.requests.get(&packet.ends);
        if let Some(flow) = index.and_then(|index| self.flows.get_mut(index)) {
            flow.request.note(packet, self.now);
        }
    }

    /// The flow that a reply belongs to.
    pub(crate) fn of_reply(&self, packet: &Packet<'_>) -> Option<&Flow> {
        self.flows.get(self.replies.get(&packet.ends)?)
    }

    /// Notes what a reply says to its flow, and gives that.
    pub(crate) fn note_reply(&mut self, packet: &Packet<'_>) -> Option<&Flow> {
        let flow = self.flows.get_mut(self.replies.get(&packet.ends)?)?;
        flow.reply.note(packet, self.now);
        Some(flow)
    }

    /// Whether a flow of the packet's client may have `source` towards `backend`: nobody has it, or
    /// a flow of this client port, which is this one, is over or has moved on. A flow of another
    /// client keeps it even then, as long as others are free.
    pub(crate) fn is_free(&self, packet: &Packet<'_>, source: Endpoint, backend: Endpoint) -> bool {
        let reply = Ends {
            protocol: packet.ends.protocol,
            source: backend,
            destination: source,
        };
        let Some(index) = self.replies.get(&reply) else {
            return true;
        };
        let holder = &self.flows[index];
        let same_flow = holder.frontend == packet.ends.destination;
        let leads_here = self.requests.get(&holder.request_ends()) == Some(index);
        let (request, reply) = (holder.request, holder.reply);
        let over = request.reset || reply.reset || request.end && reply.end;
        holder.client == packet.ends.source && (same_flow || !leads_here || over)
    }

    /// Opens a flow.
    pub(crate) fn open(&mut self, flow: Flow) {
        let (request, reply) = (flow.request_ends(), flow.reply_ends());
        let index = self.next;
        self.next += 1;
        // Whoever had the port is over, or has moved on.
        if let Some(earlier) = self.replies.insert(reply, index) {
            self.requests.retain(|_, flow| *flow != earlier);
        }
        self.requests.insert(request, index);
        self.flows.insert(index, flow);
        self.forget_lost();
    }

    /// Lets time pass and forgets the flows that have been silent for too long.
    pub(crate) fn pass(&mut self, seconds: u32) {
        self.now += u64::from(seconds);
        let silent: Vec<usize> = self
            .flows
            .iter()
            .filter(|(index, flow)| self.is_over(**index, flow))
            .map(|(index, _)| *index)
            .collect();
        for index in silent {
            self.requests.retain(|_, flow| *flow != index);
            self.replies.retain(|_, flow| *flow != index);
        }
        self.forget_lost();
    }

    fn is_over(&self, index: usize, flow: &Flow) -> bool {
        // A direction that another flow has taken over says nothing of this one.
        let known = |taken: Option<&usize>, seen| (taken == Some(&index)).then_some(seen);
        let request = known(self.requests.get(&flow.request_ends()), flow.request);
        let reply = known(self.replies.get(&flow.reply_ends()), flow.reply);
        let last = request.into_iter().chain(reply).map(|seen| seen.last).max();
        let (request, reply) = (request.unwrap_or_default(), reply.unwrap_or_default());
        let timeouts = Timeouts::default();
        let closed = request.reset || reply.reset || request.end && reply.end;
        let timeout = match (flow.protocol, closed) {
            (Protocol::UDP, _) if reply.packet => timeouts.udp_stream,
            (Protocol::UDP, _) => timeouts.udp,
            (Protocol::SCTP, true) => timeouts.sctp_closed,
            (Protocol::SCTP, _) if request.end || reply.end => timeouts.sctp_closing,
            (Protocol::SCTP, _) if reply.packet => timeouts.sctp_established,
            (Protocol::SCTP, _) => timeouts.sctp_new,
            (_, true) if request.reset || reply.reset => timeouts.tcp_closed,
            (_, true) if flow.source != flow.client => timeouts.tcp_time_wait,
            (_, true) => timeouts.tcp_closed,
            _ if request.end || reply.end => timeouts.tcp_closing,
            _ if reply.packet => timeouts.tcp_established,
            _ => timeouts.tcp_new,
        };
        last.is_none_or(|last| self.now - last > timeout.into())
    }

    /// Forgets the flows that no packet finds any more.
    fn forget_lost(&mut self) {
        let Self {
            flows,
            requests,
            replies,
            ..
        } = self;
        flows.retain(|index, flow| {
            requests.get(&flow.request_ends()) == Some(index)
                || replies.get(&flow.reply_ends()) == Some(index)
        });
    }
}
