//! Asking the kernel for all there is of a kind, through rtnetlink.

use std::{cell::RefCell, io};

use rtnetlink::{
    packet_core::{
        NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_ECHO, NLM_F_REQUEST, NetlinkBuffer,
        NetlinkHeader, NetlinkMessage, NetlinkPayload,
    },
    packet_route::RouteNetlinkMessage,
    sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE},
};
use tracing::warn;

/// `NLMSG_MIN_TYPE` of `linux/netlink.h`: lower ones end an answer, or report an error.
const NLMSG_MIN_TYPE: u16 = 0x10;

/// The length of `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;

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
/// answer what is wanted. Begins again if the kernel reports that the list has changed meanwhile: something may be
/// missing in it (`NLM_F_DUMP_INTR`).
///
/// # Errors
///
/// If the kernel does not answer, or the list never stays as it is.
pub fn dump<T>(
    request: RouteNetlinkMessage,
    mut read: impl FnMut(RouteNetlinkMessage) -> Option<T>,
) -> io::Result<Listing<T>> {
    let read = |message| match read(message) {
        Some(item) => Found::Item(item),
        None => Found::Nothing,
    };
    ask(&bytes(request), false, |_| true, read)
}

/// As [`dump`], but the kernel leaves out what does not match `request` (`NETLINK_GET_STRICT_CHK`, Linux 4.20), those
/// messages are not read for which `is_wanted` is false, by their bytes with their header, and `read` may end it.
///
/// # Errors
///
/// As [`dump`].
pub(crate) fn dump_strictly<T>(
    request: RouteNetlinkMessage,
    is_wanted: impl Fn(&[u8]) -> bool,
    read: impl FnMut(RouteNetlinkMessage) -> Found<T>,
) -> io::Result<Listing<T>> {
    ask(&bytes(request), true, is_wanted, read)
}

/// As [`dump`], of objects that the library does not know. `kind` is the request's `RTM_` of `linux/rtnetlink.h`, and
/// `payload` follows its header. `take` gets each message of the answer, with its header; if the list has changed
/// meanwhile, it gets all of them again.
///
/// # Errors
///
/// As [`dump`].
pub(crate) fn dump_raw(kind: u16, payload: &[u8], take: impl FnMut(&[u8])) -> io::Result<()> {
    let length = HEADER + payload.len();
    let mut request = Vec::with_capacity(length);
    request.extend((length as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Sequence number and port: one request is under way at a time.
    request.extend([0; 8]);
    request.extend(payload);
    let take = RefCell::new(take);
    let is_wanted = |message: &[u8]| {
        take.borrow_mut()(message);
        false
    };
    ask(&request, false, is_wanted, |_| Found::<()>::Nothing).map(drop)
}

/// The kind of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<T> {
    /// One of those that are wanted.
    Item(T),
    /// None of them.
    Nothing,
    /// The first one behind all that are wanted.
    Behind,
}

fn ask<T>(
    request: &[u8],
    is_strict: bool,
    is_wanted: impl Fn(&[u8]) -> bool,
    mut read: impl FnMut(RouteNetlinkMessage) -> Found<T>,
) -> io::Result<Listing<T>> {
    for _ in 0..ATTEMPTS {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_netlink_get_strict_chk(is_strict)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(request, 0)?;
        let mut answer = Answer::default();
        while answer.take(&socket.recv_from_full()?.0, &is_wanted, &mut read)? {}
        if !answer.is_interrupted {
            return Ok(answer.listing);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        format!("the list changed while it was read, {ATTEMPTS} times"),
    ))
}

/// Asks for one object, in the calling thread's network namespace. Returns the kernel's answer.
///
/// # Errors
///
/// If there is no such object, or the answer cannot be read.
pub(crate) fn get(request: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // Of some objects the kernel answers only to everybody who listens, unless it is to echo that.
    socket.send(&message(request, NLM_F_ECHO | NLM_F_ACK), 0)?;
    loop {
        let answer = socket.recv_from_full()?.0;
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer);
        match message.map_err(io::Error::other)?.payload {
            NetlinkPayload::InnerMessage(message) => return Ok(message),
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            // Acknowledged without an answer.
            NetlinkPayload::Error(_) => return Err(io::Error::from_raw_os_error(libc::ENOENT)),
            _ => {}
        }
    }
}

fn bytes(request: RouteNetlinkMessage) -> Vec<u8> {
    message(request, NLM_F_DUMP)
}

fn message(request: RouteNetlinkMessage, flags: u16) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
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
    /// Takes the messages out of one datagram. Returns whether more is to come.
    fn take(
        &mut self,
        mut datagram: &[u8],
        is_wanted: &impl Fn(&[u8]) -> bool,
        read: &mut impl FnMut(RouteNetlinkMessage) -> Found<T>,
    ) -> io::Result<bool> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        while !datagram.is_empty() {
            let header = NetlinkBuffer::new_checked(datagram).map_err(invalid)?;
            self.is_interrupted |= header.flags() & NLM_F_DUMP_INTR != 0;
            let length = header.length() as usize;
            // Messages begin at multiples of 4 (netlink(7)).
            let (message, rest) = datagram
                .split_at_checked(length.next_multiple_of(4))
                .unwrap_or((datagram, &[]));
            let is_control = header.message_type() < NLMSG_MIN_TYPE;
            if !is_control && !is_wanted(message) {
                datagram = rest;
                continue;
            }
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram);
            match message.map(|message| message.payload) {
                Ok(NetlinkPayload::InnerMessage(message)) => match read(message) {
                    Found::Item(item) => self.listing.items.push(item),
                    Found::Nothing => {}
                    Found::Behind => return Ok(false),
                },
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
            datagram = rest;
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
        (answer.take(datagram, &|_| true, &mut Found::Item), answer)
    }

    #[test]
    fn only_what_is_wanted_is_read_and_nothing_behind_the_end() {
        let link = |mtu| {
            let mut link = LinkMessage::default();
            link.attributes.push(LinkAttribute::Mtu(mtu));
            bytes(RouteNetlinkMessage::NewLink(link))
        };
        let datagram: Vec<u8> = [1, 2, 3, 4, 5].into_iter().flat_map(link).collect();
        // The value is behind the header, 16 bytes of `struct ifinfomsg` and the attribute's header.
        let is_wanted = |message: &[u8]| message[36] != 2;
        let mut read = Vec::new();
        let mut answer = Answer::default();
        let is_more = answer.take(&datagram, &is_wanted, &mut |message| {
            let RouteNetlinkMessage::NewLink(link) = message else {
                panic!("{message:?}");
            };
            let LinkAttribute::Mtu(mtu) = link.attributes[0] else {
                panic!("{link:?}");
            };
            read.push(mtu);
            match mtu {
                4 => Found::Behind,
                3 => Found::Nothing,
                _ => Found::Item(mtu),
            }
        });
        assert!(!is_more.unwrap());
        assert_eq!((read, answer.listing.items), (vec![1, 3, 4], vec![1]));
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
