//! Lines of JSON.

use bolero::check;
use shunt_model::{Lines, decode};

use crate::{
    damage::{Damage, damaged, lines},
    receiver::Receiver,
};

#[test]
fn any_bytes_are_lines_of_events_or_errors() {
    check!().with_max_len(512).for_each(|bytes: &[u8]| {
        for line in Lines::new(bytes) {
            drop(line.map_err(|error| error.to_string()));
        }
        drop(decode(&String::from_utf8_lossy(bytes)).map_err(|error| error.to_string()));
    });
}

#[test]
fn a_damaged_line_is_an_error_or_an_event_that_renders() {
    let seeds = lines();
    check!()
        .with_type::<Vec<(u8, Vec<Damage>)>>()
        .for_each(|input| {
            let mut receiver = Receiver::new();
            for (seed, damages) in input.iter().take(4) {
                let damages = &damages[..damages.len().min(5)];
                let line = damaged(&seeds[usize::from(*seed) % seeds.len()], damages);
                match decode(&line) {
                    Ok(event) => receiver.take(event),
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        });
}
