//! Talking to netfilter (`linux/netfilter/nfnetlink.h`).

use std::{ffi::CStr, io};

use rtnetlink::{
    packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NlasIterator},
    sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER},
};

/// `NFNL_SUBSYS_NFTABLES` and `NFNL_SUBSYS_CTNETLINK`.
pub(super) const NFTABLES: u16 = 10;
pub(super) const CONNTRACK: u16 = 1;

/// `NLMSG_ERROR` and `NLMSG_DONE` of linux/netlink.h, and the bounds of a batch.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;

/// The length of a netlink header and of `struct nfgenmsg`.
const HEADER: usize = 16;
const FAMILY_HEADER: usize = 4;

/// Families of nftables' tables: `NFPROTO_INET`, `NFPROTO_IPV4` and `NFPROTO_IPV6` of linux/netfilter.h.
pub(super) const INET: u8 = 1;
pub(super) const V4: u8 = 2;
pub(super) const V6: u8 = 10;

/// Returns the family of a table as `nft` writes it.
pub(super) const fn family_name(family: u8) -> &'static str {
    match family {
        V4 => "ip",
        V6 => "ip6",
        _ => "inet",
    }
}

/// Family of a message, in `nfgenmsg`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// `NFPROTO_IPV4`.
    V4 = V4,
    /// `NFPROTO_IPV6`.
    V6 = V6,
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// As `nft` writes it.
    pub(super) const fn name(self) -> &'static str {
        family_name(self as u8)
    }
}

/// An attribute of a message: its type and its bytes.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = Vec::with_capacity(length.next_multiple_of(4));
    bytes.extend((length as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

/// An attribute with a text.
pub(super) fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}

/// The attributes in these bytes, as far as they can be read: type and value.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes)
        .map_while(Result::ok)
        .map(|attribute| {
            let value = attribute.into_inner();
            (attribute_kind(value), value)
        })
        .filter_map(|(kind, whole)| {
            let length = usize::from(u16::from_ne_bytes(whole.first_chunk().copied()?));
            Some((kind, whole.get(4..length)?))
        })
}

/// The type of the attribute that these bytes begin with, without its flags.
fn attribute_kind(whole: &[u8]) -> u16 {
    const TYPE: u16 = 0x3fff;
    match whole {
        [_, _, low, high, ..] => u16::from_ne_bytes([*low, *high]) & TYPE,
        _ => 0,
    }
}

/// The value of the first attribute of this type.
pub(super) fn value_of(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| value)
}

/// The text of the first attribute of this type.
pub(super) fn text_of(bytes: &[u8], wanted: u16) -> Option<String> {
    let text = CStr::from_bytes_until_nul(value_of(bytes, wanted)?).ok()?;
    Some(text.to_str().ok()?.to_owned())
}

fn message(kind: u16, flags: u16, family: u8, resource: u16, rest: &[u8]) -> Vec<u8> {
    let length = HEADER + FAMILY_HEADER + rest.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    // Sequence number and port: one request is under way at a time.
    bytes.extend([0; 8]);
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(rest);
    bytes
}

/// Asks for one thing; returns whether it is there.
///
/// # Errors
///
/// If the kernel does not answer.
pub(super) fn exists(subsystem: u16, request: u8, family: Family, rest: &[u8]) -> io::Result<bool> {
    let kind = subsystem << 8 | u16::from(request);
    let asked = message(kind, NLM_F_ACK, family as u8, 0, rest);
    match exchange(&asked, 1, |_| {}) {
        Ok(()) => Ok(true),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Asks for a list of a family, an `NFPROTO_` of linux/netfilter.h, each element of which `take` gets the attributes of.
/// Of what is not there the list is empty.
///
/// # Errors
///
/// If the kernel does not answer.
pub(super) fn list(
    subsystem: u16,
    request: u8,
    family: u8,
    rest: &[u8],
    take: impl FnMut(&[u8]),
) -> io::Result<()> {
    let kind = subsystem << 8 | u16::from(request);
    let asked = message(kind, NLM_F_DUMP, family, 0, rest);
    match exchange(&asked, 1, take) {
        Err(error) if is_absence(&error) => Ok(()),
        result => result,
    }
}

/// Has nftables do a thing, in a batch of its own.
///
/// # Errors
///
/// If it does not.
pub(super) fn command(request: u8, family: Family, rest: &[u8]) -> io::Result<()> {
    let bound = |kind| message(kind, 0, 0, NFTABLES, &[]);
    let kind = NFTABLES << 8 | u16::from(request);
    let asked = [
        bound(BATCH_BEGIN),
        message(kind, NLM_F_ACK, family as u8, 0, rest),
        bound(BATCH_END),
    ];
    exchange(&asked.concat(), 1, |_| {})
}

/// Returns whether the error means that a thing is not there, or a part of the kernel that would have it.
fn is_absence(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let Some(code) = error.raw_os_error() else {
        return false;
    };
    matches!(
        Errno::from_raw(code),
        Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT
    )
}

/// Sends messages, and hands `take` what is answered, until as many ends have come as are expected.
fn exchange(asked: &[u8], ends: usize, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let socket = Socket::new(NETLINK_NETFILTER)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(asked, 0)?;
    let mut ended = 0;
    while ended < ends {
        let (answer, _) = socket.recv_from_full()?;
        ended += read(&answer, &mut take)?;
    }
    Ok(())
}

/// Reads a datagram of answers. Returns how many ends are in it.
fn read(mut answer: &[u8], take: &mut impl FnMut(&[u8])) -> io::Result<usize> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut ended = 0;
    while !answer.is_empty() {
        let message = NetlinkBuffer::new_checked(answer).map_err(invalid)?;
        let payload = message.payload();
        match message.message_type() {
            DONE => ended += 1,
            ERROR => match payload.first_chunk().map(|code| i32::from_ne_bytes(*code)) {
                Some(0) => ended += 1,
                Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                None => return Err(io::ErrorKind::InvalidData.into()),
            },
            _ => take(payload.get(FAMILY_HEADER..).unwrap_or_default()),
        }
        let length = (message.length() as usize).next_multiple_of(4);
        answer = answer.get(length..).unwrap_or_default();
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let inner = [attribute(1, &[7]), text(2, "ab")].concat();
        let bytes = attribute(3 | 0x8000, &inner);
        let nested = value_of(&bytes, 3).unwrap();
        assert_eq!(nested.len(), inner.len());
        assert_eq!(value_of(nested, 1), Some(&[7][..]));
        assert_eq!(value_of(nested, 2), Some(&b"ab\0"[..]));
        assert_eq!(text_of(nested, 2).as_deref(), Some("ab"));
        assert_eq!(value_of(nested, 4), None);
        assert_eq!(text_of(nested, 1), None, "without an end");
    }

    #[test]
    fn what_is_cut_off_or_nonsense_is_an_end_or_an_error_and_no_panic() {
        for bytes in [&[][..], &[1], &[3, 0, 1, 0], &[255, 255, 1, 0, 0]] {
            assert_eq!(attributes(bytes).count(), 0, "{bytes:?}");
        }
        read(&[1, 2, 3], &mut |_| {}).unwrap_err();
        read(&[0; 16], &mut |_| {}).unwrap_err();
    }
}
