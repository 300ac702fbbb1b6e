//! The segment size that backends behind frontends in mode dsr announce.

use super::{
    cluster::Protocol,
    edit::Between,
    envelope::header_length,
    flow::Flow,
    model::{Model, Observed, Verdict},
    wire::{Form, Packet},
};

/// Number of its options that are looked through.
const OPTIONS: usize = 8;

/// Announcement of an answer to a SYN.
enum Announced {
    /// Nothing that is found.
    Nothing,
    /// So much, at this place of the frame.
    Size(u16, usize),
    /// Its options are not all there.
    Cut,
}

impl Model {
    /// Takes note of whether the programs have left what a packet announces.
    pub(super) fn note_size(&mut self, packet: &Packet<'_>, observed: Option<Observed<'_>>) {
        let size = |packet: &Packet<'_>| match packet.announced(packet.frame) {
            Announced::Size(size, _) => Some(size),
            Announced::Nothing | Announced::Cut => None,
        };
        let Some(Observed {
            verdict, by_driver, ..
        }) = observed
        else {
            return;
        };
        let after = match verdict {
            Verdict::Pass(frame) | Verdict::Redirect(frame) => Packet::read(frame).ok(),
            Verdict::Drop => None,
        };
        self.leaves_size = after.is_some_and(|after| size(&after) == size(packet));
        self.by_driver = by_driver;
    }

    /// The frame that the packet has become, with these ends. An answer to a SYN, from a frontend in mode dsr,
    /// announces less by what an envelope has. `None` if it is dropped.
    pub(super) fn adapted(
        &self,
        packet: &Packet<'_>,
        to: Between,
        frame: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let is_answer = packet.ends.protocol == Protocol::TCP
            && packet.says.answers
            && matches!(packet.form, Form::Whole | Form::First);
        if !is_answer || !self.is_dsr(self.stands_for((Protocol::TCP, to.source))) {
            return Some(frame);
        }
        let lost = header_length(packet.is_ipv4()) as u16;
        match packet.announced(&frame) {
            _ if self.leaves_size && self.may_leave_size(packet) => Some(frame),
            Announced::Cut => None,
            Announced::Size(size, place) if size > lost => {
                let mut after = frame.clone();
                after[place..place + 2].copy_from_slice(&(size - lost).to_be_bytes());
                packet.renew_segment(&frame, &mut after);
                Some(after)
            }
            Announced::Size(..) | Announced::Nothing => Some(frame),
        }
    }

    /// Returns whether the packet's announcement does not matter: it comes when its connection is open, or of none; or
    /// the driver has taken it, which knows of no such mode.
    fn may_leave_size(&self, packet: &Packet<'_>) -> bool {
        let flow = self.flows.with_reply(packet.ends);
        self.by_driver || !flow.is_some_and(Flow::is_opening)
    }
}

impl Packet<'_> {
    /// Returns the announcement of `frame`, which has this packet's form.
    fn announced(&self, frame: &[u8]) -> Announced {
        let packet = &frame[..self.end];
        let Some(words) = packet.get(self.transport + 12) else {
            return Announced::Cut;
        };
        let end = self.transport + usize::from(words >> 4) * 4;
        let mut place = self.transport + 20;
        for _ in 0..OPTIONS {
            if place + 4 > end {
                break;
            }
            let Some(option) = packet.get(place..place + 4) else {
                return Announced::Cut;
            };
            match option {
                [1, ..] => place += 1,
                [0, ..] | [_, 0 | 1, ..] => break,
                [2, 4, high, low] => {
                    return Announced::Size(u16::from_be_bytes([*high, *low]), place + 2);
                }
                _ => place += usize::from(option[1]),
            }
        }
        Announced::Nothing
    }
}
