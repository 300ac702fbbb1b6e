//! Rewriting: one tuple for another, with the checksums that cover them.

use aya_ebpf::{
    bindings::{BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR},
    helpers::bpf_csum_update,
    programs::TcContext,
};
use shunt_common::{SCTP, Sum, TCP, Tuple, crc32c};

use crate::{
    family::Family,
    frame::{Offset, Unreadable, at, at_mut},
    packet::{Form, Packet},
    quote,
    transport::{Ports, SCTP_CHECKSUM_OFFSET, TCP_CHECKSUM_OFFSET, UDP_CHECKSUM_OFFSET},
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
        Form::LaterFragment => write_addresses(context, packet, &packet.tuple, new, None),
        Form::Whole | Form::FirstFragment => match packet.protocol {
            SCTP => rewrite_sctp(context, packet, new),
            _ => {
                let checksum = if packet.protocol == TCP {
                    (packet.transport.get() + TCP_CHECKSUM_OFFSET, 0)
                } else {
                    let offset = packet.transport.get() + UDP_CHECKSUM_OFFSET;
                    (offset, u64::from(BPF_F_MARK_MANGLED_0))
                };
                rewrite_with_sum(context, packet, new, checksum)
            }
        },
    }
}

/// TCP and UDP, whose checksum covers addresses and ports: where it is, and flags for it.
#[inline(always)]
fn rewrite_with_sum<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    new: &Tuple<F>,
    checksum: (usize, u64),
) -> Result<(), Unreadable> {
    let old = &packet.tuple;
    write_ports(context, packet.transport, new)?;
    let (offset, flags) = checksum;
    // A UDP checksum of 0 means "none" and stays 0 (RFC 768). The kernel's helper would leave the
    // sum over the frame alone too, which the ports are in.
    if flags != 0 && *at::<u16>(context, offset)? == 0 {
        account(context, old.port_difference(new));
        return write_addresses(context, packet, old, new, None);
    }
    write_addresses(context, packet, old, new, Some(checksum))?;
    if old.has_ports_of(new) {
        return Ok(());
    }
    adjust(context, offset, old.port_difference(new), flags)
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
        write_ports(context, packet.transport, new)?;
        let checksum = at_mut::<u32>(context, packet.transport.get() + SCTP_CHECKSUM_OFFSET)?;
        let mut change = old.port_difference(new);
        if *checksum != 0 {
            change = change.replace(*checksum, *checksum ^ difference);
            *checksum ^= difference;
        }
        account(context, change);
    }
    write_addresses(context, packet, old, new, None)
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
    transport: Offset,
    new: &Tuple<F>,
) -> Result<(), Unreadable> {
    let ports = at_mut::<Ports>(context, transport.get())?;
    ports.source = new.source_port;
    ports.destination = new.destination_port;
    Ok(())
}

/// Writes the addresses of `new` into the packet's network header in place of those of `old`, and
/// keeps the checksum of what follows it true, if one covers them.
///
/// That goes through the kernel's helper: it alone knows whether the field holds a whole checksum
/// or, with `CHECKSUM_PARTIAL`, only the pseudo header's part, which addresses change and ports do
/// not; and it keeps `skb->csum` of `CHECKSUM_COMPLETE` true.
#[inline(always)]
pub fn write_addresses<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    old: &Tuple<F>,
    new: &Tuple<F>,
    covering: Option<(usize, u64)>,
) -> Result<(), Unreadable> {
    F::write(context, packet.network.get(), old, new)?;
    let change = old.address_difference(new);
    if let Some((offset, flags)) = covering {
        adjust(context, offset, change, flags | u64::from(BPF_F_PSEUDO_HDR))?;
    }
    // The helper takes it that the header that holds the addresses has a checksum of its own, so
    // that the frame's sum changes with the field (inet_proto_csum_replace_by_diff() in
    // net/core/utils.c).
    if !F::HAS_HEADER_CHECKSUM {
        account(context, change);
    }
    Ok(())
}

/// Changes the checksum at `offset` by what is covered by it having changed.
#[inline(always)]
pub fn adjust(
    context: &TcContext,
    offset: usize,
    change: Sum,
    flags: u64,
) -> Result<(), Unreadable> {
    context
        .l4_csum_replace(offset, 0, change.to_wsum().into(), flags)
        .map_err(|_| Unreadable::Truncated)
}

/// Tells the kernel that the sum over the frame has changed, if it has one from the hardware
/// (`CHECKSUM_COMPLETE`).
#[inline(always)]
pub fn account(context: &TcContext, change: Sum) {
    // SAFETY: the context is the kernel's. The helper fails where there is no such sum.
    let _ = unsafe { bpf_csum_update(context.skb.skb, change.to_wsum()) };
}
