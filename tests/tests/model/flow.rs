//! One connection of the model's: what is known of it, and when it is over.

use shunt_datapath::{ConntrackState as State, Timeouts};

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

/// The shortest of the timeouts, in seconds.
const SHORTEST: u32 = 3;

/// Limit of what a backend may send before anything is acknowledged, with its FIN.
const FIRST_WINDOW: u32 = 65_536;

/// The bits of a number that an answer is known by.
const KNOWN: u32 = (1 << 26) - 1;

/// The packet that an established connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    Nothing,
    /// An answer to a SYN, by what acknowledges it.
    SynAck(u32),
    /// That a FIN is acknowledged so.
    FinAck(u32),
    /// A RST of the client's with this number.
    Reset(u32),
}

/// The two ends of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub protocol: Protocol,
    pub source: Endpoint,
    pub destination: Endpoint,
}

impl Ends {
    /// Returns the ends of an answer.
    pub(crate) const fn reversed(self) -> Self {
        Self {
            protocol: self.protocol,
            source: self.destination,
            destination: self.source,
        }
    }
}

/// The side of a flow that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Backend,
}

/// Rank of a connection in the order of early drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// Its time is over.
    Expired,
    /// It has ended.
    Over,
    /// Nothing has come of it yet.
    Unassured,
    /// It is established, and any host may have reset it.
    Doubtful,
    /// It stays.
    Never,
}

/// A client's flow to a backend.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub protocol: Protocol,
    pub client: Endpoint,
    pub frontend: Endpoint,
    /// The source that the backend sees.
    pub source: Endpoint,
    pub backend: Endpoint,
    /// The backend's membership at the time of the choice; none for a connection to the backend itself.
    pub member: Option<(Member, u64)>,
    /// True if it began with a SYN or INIT.
    opened: bool,
    /// True if it is not given up before its time is over.
    assured: bool,
    /// True if anything but a reset came from the backend.
    replied: bool,
    /// True if the backend has sent a SYN-ACK or INIT ACK.
    answered: bool,
    /// True if the backend has sent data or a FIN before the client acknowledged its SYN-ACK.
    is_early: bool,
    /// The SYN's number, or that which acknowledges the SYN-ACK.
    number: u32,
    /// True for each side that has ended it.
    client_ended: bool,
    backend_ended: bool,
    /// True if a side has reset it, and none has spoken since.
    reset: bool,
    /// True if the backend has answered its SYN by what is of another connection.
    mistaken: bool,
    awaits: Awaits,
    began: u64,
    /// Time of each side's last packet.
    client_heard: u64,
    backend_heard: u64,
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
            is_early: false,
            number: packet.says.number,
            client_ended: false,
            backend_ended: false,
            reset: false,
            mistaken: false,
            awaits: Awaits::Nothing,
            began: now,
            client_heard: now,
            backend_heard: now,
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

    /// Returns whether the backend sees the client as it is.
    pub(crate) fn keeps_client(&self) -> bool {
        self.source == self.client
    }

    /// Returns whether the backend sees the client's address.
    pub(crate) fn keeps_address(&self) -> bool {
        self.source.ip == self.client.ip
    }

    /// Returns the time of either side's last packet.
    fn last(&self) -> u64 {
        self.client_heard.max(self.backend_heard)
    }

    /// Returns whether the client's next SYN begins another, if its backend is there or not.
    pub(crate) fn is_replaced(&self, has_backend: bool, now: u64) -> bool {
        if self.has_ended(now) {
            return true;
        }
        if self.protocol == Protocol::TCP && self.assured {
            return !has_backend && (self.mistaken || self.is_unanswered(now));
        }
        !has_backend || self.client_ended || self.mistaken
    }

    /// Returns whether the programs look at its other side before they take a client's packet for its.
    pub(super) fn may_be_over(&self, now: u64) -> bool {
        let is_ending = self.client_ended || self.backend_ended || self.reset;
        let least = if self.assured && !is_ending {
            self.timeout(false)
        } else {
            SHORTEST
        };
        now - self.client_heard > u64::from(least) * SECOND
    }

    /// Returns whether the backend has left a SYN without an answer.
    fn is_unanswered(&self, now: u64) -> bool {
        let silence = self.client_heard.saturating_sub(self.backend_heard);
        matches!(self.awaits, Awaits::SynAck(_))
            && now - self.client_heard >= SECOND / 2
            && silence >= SECOND
    }

    /// Returns whether the backend has answered its SYN by what is of another connection.
    pub(crate) const fn is_mistaken(&self) -> bool {
        self.mistaken
    }

    /// Returns whether its client uses a service; if not, it answered a flow of the host's. `None`: it has just been
    /// answered, and that may be what is seen.
    pub(super) const fn is_asked_for(&self, now: u64) -> Option<bool> {
        if matches!(self.protocol, Protocol::TCP | Protocol::SCTP) {
            return Some(self.opened || self.assured);
        }
        if self.replied && now - self.backend_heard < SECOND {
            return None;
        }
        Some(self.assured)
    }

    /// Returns whether it began with a SYN, and its client has answered nothing yet.
    pub(crate) const fn is_opening(&self) -> bool {
        self.opened && !self.assured
    }

    /// Returns whether a SYN with this number may be the one that opened it, or is the latest in it.
    pub(crate) const fn may_have_begun_with(&self, number: u32) -> bool {
        if let Awaits::SynAck(awaited) = self.awaits {
            return is_known(number.wrapping_add(1), awaited);
        }
        !self.assured && (self.answered || self.number == number)
    }

    /// Returns its state, if a reset counts or not.
    const fn state_after(&self, reset: bool) -> State {
        let ended = self.client_ended as u8 + self.backend_ended as u8;
        match (self.protocol, self.assured) {
            (Protocol::TCP, _) if reset => State::Closed,
            (Protocol::TCP, true) => match ended {
                0 => State::Established,
                1 => State::Closing,
                _ => State::TimeWait,
            },
            (Protocol::TCP, false) if !self.opened => State::New,
            (Protocol::TCP, false) if self.answered => State::SynReceived,
            (Protocol::TCP, false) => State::SynSent,
            (Protocol::SCTP, _) if reset || ended == 2 => State::Closed,
            (Protocol::SCTP, false) => State::New,
            (Protocol::SCTP, true) if ended == 1 => State::Closing,
            (Protocol::SCTP, true) => State::Established,
            (_, true) => State::Assured,
            (_, false) if self.replied => State::Replied,
            (_, false) => State::Unreplied,
        }
    }

    /// Returns its state.
    pub(super) const fn state(&self) -> State {
        self.state_after(self.reset)
    }

    /// Returns its timeout without a packet, in seconds, if a reset counts or not.
    const fn timeout(&self, reset: bool) -> u32 {
        let t = TIMEOUTS;
        match (self.protocol, self.state_after(reset)) {
            (Protocol::SCTP, State::New) => t.sctp_new,
            (Protocol::SCTP, State::Established) => t.sctp_established,
            (Protocol::SCTP, State::Closing) => t.sctp_closing,
            (Protocol::SCTP, _) => t.sctp_closed,
            (_, State::SynSent) => t.tcp_syn_sent,
            (_, State::SynReceived) => t.tcp_syn_recv,
            (_, State::New) => t.tcp_new,
            (_, State::Established) => t.tcp_established,
            (_, State::Closing) => t.tcp_closing,
            (_, State::Closed) => t.tcp_closed,
            (_, State::TimeWait) => t.tcp_time_wait,
            (_, State::Unreplied | State::Replied) => t.udp,
            (_, State::Assured) => t.udp_stream,
        }
    }

    /// Returns its rank in the order of early drops.
    pub(crate) fn room(&self, now: u64) -> Room {
        let before = self.room_after(false, now);
        if self.assured && self.reset && before == Room::Never {
            return Room::Doubtful;
        }
        self.room_after(self.reset, now)
    }

    /// Returns whether a client that begins another with its tuple does so because it has ended: an established
    /// connection of TCP not by a reset, which any host may send.
    pub(crate) fn has_ended(&self, now: u64) -> bool {
        let believed = self.reset && !(self.protocol == Protocol::TCP && self.assured);
        self.room_after(believed, now) <= Room::Over
    }

    /// Returns whether its time is over, if a reset counts.
    pub(crate) fn is_over_by_time(&self, now: u64) -> bool {
        self.room_after(self.reset, now) == Room::Expired
    }

    /// Returns its rank in the order of early drops, if a reset counts or not.
    fn room_after(&self, reset: bool, now: u64) -> Room {
        if now - self.last() > u64::from(self.timeout(reset)) * SECOND {
            return Room::Expired;
        }
        match self.state_after(reset) {
            State::Closed | State::TimeWait => Room::Over,
            State::SynSent
            | State::SynReceived
            | State::New
            | State::Unreplied
            | State::Replied => Room::Unassured,
            State::Established | State::Closing | State::Assured => Room::Never,
        }
    }

    /// Returns whether a packet does not find it any more. An established one that was reset is found by
    /// all that do not begin another, for as long as without the reset.
    pub(super) fn is_gone(&self, opens: bool, now: u64) -> bool {
        if !self.is_over_by_time(now) {
            return false;
        }
        let timeout = self.timeout(false);
        let was_established = self.assured && self.reset;
        let opens = opens && self.protocol != Protocol::TCP;
        opens || !was_established || now - self.last() > u64::from(timeout) * SECOND
    }

    /// Returns whether the backend's first answer to the SYN is of another connection, and shows it.
    pub(super) fn takes_for_another(&mut self, packet: &Packet<'_>) -> bool {
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

    /// Returns whether a packet of the backend's answers a SYN in the flow, which begins again.
    pub(super) fn begins_again_with(&self, packet: &Packet<'_>) -> bool {
        let Says { answers, other, .. } = packet.says;
        let is_awaited = matches!(self.awaits, Awaits::SynAck(number) if is_known(other, number));
        packet.form != Form::Error && answers && is_awaited
    }

    /// Notes that its client is to have another backend.
    pub(super) const fn leave(&mut self) {
        self.mistaken = true;
    }

    /// Returns whether a packet of the backend's shows that the flow has ended there: it answers a SYN in it, or
    /// refuses.
    pub(super) fn ends_with(&self, packet: &Packet<'_>) -> bool {
        let Says {
            answers,
            resets,
            other,
            ..
        } = packet.says;
        let is_awaited = matches!(self.awaits, Awaits::SynAck(number) if is_known(other, number));
        packet.form != Form::Error && (answers || resets) && is_awaited
    }

    /// Notes the meaning of a packet.
    pub(super) fn note(&mut self, side: Side, packet: &Packet<'_>, now: u64) {
        // An error is of the flow that it is about, but has no news of it.
        if packet.form == Form::Error {
            return;
        }
        match side {
            Side::Client => self.client_heard = now,
            Side::Backend => self.backend_heard = now,
        }
        let says = packet.says;
        if says.resets {
            if self.is_proved_reset(side, says) {
                self.end();
            }
            self.reset = true;
            return;
        }
        self.reset &= says.opens;
        match side {
            Side::Client => self.note_request(says, now),
            Side::Backend => self.note_reply(says, now),
        }
    }

    fn note_request(&mut self, says: Says, now: u64) {
        let is_tcp = self.protocol == Protocol::TCP;
        let is_claim = is_tcp && self.assured;
        self.client_ended |= says.ends && !is_claim;
        let assures = match self.protocol {
            Protocol::TCP => {
                let behind = if self.is_early { FIRST_WINDOW } else { 0 };
                self.answered
                    && says
                        .acknowledges
                        .is_some_and(|number| number.wrapping_sub(self.number) <= behind)
            }
            Protocol::SCTP => false,
            _ => self.replied && self.has_lasted(now),
        };
        self.assure(assures);
        if !is_tcp || !self.assured {
            return;
        }
        if says.opens {
            self.awaits = Awaits::SynAck(says.number.wrapping_add(1));
        } else if says.ends && !self.client_ended {
            self.awaits = Awaits::FinAck(says.other);
        }
    }

    fn note_reply(&mut self, says: Says, now: u64) {
        match (self.awaits, says.acknowledges) {
            (Awaits::SynAck(number), _) if says.answers && is_known(says.other, number) => {
                *self = Self {
                    opened: true,
                    assured: false,
                    replied: true,
                    answered: true,
                    is_early: false,
                    number: says.number,
                    client_ended: false,
                    backend_ended: false,
                    reset: false,
                    mistaken: false,
                    awaits: Awaits::Nothing,
                    ..self.clone()
                };
                return;
            }
            (Awaits::SynAck(_), Some(number)) => self.awaits = Awaits::Reset(number),
            (Awaits::FinAck(end), Some(number)) if is_known(number, end) => {
                self.client_ended = true;
                self.awaits = Awaits::Nothing;
            }
            _ => {}
        }
        if says.answers {
            if self.protocol == Protocol::TCP && !self.assured {
                self.number = says.number;
            }
            self.answered = true;
        } else if !self.assured && !says.opens {
            self.is_early |= says.has_data || says.ends;
        }
        self.replied = true;
        self.backend_ended |= says.ends;
        let assures = match self.protocol {
            Protocol::TCP => !self.opened && !says.answers,
            Protocol::SCTP => !says.answers && !says.opens,
            _ => self.has_lasted(now),
        };
        self.assure(assures);
    }

    /// Makes it one that stays, if it is none and is to be. What was sent in the client's name before does not
    /// count.
    fn assure(&mut self, assures: bool) {
        if assures && !self.assured {
            self.assured = true;
            self.client_ended &= self.protocol != Protocol::TCP;
        }
    }

    const fn has_lasted(&self, now: u64) -> bool {
        now - self.began > LASTING
    }

    /// Notes that a reset was proved. What it was awaited by stays as its number.
    const fn end(&mut self) {
        self.assured = false;
        self.number = match self.awaits {
            Awaits::SynAck(number) => number & KNOWN,
            Awaits::Reset(number) => number,
            Awaits::FinAck(_) | Awaits::Nothing => self.number,
        };
        self.awaits = Awaits::Nothing;
    }

    /// Returns whether a RST is of who can know the connection.
    const fn is_proved_reset(&self, side: Side, says: Says) -> bool {
        match (side, self.awaits) {
            (Side::Client, Awaits::Reset(number)) => says.number == number,
            (Side::Backend, Awaits::SynAck(number)) => is_known(says.other, number),
            _ => false,
        }
    }

    /// Returns whether it is uncertain if a SYN has been without an answer for long enough.
    fn is_hard_to_tell(&self, now: u64) -> bool {
        let silence = self.client_heard.saturating_sub(self.backend_heard);
        (150..900).contains(&(now - self.client_heard)) || (500..1100).contains(&silence)
    }

    /// Returns whether real time, which is known to a second or so, decides what becomes of it.
    pub(super) fn is_at_a_turn(&self, now: u64) -> bool {
        let turns = [self.timeout(false), self.timeout(true)];
        let age = self.began;
        turns.iter().any(|turn| is_near(now - self.last(), *turn))
            || is_near(now - self.backend_heard, 1)
            || is_near(now - self.client_heard, SHORTEST)
            || is_near(now - age, (LASTING / SECOND) as u32)
            || matches!(self.awaits, Awaits::SynAck(_)) && self.is_hard_to_tell(now)
    }
}

/// Returns whether an answer with this number may be one to what `awaited` acknowledges.
const fn is_known(number: u32, awaited: u32) -> bool {
    (number ^ awaited) & KNOWN == 0
}

/// Returns whether it is uncertain if so many seconds are over.
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
