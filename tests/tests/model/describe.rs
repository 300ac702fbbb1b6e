//! Frames, for people.

use std::fmt::Write as _;

use super::{envelope::Envelope, wire::Packet};

/// Returns the ends and the kind of a frame; all of it if it cannot be read.
pub(crate) fn describe(frame: &[u8]) -> String {
    if let Some(envelope) = Envelope::read(frame) {
        let Envelope {
            source,
            destination,
            inner,
            ..
        } = envelope;
        return format!("{source} > {destination} with {}", describe(&inner));
    }
    let packet = match Packet::read(frame) {
        Ok(packet) => packet,
        Err(unread) => return format!("{unread:?} {}", hexadecimal(frame)),
    };
    let Packet {
        form,
        ends,
        opens,
        says,
        hop_limit,
        overheard,
        datagram,
        ..
    } = packet;
    let mut text = format!(
        "{:?} > {:?} {:?}",
        ends.source, ends.destination, ends.protocol
    );
    for (set, name) in [
        (opens, "opens"),
        (says.answers, "answers"),
        (says.ends, "ends"),
        (says.resets, "resets"),
        (overheard, "for another station"),
    ] {
        if set {
            text += " ";
            text += name;
        }
    }
    if says.number != 0 {
        let _ = write!(text, " {}", says.number);
    }
    let identification = datagram.identification;
    text + &format!(
        " {form:?} {identification:#x} hops {hop_limit} length {}",
        frame.len()
    )
}

/// Bytes.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}
