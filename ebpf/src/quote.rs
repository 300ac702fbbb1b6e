//! ICMP errors about packets that were translated: they quote what the reporter saw, which its
//! sender never sent.
//!
//! An error goes the way that an answer to the quoted packet would go, so its connection is found
//! as that answer's is, and its addresses become what the answer's would. The quoted packet gets
//! the same tuple, reversed. So path-MTU discovery works in both directions (RFC 5508 section 4).

use aya_ebpf::programs::TcContext;
use shunt_common::{SCTP, Sum, TCP, Tuple};

use crate::{
    family::{Family, Header as _, Network, Part},
    frame::{Offset, Unreadable, at, at_mut},
    icmp::IcmpHeader,
    packet::{Form, Packet},
    rewrite::{adjust, write_addresses, write_ports},
    transport::{self, Ports, Segment as _, TcpHeader, UdpHeader},
};

/// Where an error quotes a packet.
#[repr(C)]
pub struct Quote<F: shunt_common::Family> {
    /// Who reports the error.
    reporter: F::Address,
    /// Where the quoted network header begins.
    network: Offset,
    /// Where the quoted transport header begins.
    transport: Offset,
}

/// Reads the error that follows the network header of `packet`.
#[inline(always)]
pub fn read<F: Family>(
    context: &TcContext,
    network: &Network<'_, F>,
    packet: &mut Packet<F>,
) -> Result<(), Unreadable> {
    let icmp = at::<IcmpHeader>(context, network.transport)?;
    if !F::is_error(icmp.kind) {
        return Err(Unreadable::Foreign);
    }
    let offset = network.transport + size_of::<IcmpHeader>();
    let quoted = F::read(context, offset)?;
    if quoted.part == Part::Later
        || !transport::is_translated(quoted.protocol)
        || quoted.source != network.destination
    {
        return Err(Unreadable::Foreign);
    }
    let ports = at::<Ports>(context, quoted.transport)?;
    if quoted.transport + size_of::<Ports>() > network.end {
        return Err(Unreadable::Truncated);
    }
    packet.form = Form::Error;
    packet.quote.reporter = *network.source;
    packet.quote.network = Offset::new(offset);
    packet.quote.transport = Offset::new(quoted.transport);
    packet.tuple.source = *quoted.destination;
    packet.tuple.destination = *quoted.source;
    packet.tuple.source_port = ports.destination;
    packet.tuple.destination_port = ports.source;
    packet.protocol = quoted.protocol;
    packet.least_length = size_of::<IcmpHeader>() as u16;
    packet.payload = Offset::new(offset);
    Ok(())
}

/// Sends the error as one about the packet that the tuple `new` answers, to whom that goes.
///
/// Its reporter stays, unless the connection's packets in this direction get another source:
/// whoever gets the error knows nobody behind that.
#[inline(always)]
pub fn rewrite<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), Unreadable> {
    let old = &packet.tuple;
    let quote = &packet.quote;
    let change = rewrite_quoted(context, packet, &old.reversed(), &new.reversed())?;
    let checksum = packet.transport.get() + core::mem::offset_of!(IcmpHeader, checksum);
    adjust(context, checksum, change.fold(), 0)?;

    let reported = Tuple {
        source: quote.reporter,
        ..*old
    };
    let mut report = *new;
    if old.source == new.source {
        report.source = quote.reporter;
    }
    let covering = F::ICMP_COVERS_ADDRESSES.then_some((checksum, 0));
    write_addresses(context, packet.network.get(), &reported, &report, covering)
}

/// Gives the quoted packet the tuple `new`. Gives what a sum over it changes by.
#[inline(always)]
fn rewrite_quoted<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    old: &Tuple<F>,
    new: &Tuple<F>,
) -> Result<Sum, Unreadable> {
    let quote = &packet.quote;
    let addresses = old.address_difference(new);
    at_mut::<F::Header>(context, quote.network.get())?.write(new, addresses.fold());
    write_ports(context, quote.transport.get(), new)?;
    let covered = addresses.and(old.port_difference(new));
    let mut change = old.port_difference(new);
    if !F::HAS_HEADER_CHECKSUM {
        change = covered;
    }

    // An error need not quote more than eight bytes of the transport header, and a checksum that
    // its sender's hardware was to fill in means nothing: it is kept true if it was.
    let offset = match packet.protocol {
        TCP => TcpHeader::CHECKSUM_OFFSET,
        // The CRC of a whole packet, of which a part is here: nobody can look at it.
        SCTP => return Ok(change),
        _ => UdpHeader::CHECKSUM_OFFSET,
    };
    let offset = quote.transport.get() + offset;
    if offset + size_of::<u16>() > packet.end as usize {
        return Ok(change);
    }
    let Ok(checksum) = at_mut::<u16>(context, offset) else {
        return Ok(change);
    };
    let was = *checksum;
    if was == 0 && packet.protocol != TCP {
        return Ok(change);
    }
    *checksum = covered.apply(was);
    if *checksum == 0 && packet.protocol != TCP {
        // Which would say that there is none (RFC 768).
        *checksum = !0;
    }
    Ok(change.replace(was.into(), (*checksum).into()))
}
