//! Asking the kernel for all there is of a kind, through rtnetlink.

use std::io;

use rtnetlink::{
    packet_core::{
        NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage,
        NetlinkPayload,
    },
    packet_route::RouteNetlinkMessage,
    sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE},
};
use tracing::warn;

/// The most attempts at a list that changes while it is read.
const ATTEMPTS: usize = 10;

/// A list of the kernel's.
#[derive(Debug)]
pub struct Listing<T> {
    /// The items of the messages that were read.
    pub items: Vec<T>,
    /// The messages that the library cannot read, each with its header.
    pub unread: Vec<Box<[u8]>>,
}

/// Asks with `request`, in the calling thread's network namespace, and has `read` take out of each message of the
/// answer what is wanted. Begins again if the kernel says that the list has changed meanwhile, since something may be
/// missing in it (`NLM_F_DUMP_INTR`).
///
/// # Errors
///
/// If the kernel does not answer, or the list never stays as it is.
pub fn dump<T>(
    request: RouteNetlinkMessage,
    mut read: impl FnMut(RouteNetlinkMessage) -> Option<T>,
) -> io::Result<Listing<T>> {
    let request = bytes(request);
    for _ in 0..ATTEMPTS {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(&request, 0)?;
        let mut answer = Answer::default();
        while answer.take(&socket.recv_from_full()?.0, &mut read)? {}
        if !answer.is_interrupted {
            return Ok(answer.listing);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        format!("the list changed while it was read, {ATTEMPTS} times"),
    ))
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

/// The part of an answer that has come.
#[derive(Debug)]
struct Answer<T> {
    listing: Listing<T>,
    /// `NLM_F_DUMP_INTR`: the list has changed meanwhile.
    is_interrupted: bool,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self {
            listing: Listing {
                items: Vec::new(),
                unread: Vec::new(),
            },
            is_interrupted: false,
        }
    }
}

impl<T> Answer<T> {
    /// Takes the messages out of one datagram. Gives whether more is to come.
    fn take(
        &mut self,
        mut datagram: &[u8],
        read: &mut impl FnMut(RouteNetlinkMessage) -> Option<T>,
    ) -> io::Result<bool> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        while !datagram.is_empty() {
            let header = NetlinkBuffer::new_checked(datagram).map_err(invalid)?;
            self.is_interrupted |= header.flags() & NLM_F_DUMP_INTR != 0;
            let length = header.length() as usize;
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram);
            match message.map(|message| message.payload) {
                Ok(NetlinkPayload::InnerMessage(message)) => {
                    self.listing.items.extend(read(message));
                }
                Ok(NetlinkPayload::Done(_)) => return Ok(false),
                Ok(NetlinkPayload::Error(error)) if error.code.is_some() => {
                    return Err(error.to_io());
                }
                Ok(_) => {}
                // One that the library cannot read is no reason to know none.
                Err(error) => {
                    warn!(%error, "something that the kernel lists is not understood");
                    let message = datagram.get(..length).unwrap_or(datagram);
                    self.listing.unread.push(message.into());
                }
            }
            // Messages begin at multiples of 4 (netlink(7)).
            datagram = datagram
                .get(length.next_multiple_of(4)..)
                .unwrap_or_default();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};

    use super::*;

    fn taken(datagram: &[u8]) -> (io::Result<bool>, Answer<RouteNetlinkMessage>) {
        let mut answer = Answer::default();
        (answer.take(datagram, &mut Some), answer)
    }

    #[test]
    fn an_answer_that_is_cut_off_is_an_error_and_no_panic() {
        for bytes in [&[4, 0, 0, 0][..], &[0, 0, 0, 0, 0], &[255; 15]] {
            taken(bytes).0.unwrap_err();
        }
        assert!(taken(&[]).0.unwrap());
    }

    #[test]
    fn a_list_that_changed_meanwhile_is_told_by_its_flag() {
        let message = RouteNetlinkMessage::NewLink(LinkMessage::default());
        let whole = bytes(message);
        let (more, answer) = taken(&whole);
        assert!(more.unwrap() && !answer.is_interrupted);
        assert_eq!(answer.listing.items.len(), 1);
        let mut changed = whole.clone();
        changed[6..8].copy_from_slice(&NLM_F_DUMP_INTR.to_ne_bytes());
        assert!(taken(&[whole, changed].concat()).1.is_interrupted);
    }

    #[test]
    fn what_cannot_be_read_is_kept_and_the_next_one_is_read() {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::Mtu(1500));
        let whole = bytes(RouteNetlinkMessage::NewLink(link));
        // The attribute is longer than its message.
        let mut broken = whole.clone();
        broken[32] = 200;
        let (more, answer) = taken(&[broken.clone(), whole].concat());
        assert!(more.unwrap());
        assert_eq!(answer.listing.items.len(), 1);
        assert_eq!(answer.listing.unread, [broken.into()]);
    }
}
