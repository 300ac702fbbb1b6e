//! Changes that make something else of a frame than it was.

/// A change of a frame's bytes. Positions are taken modulo its length.
#[derive(Debug, Clone)]
pub(crate) enum Mutation {
    /// Another value of one bit.
    Flip { at: u16, bit: u8 },
    /// Another value of a byte.
    Set { at: u16, value: u8 },
    /// Another value of one of the [fields](FIELDS) that lead the parser.
    Field { which: u8, value: u16 },
    /// A bit more or less of such a field.
    Shift { which: u8, by: i8 },
    /// The frame ends here.
    Cut { at: u16 },
    /// So many bytes more at the end.
    Extend { by: u8, value: u8 },
    /// Bytes between others, the rest of the frame goes back.
    Insert { at: u16, bytes: Vec<u8> },
    /// Bytes taken out, the rest of the frame comes forward.
    Remove { at: u16, length: u8 },
    /// A part of the frame once more, elsewhere.
    Copy { from: u16, to: u16, length: u8 },
}

/// The fields that lead the parser, by offset and width: of the Ethernet header, of either family's
/// network header, of what follows it at its least length and of a quoted packet.
pub(crate) const FIELDS: [(usize, usize); 36] = [
    (12, 2),  // Ethernet type
    (14, 1),  // version and header length
    (16, 2),  // IPv4: total length
    (18, 2),  // IPv4: identification; IPv6: payload length
    (20, 2),  // IPv4: fragment; IPv6: next header, hop limit
    (20, 1),  // IPv6: next header
    (21, 1),  // IPv6: hop limit
    (22, 1),  // IPv4: time to live
    (23, 1),  // IPv4: protocol
    (24, 2),  // IPv4: checksum
    (34, 1),  // IPv4: ICMP type
    (34, 2),  // IPv4: source port
    (36, 2),  // IPv4: destination port
    (40, 2),  // IPv4: UDP checksum
    (42, 1),  // IPv4, quoted: version and header length
    (44, 2),  // IPv4, quoted: total length
    (46, 1),  // IPv4: TCP data offset, SCTP chunk
    (47, 1),  // IPv4: TCP flags
    (48, 2),  // IPv4, quoted: fragment
    (50, 2),  // IPv4: TCP checksum; quoted: protocol
    (52, 2),  // IPv4, quoted: checksum
    (54, 1),  // IPv6: extension header: next header; ICMP type
    (55, 1),  // IPv6: its length
    (56, 2),  // IPv6: its fragment field; routing type, segments left
    (58, 2),  // IPv6: its identification
    (60, 2),  // IPv6: UDP checksum; IPv4, quoted: UDP length
    (62, 1),  // IPv6: second extension header; quoted: version
    (63, 1),  // IPv6: its length
    (64, 2),  // IPv6: its fragment field
    (66, 2),  // IPv6, quoted: payload length
    (67, 1),  // IPv6: TCP flags
    (68, 1),  // IPv6, quoted: next header; IPv4, quoted: UDP checksum
    (70, 2),  // IPv6: TCP checksum; third extension header
    (102, 1), // IPv6, quoted: extension header: next header
    (103, 1), // IPv6, quoted: its length
    (108, 2), // IPv6, quoted: UDP checksum
];

/// The kernel's test run takes no frame without a whole network header of its Ethernet type.
const LEAST: usize = 14;
const LEAST_V4: usize = LEAST + 20;
const LEAST_V6: usize = LEAST + 40;
/// Longer frames are not made: the links here take them all.
const MOST: usize = 1500;

/// The frame after all of the mutations, long enough for the kernel to take it.
pub(crate) fn mutate(frame: &mut Vec<u8>, mutations: &[Mutation]) {
    for mutation in mutations {
        mutation.apply(frame);
    }
    frame.truncate(MOST);
    frame.resize(frame.len().max(LEAST), 0);
    let least = match frame[12..14] {
        [0x08, 0x00] => LEAST_V4,
        [0x86, 0xdd] => LEAST_V6,
        _ => LEAST,
    };
    frame.resize(frame.len().max(least), 0);
}

impl Mutation {
    fn apply(&self, frame: &mut Vec<u8>) {
        let length = frame.len();
        if length == 0 {
            return;
        }
        let place = |at: u16| usize::from(at) % length;
        match self {
            Self::Flip { at, bit } => frame[place(*at)] ^= 1 << (bit % 8),
            Self::Set { at, value } => frame[place(*at)] = *value,
            Self::Field { which, value } => {
                let (at, width) = FIELDS[usize::from(*which) % FIELDS.len()];
                if let Some(field) = frame.get_mut(at..at + width) {
                    field.copy_from_slice(&value.to_be_bytes()[2 - width..]);
                }
            }
            Self::Shift { which, by } => {
                let (at, width) = FIELDS[usize::from(*which) % FIELDS.len()];
                if let Some(field) = frame.get_mut(at..at + width) {
                    let last = width - 1;
                    field[last] = field[last].wrapping_add_signed(*by);
                }
            }
            Self::Cut { at } => frame.truncate(place(*at)),
            Self::Extend { by, value } => frame.resize(length + usize::from(*by), *value),
            Self::Insert { at, bytes } => {
                let at = place(*at);
                frame.splice(at..at, bytes.iter().copied());
            }
            Self::Remove { at, length } => {
                let from = place(*at);
                let to = frame.len().min(from + usize::from(*length));
                frame.drain(from..to);
            }
            Self::Copy { from, to, length } => {
                let (from, to) = (place(*from), place(*to));
                let count = usize::from(*length).min(frame.len() - from.max(to));
                frame.copy_within(from..from + count, to);
            }
        }
    }
}
