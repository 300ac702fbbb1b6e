//! The headers of packets in the form that nearly all have: whole TCP segments and UDP datagrams
//! without IP options or extension headers. They are where the compiler knows them to be.

use crate::{
    ctx::access::Access,
    packet::{
        family::{Family, Header as _},
        link::Link,
    },
};

/// A packet's headers.
#[repr(C)]
pub(crate) struct Headers<N, T> {
    pub(crate) network: N,
    pub(crate) transport: T,
}

/// The transport protocol of a packet in that form, by its network header.
#[inline(always)]
pub(crate) fn protocol<F: Family>(context: &impl Access, link: Link) -> Option<u8> {
    context
        .at::<F::Header>(link.header_length())
        .ok()?
        .protocol_of_whole()
}

/// The headers of a packet whose transport header is a `T`; `None` if they are not all there.
#[inline(always)]
pub(crate) fn headers<F: Family, T>(
    context: &impl Access,
    link: Link,
) -> Option<&mut Headers<F::Header, T>> {
    let begin = link.header_length();
    let headers = context.at_mut::<Headers<F::Header, T>>(begin).ok()?;
    // What a frame has behind its packet's end is no header.
    let length = headers.network.packet_length();
    if length < size_of::<Headers<F::Header, T>>() || begin + length > context.length() as usize {
        return None;
    }
    Some(headers)
}
