//! Messages of the gRPC interface.

use bolero::{TypeGenerator, check};
use prost::Message as _;
use shunt_api::{
    message::{self, Assembler},
    proto::StreamRequest,
};
use shunt_model::decode;

use crate::{
    damage::{Damage, damaged, lines},
    receiver::Receiver,
};

/// One change of a message's bytes.
#[derive(Debug, Clone, TypeGenerator)]
enum Bytes {
    Set { place: u16, byte: u8 },
    Insert { place: u16, byte: u8 },
    Cut { place: u16, count: u8 },
}

/// Returns the bytes of a message, from its line.
fn encoded(line: &str) -> Option<Vec<u8>> {
    let event = decode(line).ok()?;
    let message = message::encode(event).next()?;
    Some(message.encode_to_vec())
}

fn changed(bytes: &mut Vec<u8>, changes: &[Bytes]) {
    for change in changes {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        let at = |place: u16| usize::from(place) % length;
        match *change {
            Bytes::Set { place, byte } => bytes[at(place)] = byte,
            Bytes::Insert { place, byte } => bytes.insert(at(place), byte),
            Bytes::Cut { place, count } => {
                let start = at(place);
                bytes.drain(start..(start + usize::from(count % 16)).min(length));
            }
        }
    }
}

#[test]
fn any_bytes_are_messages_of_events_or_errors() {
    check!().with_max_len(512).for_each(|bytes: &[u8]| {
        let mut receiver = Receiver::new();
        if let Ok(message) = StreamRequest::decode(bytes) {
            for event in Assembler::default().next(message).into_iter().flatten() {
                receiver.take(event);
            }
        }
    });
}

#[test]
fn a_damaged_message_is_an_error_or_an_event_that_renders() {
    let seeds = lines();
    check!()
        .with_type::<Vec<(u8, Option<Damage>, Vec<Bytes>)>>()
        .for_each(|input| {
            let mut receiver = Receiver::new();
            let mut assembler = Assembler::default();
            let mut events = Vec::new();
            for (seed, damage, changes) in input.iter().take(4) {
                let line = &seeds[usize::from(*seed) % seeds.len()];
                let Some(mut bytes) = encoded(&damaged(line, damage.as_slice())) else {
                    continue;
                };
                changed(&mut bytes, &changes[..changes.len().min(4)]);
                if let Ok(message) = StreamRequest::decode(&*bytes) {
                    events.extend(assembler.next(message));
                }
            }
            events.extend(assembler.finish());
            for event in events {
                match event {
                    Ok(event) => receiver.take(event),
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        });
}
