//! The answer of a server of the tests, in words that are the same each time.

use std::net::SocketAddr;

/// The reply without the server's own address, and with `own` for the port from which we asked: who
/// answered, where it saw us, how long what it had was, and its CRC.
pub(crate) fn words(reply: &[u8], own_port: Option<u16>) -> String {
    let text = String::from_utf8_lossy(reply);
    let words: Vec<_> = text.split_whitespace().collect();
    let [
        name,
        _,
        "asked",
        "by",
        peer,
        "length",
        length,
        "crc",
        crc,
        ..,
    ] = words[..]
    else {
        return format!("{text:?}");
    };
    let seen = match peer.parse::<SocketAddr>() {
        Ok(seen) if Some(seen.port()) == own_port => format!("{} own", seen.ip()),
        _ => peer.to_owned(),
    };
    format!("{name} saw {seen} length {length} crc {crc}")
}
