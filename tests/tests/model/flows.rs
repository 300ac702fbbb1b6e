//! The model's connections: which of them are in the table.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    cluster::Endpoint,
    contents::Contents,
    flow::{Ends, Flow, Room, Side},
    wire::Packet,
};

/// All flows that are in the table; who is silent for too long stays until a packet looks for it.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    now: u64,
    next: usize,
    flows: BTreeMap<usize, Flow>,
    requests: BTreeMap<Ends, usize>,
    replies: BTreeMap<Ends, usize>,
    begun_again: bool,
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

    /// The flow whose requests are between these ends, whatever its state.
    pub(crate) fn with_request(&self, ends: Ends) -> Option<&Flow> {
        self.flows.get(self.requests.get(&ends)?)
    }

    /// The flow whose replies are between these ends, whatever its state.
    pub(crate) fn with_reply(&self, ends: Ends) -> Option<&Flow> {
        self.flows.get(self.replies.get(&ends)?)
    }

    /// Returns whether there is a flow with replies between these ends, whatever its state.
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

    /// Notes the meaning of a packet of this side for its flow.
    pub(crate) fn note(&mut self, index: usize, side: Side, packet: &Packet<'_>) {
        let now = self.now;
        if let Some(flow) = self.flows.get_mut(&index) {
            flow.note(side, packet, now);
        }
    }

    /// Notes that the client is to have another backend.
    pub(crate) fn leave(&mut self, index: usize) {
        if let Some(flow) = self.flows.get_mut(&index) {
            flow.leave();
        }
    }

    /// Notes the meaning of a reply for its flow, and returns that; nothing if it is of another one.
    pub(crate) fn take_reply(&mut self, packet: &Packet<'_>) -> Option<&Flow> {
        let index = self.find(Side::Backend, packet.ends, packet.says.opens)?;
        let flow = self.flows.get_mut(&index)?;
        if flow.takes_for_another(packet) {
            return None;
        }
        self.begun_again |= flow.begins_again_with(packet);
        flow.note(Side::Backend, packet, self.now);
        Some(flow)
    }

    /// Returns whether a flow has begun again. Asked once.
    pub(crate) const fn take_begun_again(&mut self) -> bool {
        std::mem::replace(&mut self.begun_again, false)
    }

    /// Returns whether a flow of the packet's client may have `source` towards `backend`: no flow has it; or
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
            Room::Over | Room::Unassured | Room::Doubtful => holder.request_ends() == ends,
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

    /// Returns the number of flows of the family of `like` that give way to no other.
    pub(crate) fn staying(&self, like: IpAddr) -> usize {
        let is_of_family = |flow: &&Flow| flow.client.ip.is_ipv4() == like.is_ipv4();
        let flows = self.flows.values().filter(is_of_family);
        flows
            .filter(|flow| flow.room(self.now) == Room::Never)
            .count()
    }

    /// Forgets the flows that the table does not have any more, and returns how many of them had to go
    /// before their time: none unless room was `sought`. Everything else in the table must be as it
    /// is here, but for one flow if that is `lost`.
    pub(crate) fn reconcile(
        &mut self,
        table: &Contents,
        sought: bool,
        lost: bool,
    ) -> Result<u64, String> {
        let is_known = |request: &&Ends| self.requests.contains_key(*request);
        let mut unknown = table.listed.keys().filter(|request| !is_known(request));
        if let Some(request) = unknown.nth(lost.into()) {
            return Err(format!("nobody opened {request:?}"));
        }
        let (mut early, mut gone) = (0, Vec::new());
        for (&index, flow) in &self.flows {
            let request = flow.request_ends();
            let (state, room) = (flow.state(), flow.room(self.now));
            let Some(reply) = table.all.get(&request) else {
                match room {
                    Room::Expired => {}
                    Room::Over | Room::Doubtful if sought => {}
                    Room::Unassured if sought => early += 1,
                    _ => return Err(format!("{request:?} is gone, it was {state:?}")),
                }
                gone.push(index);
                continue;
            };
            if room == Room::Expired {
                continue;
            }
            let expected = flow.reply_ends();
            if *reply != expected {
                return Err(format!("{request:?} has {reply:?} for {expected:?}"));
            }
            // A doubtful one is listed for as long as one that is closed.
            let listed = table.listed.get(&request);
            if flow.is_over_by_time(self.now) {
                continue;
            }
            if listed != Some(&state) {
                return Err(format!("{request:?} is {listed:?}, it must be {state:?}"));
            }
        }
        for index in gone {
            self.forget(index);
        }
        Ok(early)
    }

    /// Lets so many milliseconds pass.
    pub(crate) const fn pass(&mut self, time: u64) {
        self.now += time;
    }

    /// Returns whether any flow is where real time decides, so many milliseconds from now.
    pub(crate) fn is_at_a_turn(&self, later: u64) -> bool {
        let now = self.now + later;
        self.flows.values().any(|flow| flow.is_at_a_turn(now))
    }
}
