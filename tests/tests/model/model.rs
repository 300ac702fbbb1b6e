//! Section 4 of the design as plain code: what must become of each packet.
//!
//! [`super::outgoing`] has packets that leave by an interface, [`super::incoming`] those that come by
//! one, [`super::opening`] those among them that may open a connection.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use shunt_common::{FragmentEntry, V4};

use super::{
    cluster::{Endpoint, Event},
    dsr::Content,
    edit::{Between, Trouble},
    flow::{SECOND, is_near},
    flows::Flows,
    frontends::Cluster,
    kernel::LONG,
    opening::Attempt,
    selection::{Bond, Bound},
    wire::{Datagram, Form, Packet, Unread, is_for_other_station},
};

/// Verdict of a program on a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// On to the stack, as this frame.
    Pass(Vec<u8>),
    /// Dropped.
    Drop,
    /// Out of an interface, as this frame.
    Redirect(Vec<u8>),
}

/// The place where a packet meets a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hook {
    Ingress,
    Egress,
}

/// Outcome of a first fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Became {
    /// It was sent on between these.
    Sent(Between),
    /// It went to this node in an envelope.
    HandedOver(IpAddr),
}

/// The state from all events and all packets.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub cluster: Cluster,
    pub flows: Flows,
    pub(super) bonds: BTreeMap<Bound, Bond>,
    /// The SYNs that splits have refused since the last event.
    pub(super) refused: BTreeSet<Attempt>,
    /// Outcome of the first fragment of a datagram at a hook, and its time.
    datagrams: BTreeMap<(Hook, Datagram), (Became, u64)>,
    /// Only the programs know what was chosen for the last packet.
    pub(super) lost: bool,
    /// True if the last packet was given a place in the table, or was refused one.
    pub(super) sought_room: bool,
    /// The last packet's flow, if the packet goes on unchanged whether the flow has found room or not.
    pub(super) unseen: Option<usize>,
    /// True if the programs have left the segment size that the last packet announces.
    pub(super) leaves_size: bool,
    /// True if the last packet got no further than the driver.
    pub(super) by_driver: bool,
    /// Number of connections of a family that always find room, if that matters.
    pub(super) capacity: Option<usize>,
    /// True if envelopes come from ranges of addresses.
    pub(super) has_dsr_sources: bool,
    /// True if packets come in by a port of a bridge.
    is_at_port: bool,
    /// Number of connections that were refused although there were not as many that stay.
    pub refused_early: u64,
    /// Number of connections that were opened through splits, and of those that these refused although they
    /// could be served.
    pub by_splits: u64,
    pub refused_by_splits: u64,
    /// True if a connection to a backend itself has been given another port.
    pub any_direct: bool,
    /// True if a packet of the host's own has been given another port where it goes out.
    pub any_masqueraded: bool,
    /// True if one has gone out from a frontend's address and port.
    pub any_own: bool,
    pub(super) counters: BTreeMap<&'static str, u64>,
}

/// The programs' choice for a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen {
    /// The source that the backend sees.
    pub source: Endpoint,
    pub backend: Endpoint,
}

/// Outcome of a packet in the programs: the verdict, and the choice that can be seen in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub verdict: &'a Verdict,
    /// True if the packet got no further than the driver.
    pub by_driver: bool,
    pub chosen: Option<Chosen>,
    /// Number of packets dropped so far because they could not be rewritten, or because their
    /// connection found no room; it is read if this one was dropped.
    pub not_rewritten: u64,
    pub no_room: u64,
    /// Number of packets refused so far because no backend is there for them; it is read if no choice can be seen.
    pub rejected: u64,
}

/// The programs chose a backend that may not be chosen, or a source that it may not see.
#[derive(Debug)]
pub(crate) struct ForbiddenChoice {
    pub chosen: Option<Chosen>,
    pub allowed: Vec<Endpoint>,
}

impl Model {
    /// With tables in which so many connections of a family always find room, if that matters, and with ranges
    /// that envelopes come from, if there are any, by a port of a bridge or by another interface.
    pub(crate) fn with(capacity: Option<usize>, has_dsr_sources: bool, is_at_port: bool) -> Self {
        Self {
            capacity,
            has_dsr_sources,
            is_at_port,
            ..Self::default()
        }
    }

    /// Applies an event; `false` if it must be refused.
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        self.refused.clear();
        self.cluster.apply(event)
    }

    /// Returns the expected counters of the programs.
    pub(crate) const fn counters(&self) -> &BTreeMap<&'static str, u64> {
        &self.counters
    }

    /// Returns whether a flow was opened whose backend could not be seen, so that both sides have to
    /// forget all flows. Asked once.
    pub(crate) const fn take_lost(&mut self) -> bool {
        std::mem::replace(&mut self.lost, false)
    }

    /// Lets so many seconds pass, or a few more: those after which real time does not decide
    /// anything. Returns how many.
    pub(crate) fn pass(&mut self, seconds: u32) -> u32 {
        let is_clear = |seconds: &u32| !self.is_at_a_turn(u64::from(*seconds) * SECOND);
        let seconds = (seconds..seconds + 200).find(is_clear).unwrap_or(LONG);
        // A tick is 256 ms, and no fewer ticks pass.
        self.flows.pass(u64::from(seconds) * SECOND + 128);
        seconds
    }

    /// Returns whether real time decides about anything so many milliseconds from now.
    pub(crate) fn is_at_a_turn(&self, later: u64) -> bool {
        let now = self.flows.now() + later;
        let is_near = |then: u64, seconds| is_near(now - then, seconds);
        let mut datagrams = self.datagrams.values();
        self.flows.is_at_a_turn(later)
            || self.bonds.values().any(|bond| is_near(bond.last_used, 10))
            || datagrams.any(|(_, then)| is_near(*then, FragmentEntry::<V4>::LIFETIME))
    }

    /// Returns the required outcome of a frame. Where a backend and a source port are to be chosen
    /// freely, what was is taken from `observed`, and from then on it must be that.
    pub(crate) fn handle(
        &mut self,
        hook: Hook,
        frame: &[u8],
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        if hook == Hook::Ingress && !self.is_at_port && is_for_other_station(frame) {
            self.count("pass_other_station");
            return Ok(Verdict::Pass(frame.to_vec()));
        }
        let packet = match Packet::read(frame) {
            Ok(packet) => packet,
            Err(unread) => {
                match unread {
                    Unread::Foreign => {}
                    Unread::Truncated => self.count("pass_truncated"),
                    Unread::TooManyHeaders => self.count("pass_headers"),
                }
                return match hook {
                    Hook::Ingress => self.foreign(frame, observed),
                    Hook::Egress => Ok(Verdict::Pass(frame.to_vec())),
                };
            }
        };
        self.note_size(&packet, observed);
        let verdict = match hook {
            Hook::Egress => self.egress(&packet, observed),
            Hook::Ingress => self.ingress(&packet, observed),
        };
        if self.flows.take_begun_again() {
            self.count("connection");
        }
        verdict
    }

    /// Returns the required outcome of a frame that comes in and is none of ours, unless it is an envelope.
    fn foreign(
        &mut self,
        frame: &[u8],
        observed: Option<Observed<'_>>,
    ) -> Result<Verdict, ForbiddenChoice> {
        let untouched = Ok(Verdict::Pass(frame.to_vec()));
        match self.content(frame) {
            Some(Content::Frame(inner, is_handed_on)) => {
                let Ok(packet) = Packet::read(&inner) else {
                    return untouched;
                };
                self.count("unwrapped");
                self.note_size(&packet, observed);
                self.ingress(&packet.handed_over(is_handed_on), observed)
            }
            Some(Content::Forged) => {
                self.count("pass_forged_envelope");
                untouched
            }
            Some(Content::Congested) => Ok(self.drop("drop_congestion")),
            None => untouched,
        }
    }

    /// Remembers what a first fragment became.
    pub(super) fn remember(&mut self, packet: &Packet<'_>, hook: Hook, became: Became) {
        if packet.form == Form::First {
            let now = self.flows.now();
            self.datagrams
                .insert((hook, packet.datagram), (became, now));
        }
    }

    /// Returns the outcome of the first fragment of the packet's datagram, if that was not too long ago.
    pub(super) fn recall(&self, packet: &Packet<'_>, hook: Hook) -> Option<Became> {
        let (became, then) = self.datagrams.get(&(hook, packet.datagram))?;
        let lifetime = u64::from(FragmentEntry::<V4>::LIFETIME);
        (self.flows.now() - then <= lifetime * SECOND).then_some(*became)
    }

    /// Sends an error to the sender, unless that is forbidden.
    pub(super) fn tell(
        &mut self,
        packet: &Packet<'_>,
        trouble: Trouble,
        reason: &'static str,
    ) -> Verdict {
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

    /// Takes the last count of this counter back.
    pub(super) fn uncount(&mut self, counter: &'static str) {
        let count = self.counters.entry(counter).or_default();
        *count -= 1;
        if *count == 0 {
            self.counters.remove(counter);
        }
    }
}
