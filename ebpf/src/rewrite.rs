//! Rewriting: one tuple for another, with the checksums that cover them.

use aya_ebpf::{
    bindings::{BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR},
    programs::TcContext,
};
use shunt_common::{TCP, Tuple};

use crate::{
    family::Family,
    frame::{Unreadable, at_mut},
    packet::{NETWORK_OFFSET, Packet, Ports, TCP_CHECKSUM_OFFSET, UDP_CHECKSUM_OFFSET},
};

/// Gives the packet the tuple `new`.
///
/// Addresses and ports are written in place. The transport checksum goes through the kernel's
/// helper, twice: it alone knows whether the field holds a whole checksum or, with
/// `CHECKSUM_PARTIAL`, only the pseudo header's part, which addresses change and ports do not; and
/// it keeps `skb->csum` of `CHECKSUM_COMPLETE` true. `Err` leaves a packet that must be dropped.
#[inline(always)]
pub fn rewrite<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), Unreadable> {
    let old = &packet.tuple;
    F::write(context, NETWORK_OFFSET, old, new)?;
    let ports = at_mut::<Ports>(context, packet.transport)?;
    ports.source = new.source_port;
    ports.destination = new.destination_port;

    let (checksum, flags) = if packet.protocol == TCP {
        (packet.transport + TCP_CHECKSUM_OFFSET, 0)
    } else {
        // A UDP checksum of 0 means "none" and stays 0 (RFC 768).
        (
            packet.transport + UDP_CHECKSUM_OFFSET,
            u64::from(BPF_F_MARK_MANGLED_0),
        )
    };
    let addresses = old.address_difference(new).to_wsum();
    context
        .l4_csum_replace(
            checksum,
            0,
            addresses.into(),
            flags | u64::from(BPF_F_PSEUDO_HDR),
        )
        .map_err(|_| Unreadable::Truncated)?;
    if old.has_ports_of(new) {
        return Ok(());
    }
    let ports = old.port_difference(new).to_wsum();
    context
        .l4_csum_replace(checksum, 0, ports.into(), flags)
        .map_err(|_| Unreadable::Truncated)
}
