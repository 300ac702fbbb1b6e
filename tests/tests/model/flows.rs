//! The model's connections: what is known of each, and when it is over.

use std::collections::{BTreeMap, BTreeSet};

use shunt_datapath::Timeouts;

use super::{
    cluster::{Endpoint, Protocol},
    edit::Between,
    frontends::Member,
    wire::{Form, Packet, Says},
};

/// Milliseconds of a second.
pub(crate) const SECOND: u64 = 1000;

/// After what time a packet makes a flow with replies one that lasts.
const LASTING: u64 = 2 * SECOND;

/// The two ends of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub protocol: Protocol,
    pub source: Endpoint,
    pub destination: Endpoint,
}

impl Ends {
    /// Those of an answer.
    pub(crate) const fn reversed(self) -> Self {
        Self {
            protocol: self.protocol,
            source: self.destination,
            destination: self.source,
        }
    }
}

/// Which of a flow's two sides sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Backend,
}

/// Whom a connection gives way to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// Its time is over.
    Expired,
    /// It has ended.
    Over,
    /// Nothing has come of it yet.
    Unassured,
    /// It stays.
    Never,
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
    /// Who the backend was when it was chosen; of a connection to the backend itself nobody.
    pub member: Option<(Member, u64)>,
    /// Whether it began with a SYN or INIT.
    opened: bool,
    /// Whether it is not given up before its time is over.
    assured: bool,
    /// Whether anything but a reset came from the backend.
    replied: bool,
    /// Whether the backend has sent a SYN-ACK or INIT ACK.
    answered: bool,
    /// The SYN's number, or that which acknowledges the SYN-ACK.
    number: u32,
    /// Who has ended it.
    client_ended: bool,
    backend_ended: bool,
    /// Whether a side has reset it, and none has spoken since.
    reset: bool,
    /// Whether the backend has answered its SYN by what is of another connection.
    mistaken: bool,
    began: u64,
    last: u64,
}

impl Flow {
    /// A flow that its first packet opens.
    pub(crate) const fn new(
        packet: &Packet<'_>,
        source: Endpoint,
        backend: Endpoint,
        member: Option<(Member, u64)>,
        now: u64,
    ) -> Self {
        Self {
            protocol: packet.ends.protocol,
            client: packet.ends.source,
            frontend: packet.ends.destination,
            source,
            backend,
            member,
            opened: packet.says.opens,
            assured: false,
            replied: false,
            answered: false,
            number: packet.says.number,
            client_ended: false,
            backend_ended: false,
            reset: false,
            mistaken: false,
            began: now,
            last: now,
        }
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

    /// Whether the backend sees the client as it is.
    pub(crate) fn keeps_client(&self) -> bool {
        self.source == self.client
    }

    /// Whether the client's next SYN begins another.
    pub(crate) fn is_ended(&self, now: u64) -> bool {
        self.room(now) <= Room::Over || self.client_ended || self.mistaken
    }

    /// Whether the backend has answered its SYN by what is of another connection.
    pub(crate) const fn is_mistaken(&self) -> bool {
        self.mistaken
    }

    /// Whether a SYN with this number may be the one that opened it.
    pub(crate) const fn may_have_begun_with(&self, number: u32) -> bool {
        if self.answered {
            !self.assured
        } else {
            self.number == number
        }
    }

    /// How long it is remembered without a packet, and whom it gives way to before.
    const fn state(&self, reset: bool) -> (u32, Room) {
        let t = TIMEOUTS;
        let ended = self.client_ended as u8 + self.backend_ended as u8;
        match (self.protocol, self.assured) {
            (Protocol::TCP, _) if reset => (t.tcp_closed, Room::Over),
            (Protocol::TCP, true) => match ended {
                0 => (t.tcp_established, Room::Never),
                1 => (t.tcp_closing, Room::Never),
                _ => (t.tcp_time_wait, Room::Over),
            },
            (Protocol::TCP, false) if !self.opened => (t.tcp_new, Room::Unassured),
            (Protocol::TCP, false) if self.answered => (t.tcp_syn_recv, Room::Unassured),
            (Protocol::TCP, false) => (t.tcp_syn_sent, Room::Unassured),
            (Protocol::SCTP, _) if reset || ended == 2 => (t.sctp_closed, Room::Over),
            (Protocol::SCTP, false) => (t.sctp_new, Room::Unassured),
            (Protocol::SCTP, true) if ended == 1 => (t.sctp_closing, Room::Never),
            (Protocol::SCTP, true) => (t.sctp_established, Room::Never),
            (_, true) => (t.udp_stream, Room::Never),
            (_, false) => (t.udp, Room::Unassured),
        }
    }

    /// Whom it gives way to.
    pub(crate) fn room(&self, now: u64) -> Room {
        let (timeout, room) = self.state(self.reset);
        if now - self.last > u64::from(timeout) * SECOND {
            Room::Expired
        } else {
            room
        }
    }

    /// Whether a packet does not find it any more. An established one that was reset is found by
    /// all that do not begin another, for as long as without the reset.
    fn is_gone(&self, opens: bool, now: u64) -> bool {
        if self.room(now) > Room::Expired {
            return false;
        }
        let (timeout, _) = self.state(false);
        let was_established = self.assured && self.reset;
        opens || !was_established || now - self.last > u64::from(timeout) * SECOND
    }

    /// Whether the backend's first answer to the SYN is of another connection, and says so.
    fn takes_for_another(&mut self, packet: &Packet<'_>) -> bool {
        let Says {
            opens,
            answers,
            resets,
            ..
        } = packet.says;
        let awaits = self.opened && !self.assured && !self.answered;
        let is_another = self.protocol == Protocol::TCP
            && packet.form != Form::Error
            && awaits
            && !(opens || answers || resets);
        self.mistaken |= is_another;
        is_another
    }

    /// Notes what a packet says.
    fn note(&mut self, side: Side, packet: &Packet<'_>, now: u64) {
        // An error is of the flow that it is about, but says nothing of it.
        if packet.form == Form::Error {
            return;
        }
        self.last = now;
        let says = packet.says;
        if says.resets {
            self.reset = true;
            return;
        }
        self.reset = false;
        let has_lasted = now - self.began > LASTING;
        match side {
            Side::Client => {
                self.client_ended |= says.ends;
                self.assured |= match self.protocol {
                    Protocol::TCP => self.answered && says.acknowledges == Some(self.number),
                    Protocol::SCTP => false,
                    _ => self.replied && has_lasted,
                };
            }
            Side::Backend => {
                if says.answers {
                    if self.protocol == Protocol::TCP && !self.assured {
                        self.number = says.number;
                    }
                    self.answered = true;
                }
                self.replied = true;
                self.backend_ended |= says.ends;
                self.assured |= match self.protocol {
                    Protocol::TCP => !self.opened && !says.answers,
                    Protocol::SCTP => !says.answers && !says.opens,
                    _ => has_lasted,
                };
            }
        }
    }

    /// Whether real time, which is known to a second or so, decides what becomes of it.
    fn is_at_a_turn(&self, now: u64) -> bool {
        let turns = [self.state(false), self.state(true)].map(|(timeout, _)| timeout);
        let age = self.began;
        turns.iter().any(|turn| is_near(now - self.last, *turn))
            || is_near(now - age, (LASTING / SECOND) as u32)
    }
}

/// Whether it is hard to tell if so many seconds are over.
pub(crate) fn is_near(age: u64, seconds: u32) -> bool {
    let turn = u64::from(seconds) * SECOND;
    let (before, after) = if seconds < 5 {
        (900, 800)
    } else {
        (2000, 1500)
    };
    age + before > turn && age <= turn + after
}

const TIMEOUTS: Timeouts = Timeouts {
    tcp_syn_sent: 120,
    tcp_syn_recv: 60,
    tcp_new: 120,
    tcp_established: 86_400,
    tcp_closing: 120,
    tcp_closed: 10,
    tcp_time_wait: 60,
    udp: 30,
    udp_stream: 120,
    sctp_new: 3,
    sctp_established: 210,
    sctp_closing: 3,
    sctp_closed: 10,
};

/// All flows that are in the table; who is silent for too long stays until a packet looks for it.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    now: u64,
    next: usize,
    flows: BTreeMap<usize, Flow>,
    requests: BTreeMap<Ends, usize>,
    replies: BTreeMap<Ends, usize>,
}

impl Flows {
    /// Milliseconds since the beginning.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// The flow of this number.
    pub(crate) fn at(&self, index: usize) -> &Flow {
        &self.flows[&index]
    }

    /// The flow whose requests go like the packet, whatever its state.
    pub(crate) fn of_request(&self, packet: &Packet<'_>) -> Option<&Flow> {
        self.flows.get(self.requests.get(&packet.ends)?)
    }

    /// Whether there is a flow with replies between these ends, whatever its state.
    pub(crate) fn has_reply(&self, ends: Ends) -> bool {
        self.replies.contains_key(&ends)
    }

    /// The flow of packets between these ends of this side. One that a packet which `opens`
    /// another, or does not, finds gone is forgotten.
    pub(crate) fn find(&mut self, side: Side, ends: Ends, opens: bool) -> Option<usize> {
        let of_side = match side {
            Side::Client => &self.requests,
            Side::Backend => &self.replies,
        };
        let index = *of_side.get(&ends)?;
        if self.flows[&index].is_gone(opens, self.now) {
            self.forget(index);
            return None;
        }
        Some(index)
    }

    /// Notes what a packet of this side says to its flow.
    pub(crate) fn note(&mut self, index: usize, side: Side, packet: &Packet<'_>) {
        let now = self.now;
        if let Some(flow) = self.flows.get_mut(&index) {
            flow.note(side, packet, now);
        }
    }

    /// Notes what a reply says to its flow, and gives that; nothing if it is of another one.
    pub(crate) fn take_reply(&mut self, packet: &Packet<'_>) -> Option<&Flow> {
        let index = self.find(Side::Backend, packet.ends, packet.seeks_new())?;
        let flow = self.flows.get_mut(&index)?;
        if flow.takes_for_another(packet) {
            return None;
        }
        flow.note(Side::Backend, packet, self.now);
        Some(flow)
    }

    /// Whether a flow of the packet's client may have `source` towards `backend`: nobody has it; or
    /// its time is over, or it is this one and has ended, or nothing has come of it.
    pub(crate) fn is_free(&self, ends: Ends, source: Endpoint, backend: Endpoint) -> bool {
        let reply = Ends {
            protocol: ends.protocol,
            source: backend,
            destination: source,
        };
        let Some(index) = self.replies.get(&reply) else {
            return true;
        };
        let holder = &self.flows[index];
        match holder.room(self.now) {
            Room::Expired => true,
            Room::Over | Room::Unassured => holder.request_ends() == ends,
            Room::Never => false,
        }
    }

    /// Opens a flow.
    pub(crate) fn open(&mut self, flow: Flow) -> usize {
        let (request, reply) = (flow.request_ends(), flow.reply_ends());
        let earlier: BTreeSet<usize> = [self.requests.get(&request), self.replies.get(&reply)]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        for index in earlier {
            self.forget(index);
        }
        let index = self.next;
        self.next += 1;
        self.requests.insert(request, index);
        self.replies.insert(reply, index);
        self.flows.insert(index, flow);
        index
    }

    /// Ends a flow.
    pub(crate) fn forget(&mut self, index: usize) {
        if let Some(flow) = self.flows.remove(&index) {
            self.requests.remove(&flow.request_ends());
            self.replies.remove(&flow.reply_ends());
        }
    }

    /// Lets so many milliseconds pass.
    pub(crate) const fn pass(&mut self, time: u64) {
        self.now += time;
    }

    /// Whether any flow is where real time decides, so many milliseconds from now.
    pub(crate) fn is_at_a_turn(&self, later: u64) -> bool {
        let now = self.now + later;
        self.flows.values().any(|flow| flow.is_at_a_turn(now))
    }
}
