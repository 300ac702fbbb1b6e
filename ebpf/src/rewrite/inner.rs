//! ICMP errors about packets that were translated: their inner packet is what the reporter saw,
//! which its sender never sent.
//!
//! An error goes the way that a reply to the inner packet would go, so its connection is found as
//! that reply's is, and its addresses become what the reply's would. The inner packet gets the
//! same tuple, reversed. So path-MTU discovery works in both directions (RFC 5508 section 4).

use shunt_common::{SCTP, Sum, TCP, Tuple};

use crate::{
    ctx::access::{Access, AccessError},
    packet::{
        inner::IcmpHeader,
        parsed::Packet,
        segment::{Segment as _, TcpHeader, UdpHeader},
    },
    rewrite::{
        network::{HeaderMut as _, Rewrite, write_addresses},
        transport::write_ports,
    },
};

/// Makes the error one about the packet to which `new` is the reply, for whom that goes to.
///
/// Its reporter stays, unless the connection's packets in this direction get another source:
/// the receiver of the error knows no host behind that.
#[inline(always)]
pub(crate) fn rewrite_error<F: Rewrite>(
    context: &impl Access,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), AccessError> {
    let old = &packet.tuple;
    let inner = &packet.inner;
    let change = rewrite_inner(context, packet, &old.reversed(), &new.reversed())?;
    let checksum = packet.transport.get() + core::mem::offset_of!(IcmpHeader, checksum);
    context.adjust_checksum(checksum, change.fold(), false)?;

    let reported = Tuple {
        source: inner.reporter,
        ..*old
    };
    let mut report = *new;
    if old.source == new.source {
        report.source = inner.reporter;
    }
    let covering = F::ICMP_COVERS_ADDRESSES.then_some(checksum);
    write_addresses(context, packet.network.get(), &reported, &report, covering)
}

/// Gives the inner packet the tuple `new`. Returns what a sum over it changes by.
#[inline(always)]
fn rewrite_inner<F: Rewrite>(
    context: &impl Access,
    packet: &Packet<F>,
    old: &Tuple<F>,
    new: &Tuple<F>,
) -> Result<Sum, AccessError> {
    let inner = &packet.inner;
    let addresses = old.address_difference(new);
    context
        .at_mut::<F::Header>(inner.network.get())?
        .set_addresses(new, addresses.fold());
    write_ports(context, inner.transport.get(), new)?;
    let covered = addresses.and(old.port_difference(new));
    let mut change = old.port_difference(new);
    if !F::HAS_HEADER_CHECKSUM {
        change = covered;
    }

    // An error need not hold more than eight bytes of the transport header, and a checksum that
    // its sender's hardware was to fill in means nothing: it is kept true if it was.
    let offset = match packet.protocol {
        TCP => TcpHeader::CHECKSUM_OFFSET,
        // The CRC of a whole packet, of which a part is here: no host can check it.
        SCTP => return Ok(change),
        _ => UdpHeader::CHECKSUM_OFFSET,
    };
    let offset = inner.transport.get() + offset;
    if offset + size_of::<u16>() > packet.end as usize {
        return Ok(change);
    }
    let Ok(checksum) = context.at_mut::<u16>(offset) else {
        return Ok(change);
    };
    let was = *checksum;
    if was == 0 && packet.protocol != TCP {
        return Ok(change);
    }
    *checksum = covered.apply(was);
    if *checksum == 0 && packet.protocol != TCP {
        // 0 would mean that there is none (RFC 768).
        *checksum = !0;
    }
    Ok(change.replace(was.into(), (*checksum).into()))
}
