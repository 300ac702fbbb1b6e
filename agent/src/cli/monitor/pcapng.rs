//! Packets as a capture file (draft-ietf-opsawg-pcapng), which Wireshark and tcpdump read.

use std::io::{self, Write};

use shunt_api::view::{FlowEvent, FlowPacket};

/// Types of blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Number by which a reader knows the order of bytes.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Link types (draft-ietf-opsawg-pcaplinktype): with an Ethernet header, and from the IP header on.
const ETHERNET: u16 = 1;
const RAW: u16 = 101;
/// The interfaces of the file stand for the two.
const LINK_TYPES: [u16; 2] = [ETHERNET, RAW];
/// Maximum number of bytes of a packet in the file.
const SNAP_LENGTH: u32 = 128;
/// Options.
const COMMENT: u16 = 1;
const TIMESTAMP_RESOLUTION: u16 = 9;
/// Times are in nanoseconds.
const NANOSECONDS: u8 = 9;

/// Writes what such a file begins with.
pub(super) fn begin(out: &mut impl Write) -> io::Result<()> {
    let mut section = Vec::new();
    section.extend(BYTE_ORDER_MAGIC.to_le_bytes());
    // Version 1.0; the section's length is not known.
    section.extend(1_u16.to_le_bytes());
    section.extend(0_u16.to_le_bytes());
    section.extend(u64::MAX.to_le_bytes());
    block(SECTION_HEADER, &section, out)?;
    for link_type in LINK_TYPES {
        let mut interface = Vec::new();
        interface.extend(link_type.to_le_bytes());
        interface.extend(0_u16.to_le_bytes());
        interface.extend(SNAP_LENGTH.to_le_bytes());
        option(TIMESTAMP_RESOLUTION, &[NANOSECONDS], &mut interface);
        end_of_options(&mut interface);
        block(INTERFACE_DESCRIPTION, &interface, out)?;
    }
    Ok(())
}

/// Writes the packet of an event, with what became of it as its comment; nothing of a connection's.
pub(super) fn packet(event: &FlowEvent, out: &mut impl Write) -> io::Result<()> {
    let Some(FlowPacket {
        interface,
        length,
        bytes,
        is_ethernet,
    }) = &event.packet
    else {
        return Ok(());
    };
    let time = event.unix_nanoseconds();
    let mut packet = Vec::new();
    packet.extend(u32::from(!is_ethernet).to_le_bytes());
    packet.extend(((time >> 32) as u32).to_le_bytes());
    packet.extend((time as u32).to_le_bytes());
    let captured = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    packet.extend(captured.to_le_bytes());
    packet.extend((*length).max(captured).to_le_bytes());
    packet.extend(bytes);
    pad(&mut packet);
    let service = event.service.as_deref().unwrap_or("no service");
    let comment = format!(
        "{}: {} ({service}, interface {interface})",
        event.kind, event.reason
    );
    option(COMMENT, comment.as_bytes(), &mut packet);
    end_of_options(&mut packet);
    block(ENHANCED_PACKET, &packet, out)
}

/// A block has its length before and behind it.
fn block(kind: u32, body: &[u8], out: &mut impl Write) -> io::Result<()> {
    let length = u32::try_from(body.len() + 12).map_err(io::Error::other)?;
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(body)?;
    out.write_all(&length.to_le_bytes())
}

fn option(code: u16, value: &[u8], body: &mut Vec<u8>) {
    // A length has 16 bits.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

/// Everything stands at a multiple of four bytes.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}
