//! Messages of `NETLINK_SOCK_DIAG` about sockets of IPv4 and IPv6: `linux/sock_diag.h`,
//! `linux/inet_diag.h`, sock_diag(7).

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd as _, BorrowedFd},
};

use bytemuck::{Pod, Zeroable};
use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkBuffer, NetlinkHeader, NlaBuffer, NlasIterator,
};
use nix::errno::Errno;
use shunt_common::socket::Connected;

/// Message types: ask for sockets, and destroy one (Linux 4.5, `CONFIG_INET_DIAG_DESTROY`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;

/// Attributes with socket storage (Linux 5.7): of a request, `INET_DIAG_REQ_SK_BPF_STORAGES` with one
/// `SK_DIAG_BPF_STORAGE_REQ_MAP_FD` a table; of a socket, `INET_DIAG_SK_BPF_STORAGES` with one
/// `SK_DIAG_BPF_STORAGE` a table in which it has a value, and the value there as
/// `SK_DIAG_BPF_STORAGE_MAP_VALUE`. The kernel fills them for TCP sockets alone
/// (`inet_sk_diag_fill` in `net/ipv4/inet_diag.c`; UDP has `inet_diag_msg_attrs_fill`).
const REQUEST_STORAGES: u16 = 2;
const REQUEST_STORAGE: u16 = 1;
const STORAGES: u16 = 20;
const STORAGE: u16 = 1;
const STORAGE_VALUE: u16 = 3;

/// The attribute with the number of a socket's cgroup, `INET_DIAG_CGROUP_ID` (Linux 5.9).
const CGROUP: u16 = 21;

/// Messages begin at multiples of 4 bytes (`NLMSG_ALIGNTO`).
const ALIGNMENT: usize = 4;

/// `sizeof(struct nlmsghdr)`.
const HEADER: usize = 16;

/// `struct inet_diag_sockid`: which socket, as the kernel names it and wants it to be named.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct SocketId {
    /// Network order, as all but the last two fields.
    source_port: u16,
    destination_port: u16,
    /// An IPv4 address has the first four bytes.
    source: [u8; 16],
    destination: [u8; 16],
    interface: u32,
    pub(super) cookie: [u32; 2],
}

const _: () = assert!(size_of::<SocketId>() == 48);

impl SocketId {
    /// The number that no other socket of the machine ever had.
    pub(crate) const fn cookie(&self) -> u64 {
        let [low, high] = self.cookie;
        low as u64 | (high as u64) << 32
    }
}

/// `struct inet_diag_req_v2`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Request {
    family: u8,
    protocol: u8,
    extensions: u8,
    padding: u8,
    states: u32,
    id: SocketId,
}

const _: () = assert!(size_of::<Request>() == 56);

/// `struct inet_diag_msg`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Reply {
    family: u8,
    state: u8,
    timer: u8,
    retransmissions: u8,
    id: SocketId,
    expires: u32,
    receive_queue: u32,
    write_queue: u32,
    user: u32,
    inode: u32,
}

const _: () = assert!(size_of::<Reply>() == 72);

/// Kind of sockets that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `AF_INET` or `AF_INET6`. An IPv6 socket that speaks IPv4 is one of the latter.
    pub(crate) family: u8,
    /// `IPPROTO_UDP` or `IPPROTO_TCP`.
    pub(crate) protocol: u8,
}

/// The sockets of a protocol, IPv4 and IPv6.
pub(crate) fn kinds(protocol: i32) -> [Kind; 2] {
    [libc::AF_INET, libc::AF_INET6].map(|family| Kind {
        family: family as u8,
        protocol: protocol as u8,
    })
}

/// A socket that the kernel has listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Socket {
    /// Its name in requests to the kernel.
    pub(crate) id: SocketId,
    /// Address that it is connected to. That of an IPv6 socket that speaks IPv4 is an IPv4 address.
    pub(crate) peer: SocketAddr,
    /// The lower half of its inode's number.
    pub(crate) inode: u32,
    /// The number of its cgroup (version 2), if the kernel returns it.
    pub(crate) cgroup: Option<u64>,
    /// Its values in the tables that the request names.
    pub(crate) storages: Vec<Connected>,
}

/// Answer of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A socket that was asked for.
    Socket(Socket),
    /// There are no more, or something went wrong on the way.
    Done(Result<(), Errno>),
    /// Outcome of the request with this sequence number.
    Outcome(u32, Result<(), Errno>),
    /// A message that was not asked for.
    Other,
}

/// The answer has not the form that the kernel gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's answer about sockets cannot be understood")]
pub(crate) struct Malformed;

/// Returns the request for all sockets of a kind that are in one of `states` (bits `1 << TCP_ESTABLISHED`
/// and so on). TCP sockets come with their values in `tables` of kind `SkStorage`, which are [`Connected`].
pub(crate) fn dump_request(
    kind: Kind,
    states: u32,
    tables: &[BorrowedFd<'_>],
    sequence: u32,
) -> Vec<u8> {
    let mut request = request(kind, states, SocketId::zeroed());
    // Without a table in it, the attribute requests all tables of the machine.
    if !tables.is_empty() {
        let tables = tables.iter().map(|table| {
            let descriptor = table.as_raw_fd().to_ne_bytes();
            DefaultNla::new(REQUEST_STORAGE, descriptor.to_vec())
        });
        let tables: Vec<DefaultNla> = tables.collect();
        let storages = DefaultNla::new(REQUEST_STORAGES, emitted(&tables.as_slice()));
        request.extend(emitted(&storages));
    }
    message(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, sequence, &request)
}

/// Asks to destroy a socket, which is to be answered in any case.
pub(crate) fn destroy_request(kind: Kind, id: SocketId, sequence: u32) -> Vec<u8> {
    message(SOCK_DESTROY, NLM_F_ACK, sequence, &request(kind, 0, id))
}

fn request(kind: Kind, states: u32, id: SocketId) -> Vec<u8> {
    let Kind { family, protocol } = kind;
    let request = Request {
        family,
        protocol,
        extensions: 0,
        padding: 0,
        states,
        id,
    };
    bytemuck::bytes_of(&request).to_vec()
}

fn emitted(part: &impl Emitable) -> Vec<u8> {
    let mut bytes = vec![0; part.buffer_len()];
    part.emit(&mut bytes);
    bytes
}

fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.length = (HEADER + payload.len()) as u32;
    header.message_type = kind;
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = sequence;
    let mut message = emitted(&header);
    message.extend(payload);
    message
}

/// The answers in what was received at once. After one that is malformed there is none.
pub(crate) fn answers(received: &[u8]) -> impl Iterator<Item = Result<Answer, Malformed>> {
    let mut rest = received;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Ok(message) = NetlinkBuffer::new_checked(rest) else {
            rest = &[];
            return Some(Err(Malformed));
        };
        let next = (message.length() as usize).next_multiple_of(ALIGNMENT);
        rest = rest.get(next..).unwrap_or_default();
        Some(answer(&message))
    })
}

fn answer(message: &NetlinkBuffer<&[u8]>) -> Result<Answer, Malformed> {
    let payload = message.payload();
    Ok(match message.message_type() {
        SOCK_DIAG_BY_FAMILY => {
            let (reply, attributes) = payload
                .split_at_checked(size_of::<Reply>())
                .ok_or(Malformed)?;
            let Reply {
                family, id, inode, ..
            } = bytemuck::pod_read_unaligned(reply);
            Answer::Socket(Socket {
                id,
                peer: peer(family, &id)?,
                inode,
                cgroup: cgroup(attributes)?,
                storages: storages(attributes)?,
            })
        }
        NLMSG_DONE => Answer::Done(outcome(payload)?),
        NLMSG_ERROR => Answer::Outcome(message.sequence_number(), outcome(payload)?),
        _ => Answer::Other,
    })
}

/// The values of socket storage in a socket's attributes.
fn storages(attributes: &[u8]) -> Result<Vec<Connected>, Malformed> {
    let mut found = Vec::new();
    for storages in of_kind(attributes, STORAGES) {
        for storage in of_kind(storages?.value(), STORAGE) {
            for value in of_kind(storage?.value(), STORAGE_VALUE) {
                let value = bytemuck::try_pod_read_unaligned(value?.value());
                found.push(value.map_err(|_| Malformed)?);
            }
        }
    }
    Ok(found)
}

/// Returns the number of the cgroup in a socket's attributes.
fn cgroup(attributes: &[u8]) -> Result<Option<u64>, Malformed> {
    let Some(attribute) = of_kind(attributes, CGROUP).next() else {
        return Ok(None);
    };
    let number = attribute?.value().try_into().map_err(|_| Malformed)?;
    Ok(Some(u64::from_ne_bytes(number)))
}

/// The attributes of a kind. After one that is malformed there is none.
fn of_kind(
    attributes: &[u8],
    kind: u16,
) -> impl Iterator<Item = Result<NlaBuffer<&[u8]>, Malformed>> {
    NlasIterator::new(attributes)
        .map(|attribute| attribute.map_err(|_| Malformed))
        .filter(move |attribute| !matches!(attribute, Ok(other) if other.kind() != kind))
}

/// Returns the result that a negative errno stands for, with which both an error and the end of a dump begin.
fn outcome(payload: &[u8]) -> Result<Result<(), Errno>, Malformed> {
    let code = payload.first_chunk().ok_or(Malformed)?;
    Ok(match i32::from_ne_bytes(*code) {
        0 => Ok(()),
        code => Err(Errno::from_raw(code.wrapping_neg())),
    })
}

fn peer(family: u8, id: &SocketId) -> Result<SocketAddr, Malformed> {
    let [a, b, c, d, ..] = id.destination;
    let address = match i32::from(family) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        libc::AF_INET6 => Ipv6Addr::from(id.destination).to_canonical(),
        _ => return Err(Malformed),
    };
    Ok(SocketAddr::new(address, u16::from_be(id.destination_port)))
}

#[cfg(test)]
mod tests;
