//! Asking the kernel for all there is of a kind, through rtnetlink.

use std::io;

use rtnetlink::{
    packet_core::{
        NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    },
    packet_route::RouteNetlinkMessage,
    sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE},
};
use tracing::warn;

/// Asks with `request`, in the calling thread's network namespace, and gives each message of the
/// answer to `take`.
///
/// # Errors
///
/// If the kernel does not answer.
pub fn dump(
    request: RouteNetlinkMessage,
    mut take: impl FnMut(RouteNetlinkMessage),
) -> io::Result<()> {
    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes(request), 0)?;
    loop {
        let (answer, _) = socket.recv_from_full()?;
        if !take_all(&answer, &mut take)? {
            return Ok(());
        }
    }
}

fn bytes(request: RouteNetlinkMessage) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Takes the messages out of one datagram of the answer. Gives whether more is to come.
fn take_all(mut answer: &[u8], take: &mut impl FnMut(RouteNetlinkMessage)) -> io::Result<bool> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    while !answer.is_empty() {
        let length = NetlinkBuffer::new_checked(answer)
            .map_err(invalid)?
            .length();
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(answer);
        match message.map(|message| message.payload) {
            Ok(NetlinkPayload::InnerMessage(message)) => take(message),
            Ok(NetlinkPayload::Done(_)) => return Ok(false),
            Ok(NetlinkPayload::Error(error)) if error.code.is_some() => return Err(error.to_io()),
            Ok(_) => {}
            // One that the library cannot read is no reason to know none.
            Err(error) => warn!(%error, "something that the kernel lists is not understood"),
        }
        // Messages begin at multiples of 4 (netlink(7)).
        let length = (length as usize).next_multiple_of(4);
        answer = answer.get(length..).unwrap_or_default();
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_cut_off_is_an_error_and_no_panic() {
        for bytes in [&[4, 0, 0, 0][..], &[0, 0, 0, 0, 0], &[255; 15]] {
            take_all(bytes, &mut drop).unwrap_err();
        }
        assert!(take_all(&[], &mut drop).unwrap());
    }
}
