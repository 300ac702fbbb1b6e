//! Many who wait for a service to change.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use serde_json::json;
use shunt_tests::{make_room_for_files, patience};

use super::place::{Place, SOON};

/// Number of clients that wait.
const READERS: usize = 1000;

/// Begins to wait for the service, and does not read on.
fn reader(place: &Place, hash: &str) -> UnixStream {
    let mut stream = UnixStream::connect(place.kept.socket()).unwrap();
    stream.set_read_timeout(Some(patience(SOON))).unwrap();
    let request = format!(
        "GET /v1/agent/service/web?hash={hash}&wait=10m HTTP/1.1\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

#[test]
fn a_thousand_who_wait_are_answered_by_one_change_and_who_has_gone_waits_no_more() {
    let Some(place) = Place::new() else {
        return;
    };
    make_room_for_files(READERS).unwrap();
    place.kept.register(&json!({ "Name": "web", "Port": 1 }));
    let hash = place.kept.hash("web");
    let mut readers: Vec<_> = (0..READERS).map(|_| reader(&place, &hash)).collect();
    place.are_waiting(READERS as u64);
    // They are there, and others are answered all the same.
    place.kept.register(&json!({ "Name": "other" }));
    drop(readers.split_off(READERS / 2));
    place.are_waiting(READERS as u64 / 2);
    place.kept.register(&json!({ "Name": "web", "Port": 2 }));
    for mut reader in readers {
        let mut answer = String::new();
        reader.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\"Port\":2"), "{answer}");
    }
    place.are_waiting(0);
}
