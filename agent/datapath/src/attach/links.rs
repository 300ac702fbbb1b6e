//! The interfaces that there are, as the kernel lists them.

use std::io;

use rtnetlink::{
    packet_core::{
        NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    },
    packet_route::{
        RouteNetlinkMessage,
        link::{InfoKind, InfoPortKind, LinkAttribute, LinkExtentMask, LinkInfo, LinkMessage},
    },
    sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE},
};
use tracing::warn;

/// An interface of our network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Its link type, an `ARPHRD_` of `linux/if_arp.h`.
    pub(crate) layer: u16,
    /// Which kind of virtual interface it is; `None` of a real one.
    pub(crate) kind: Option<InfoKind>,
    /// The index of the interface that it is a port of.
    pub(crate) controller: Option<u32>,
    /// Which kind of interface that is.
    pub(crate) port: Option<InfoPortKind>,
}

/// Every interface of the calling thread's network namespace.
///
/// # Errors
///
/// If the kernel does not list them.
pub(crate) fn list() -> io::Result<Vec<Link>> {
    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(), 0)?;
    let mut links = Vec::new();
    loop {
        let (answer, _) = socket.recv_from_full()?;
        if !take(&answer, &mut links)? {
            return Ok(links);
        }
    }
}

fn request() -> Vec<u8> {
    let mut request = LinkMessage::default();
    // Counters are the most of an answer, and nobody looks at them.
    request
        .attributes
        .push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let payload = NetlinkPayload::from(RouteNetlinkMessage::GetLink(request));
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Takes the interfaces out of one datagram of the answer. Gives whether more is to come.
fn take(mut answer: &[u8], links: &mut Vec<Link>) -> io::Result<bool> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    while !answer.is_empty() {
        let length = NetlinkBuffer::new_checked(answer)
            .map_err(invalid)?
            .length();
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(answer);
        match message.map(|message| message.payload) {
            Ok(NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link))) => {
                links.extend(Link::of(link));
            }
            Ok(NetlinkPayload::Done(_)) => return Ok(false),
            Ok(NetlinkPayload::Error(error)) if error.code.is_some() => return Err(error.to_io()),
            Ok(_) => {}
            // One that the library cannot read is no reason to know none.
            Err(error) => warn!(%error, "an interface is not understood"),
        }
        // Messages begin at multiples of 4 (netlink(7)).
        let length = (length as usize).next_multiple_of(4);
        answer = answer.get(length..).unwrap_or_default();
    }
    Ok(true)
}

impl Link {
    fn of(message: LinkMessage) -> Option<Self> {
        let mut name = None;
        let (mut kind, mut controller, mut port) = (None, None, None);
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = Some(text),
                LinkAttribute::Controller(index) => controller = Some(index),
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        match info {
                            LinkInfo::Kind(of) => kind = Some(of),
                            LinkInfo::PortKind(of) => port = Some(of),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Some(Self {
            index: message.header.index,
            name: name?,
            layer: message.header.link_layer_type.into(),
            kind,
            controller,
            port,
        })
    }
}

#[cfg(test)]
mod tests {
    use libc::ARPHRD_LOOPBACK;

    use super::*;

    #[test]
    fn the_loopback_interface_is_listed() {
        let links = list().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!((lo.index, lo.layer), (1, ARPHRD_LOOPBACK));
        assert_eq!((&lo.kind, lo.controller), (&None, None));
    }

    #[test]
    fn an_answer_that_is_cut_off_is_an_error_and_no_panic() {
        for bytes in [&[4, 0, 0, 0][..], &[0, 0, 0, 0, 0], &[255; 15]] {
            take(bytes, &mut Vec::new()).unwrap_err();
        }
        assert!(take(&[], &mut Vec::new()).unwrap());
    }
}
