//! Rewriting: one tuple for another, with the checksums that cover them.

use aya_ebpf::{
    bindings::{BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR},
    helpers::bpf_csum_update,
    programs::TcContext,
};
use shunt_common::{Folded, SCTP, TCP, Tuple, crc32c};

use crate::{
    family::{Family, Header as _},
    frame::{Unreadable, at_mut},
    packet::{Form, Packet},
    quote,
    transport::{Ports, SCTP_CHECKSUM_OFFSET, Segment, TcpHeader, UdpHeader},
};

/// Gives the packet the tuple `new`. `Err` leaves a packet that must be dropped.
#[inline(always)]
pub fn rewrite<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), Unreadable> {
    if F::rewrite(context, packet, new) {
        Ok(())
    } else {
        Err(Unreadable::Foreign)
    }
}

/// What [`rewrite`] does.
#[inline(always)]
pub fn rewrite_here<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), Unreadable> {
    match packet.form {
        Form::Error => quote::rewrite(context, packet, new),
        Form::LaterFragment => {
            write_addresses(context, packet.network.get(), &packet.tuple, new, None)
        }
        Form::Whole | Form::FirstFragment => match packet.protocol {
            SCTP => rewrite_sctp(context, packet, new),
            TCP => rewrite_segment::<F, TcpHeader>(context, packet, new),
            _ => rewrite_segment::<F, UdpHeader>(context, packet, new),
        },
    }
}

#[inline(always)]
fn rewrite_segment<F: Family, T: Segment>(
    context: &TcContext,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), Unreadable> {
    let old = &packet.tuple;
    let addresses = old.address_difference(new).fold();
    let offset = packet.transport.get();
    at_mut::<F::Header>(context, packet.network.get())?.write(new, addresses);
    let segment = at_mut::<T>(context, offset)?;
    *segment.ports() = Ports::of(new);
    let was = segment.checksum();
    let ports = old.port_difference(new).fold();
    follow::<F, T>(context, offset, was, addresses, ports)
}

/// Has the checksum of the segment at `offset`, which was `was`, follow a change of the addresses
/// and one of the ports, which have been written. `Err` leaves a packet that must be dropped.
///
/// The kernel's helper alone knows whether the field holds a whole checksum or, with
/// `CHECKSUM_PARTIAL`, only the pseudo header's part, which addresses change and ports do not; and
/// it keeps `skb->csum` of `CHECKSUM_COMPLETE` true.
#[inline(always)]
pub fn follow<F: Family, T: Segment>(
    context: &TcContext,
    offset: usize,
    was: u16,
    addresses: Folded,
    ports: Folded,
) -> Result<(), Unreadable> {
    // 0 stays 0 (RFC 768). The helper would leave the sum over the frame alone too, which the
    // ports are in.
    if T::ZERO_IS_NONE && was == 0 {
        account(context, ports);
        account_addresses::<F>(context, addresses);
        return Ok(());
    }
    let offset = offset + T::CHECKSUM_OFFSET;
    let flags = if T::ZERO_IS_NONE {
        u64::from(BPF_F_MARK_MANGLED_0)
    } else {
        0
    };
    let covered = flags | u64::from(BPF_F_PSEUDO_HDR);
    adjust(context, offset, addresses, covered)?;
    // What the helper did tells what the field holds: a checksum went down by the addresses'
    // difference, the pseudo header's part went up. A checksum covers the ports too, and has their
    // difference at once, which saves a second call of the helper.
    let checksum = at_mut::<u16>(context, offset)?;
    let whole = addresses.apply(was);
    if *checksum == whole && !addresses.is_zero() {
        let new = ports.apply(whole);
        // 0 would say that there is none.
        *checksum = if T::ZERO_IS_NONE && new == 0 { !0 } else { new };
    } else if *checksum == addresses.add_to(was) && !addresses.is_zero() {
        return Ok(());
    } else {
        adjust(context, offset, ports, flags)?;
    }
    account_addresses::<F>(context, addresses);
    Ok(())
}

/// SCTP, whose CRC covers ports, but no addresses. It is 0 while it is still to be filled in, by
/// the interface that the packet leaves by, and then stays so.
#[inline(always)]
fn rewrite_sctp<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), Unreadable> {
    let old = &packet.tuple;
    if !old.has_ports_of(new) {
        // The length is needed, which a fragment does not tell.
        let Form::Whole = packet.form else {
            return Err(Unreadable::Foreign);
        };
        let difference = old.port_word() ^ new.port_word();
        let difference = crc_difference(difference, packet.end - packet.transport.get() as u32);
        write_ports(context, packet.transport.get(), new)?;
        let checksum = at_mut::<u32>(context, packet.transport.get() + SCTP_CHECKSUM_OFFSET)?;
        let mut change = old.port_difference(new);
        if *checksum != 0 {
            change = change.replace(*checksum, *checksum ^ difference);
            *checksum ^= difference;
        }
        account(context, change.fold());
    }
    write_addresses(context, packet.network.get(), old, new, None)
}

/// [`crc32c::difference`] as a function of the kernel's ([`crate::functions`]): its loops are long.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn crc_difference(difference: u32, length: u32) -> u32 {
    crc32c::difference(difference, length)
}

/// Writes the ports of `new` into the transport header there.
#[inline(always)]
pub fn write_ports<F: Family>(
    context: &TcContext,
    transport: usize,
    new: &Tuple<F>,
) -> Result<(), Unreadable> {
    *at_mut::<Ports>(context, transport)? = Ports::of(new);
    Ok(())
}

/// Writes the addresses of `new` into the network header there in place of those of `old`, and
/// keeps the checksum of what follows it true, if one covers them.
#[inline(always)]
pub fn write_addresses<F: Family>(
    context: &TcContext,
    network: usize,
    old: &Tuple<F>,
    new: &Tuple<F>,
    covering: Option<(usize, u64)>,
) -> Result<(), Unreadable> {
    let change = old.address_difference(new).fold();
    at_mut::<F::Header>(context, network)?.write(new, change);
    if let Some((offset, flags)) = covering {
        adjust(context, offset, change, flags | u64::from(BPF_F_PSEUDO_HDR))?;
    }
    account_addresses::<F>(context, change);
    Ok(())
}

/// Tells the kernel that the addresses have changed. Its helper takes it that the header that holds
/// them has a checksum of its own, so that the frame's sum changes with the field alone
/// (inet_proto_csum_replace_by_diff() in net/core/utils.c).
#[inline(always)]
fn account_addresses<F: Family>(context: &TcContext, change: Folded) {
    if !F::HAS_HEADER_CHECKSUM {
        account(context, change);
    }
}

/// Changes the checksum at `offset` by what is covered by it having changed.
#[inline(always)]
pub fn adjust(
    context: &TcContext,
    offset: usize,
    change: Folded,
    flags: u64,
) -> Result<(), Unreadable> {
    context
        .l4_csum_replace(offset, 0, change.to_wsum().into(), flags)
        .map_err(|_| Unreadable::Truncated)
}

/// Tells the kernel that the sum over the frame has changed, if it has one from the hardware
/// (`CHECKSUM_COMPLETE`).
#[inline(always)]
pub fn account(context: &TcContext, change: Folded) {
    // SAFETY: the context is the kernel's. The helper fails where there is no such sum.
    let _ = unsafe { bpf_csum_update(context.skb.skb, change.to_wsum()) };
}
