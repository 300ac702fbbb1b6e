//! Arbitrary bytes as events.

use proptest::{collection::vec, prelude::*, sample::Index};
use shunt_model::{Lines, decode};

const LINE: &str = r#"{"event":"Resync","node_ips":["192.168.16.10"],"services":[{"id":{"namespace":"default","name":"web"},"cluster_ips":["10.96.0.1"],"ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}},"backends":{"http":[{"ip":"10.1.1.3","port":8080,"local":true,"scopes":["Cluster"]}]}}],"frontend_ifs":["eth0"],"backend_ifs":[],"service_cidrs":["10.96.0.0/12"]}"#;

/// Parts of the language, so that the mutations get further than the first byte.
const PIECES: [&str; 16] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "null",
    "0",
    "-1",
    "\"ip\":",
    "\"10.1.1.3\"",
    "\"é\\u0000\"",
    "1e999",
    "🦀",
];

proptest! {
    #[test]
    fn arbitrary_bytes_give_events_or_errors(bytes in vec(any::<u8>(), 0..400)) {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        prop_assert_eq!(Lines::new(bytes.as_slice()).count(), lines);
    }

    #[test]
    fn arbitrary_text_gives_an_event_or_an_error(text in any::<String>()) {
        let _ = decode(&text).map_err(|error| error.to_string());
    }

    #[test]
    fn a_damaged_event_gives_an_event_or_an_error(
        damages in vec((any::<Index>(), any::<Index>(), 0..30usize), 1..4),
    ) {
        let mut line: Vec<char> = LINE.chars().collect();
        for (place, piece, removed) in damages {
            let start = place.index(line.len() + 1);
            let end = (start + removed).min(line.len());
            line.splice(start..end, PIECES[piece.index(PIECES.len())].chars());
        }
        let line: String = line.into_iter().collect();
        let _ = decode(&line).map_err(|error| error.to_string());
    }
}

#[test]
fn every_prefix_of_an_event_is_an_error() {
    assert!(decode(LINE).is_ok());
    for end in 0..LINE.len() {
        assert!(decode(&LINE[..end]).is_err(), "{}", &LINE[..end]);
    }
}
