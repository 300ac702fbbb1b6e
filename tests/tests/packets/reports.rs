//! ICMP errors as others and as we send them.

use super::{
    address::{Address, Header, Problem},
    frame::{NEIGHBOUR, Packet, THIS_STATION, ethernet},
};

/// A packet that reports a problem of another, of which it quotes this.
pub(crate) fn report<A: Address>(
    problem: Problem,
    from: A,
    to: A,
    time_to_live: u8,
    quoted: &[u8],
) -> Vec<u8> {
    let header = Header {
        protocol: A::ICMP,
        source: from,
        destination: to,
        time_to_live,
        identification: 0,
        options: &[],
        extensions: &[],
        fragment: None,
    };
    A::packet(&header, &A::icmp(problem, from, to, quoted))
}

/// The frame that answers `packet` with an error: to its source, from its destination, quoting its
/// network and transport header.
pub(crate) fn error<A: Address>(packet: &Packet<A>, problem: Problem) -> Vec<u8> {
    let whole = packet.packet();
    let network = A::packet(&packet.header(None), &[]).len();
    let quoted = &whole[..network + packet.transport.header_length()];
    let answer = report(problem, packet.destination.0, packet.source.0, 64, quoted);
    ethernet::<A>(THIS_STATION, NEIGHBOUR, &answer)
}

/// The ICMP "port unreachable" that answers `packet`.
pub(crate) fn unreachable<A: Address>(packet: &Packet<A>) -> Vec<u8> {
    error(packet, Problem::NoPort)
}
