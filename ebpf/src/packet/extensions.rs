//! IPv6 extension headers, in any order (RFC 8200 section 4).

use shunt_common::V6;

use crate::{
    ctx::access::Access,
    packet::{
        error::ParseError,
        network::{Network, Part},
        offset::Offset,
    },
};

/// Maximum number of extension headers that are walked.
const MOST_EXTENSIONS: usize = 8;
/// Maximum number of their bytes.
pub(crate) const LONGEST_EXTENSIONS: usize = 256;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// Common begin of most extension headers.
#[repr(C)]
struct ExtensionHeader {
    next_header: u8,
    /// Without what every one has: in units of 8 bytes, those of authentication of 4.
    length: u8,
    kind: u8,
    /// Of a routing header: how many stations the packet has still to pass.
    segments_left: u8,
}

/// The fragment header, RFC 8200 section 4.5.
#[repr(C)]
struct FragmentHeader {
    next_header: u8,
    reserved: u8,
    /// The offset in the upper 13 bits, "more fragments" in the lowest.
    place: u16,
    identification: u32,
}

const _: () = assert!(
    size_of::<FragmentHeader>() == 8,
    "RFC 8200 section 4.5: two words"
);

/// A packet whose extension headers and options BPF subprograms walk.
pub(crate) trait WalkExtensions: Access {
    /// Walks the extension headers from the offset `begin` on, of which the first is of type
    /// `protocol`: [`walk`].
    fn walk_extensions(&self, begin: u32, protocol: u32) -> u64;

    /// Walks the options of the IPv4 header from the offset `begin` to `end`:
    /// [`crate::packet::ipv4::walk_options`].
    fn walk_options(&self, begin: u32, end: u32) -> u32;

    /// Returns whether the IPv4 header from the offset `begin` to `end`, which has options, is as its sender wrote it:
    /// [`crate::packet::ipv4::is_long_header_intact`].
    fn is_header_intact(&self, begin: u32, end: u32) -> bool;
}

/// Returns whether an extension header follows.
#[inline(always)]
pub(crate) const fn is_one(next_header: u8) -> bool {
    matches!(
        next_header,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}

/// Skips the extension headers, which begin where the transport header would.
#[inline(always)]
pub(crate) fn skip(
    context: &impl WalkExtensions,
    network: &mut Network<'_, V6>,
) -> Result<(), ParseError> {
    let begin = network.transport;
    let word = context.walk_extensions(begin as u32, u32::from(network.protocol));
    let Walked {
        identification,
        length,
        protocol,
        end,
    } = Walked::from_word(word);
    network.part = match end {
        Walked::WHOLE => Part::Whole,
        Walked::FIRST => Part::First,
        Walked::LATER => Part::Later,
        Walked::TRUNCATED => return Err(ParseError::Truncated),
        Walked::TOO_MANY => return Err(ParseError::TooManyHeaders),
        _ => return Err(ParseError::Foreign),
    };
    network.protocol = protocol;
    network.transport = begin + Offset::new(length.into()).get();
    network.fragment.identification = identification;
    Ok(())
}

/// Result of [`walk`], which has to be one word.
struct Walked {
    identification: u32,
    /// Of all headers, in bytes.
    length: u16,
    /// Of what follows them.
    protocol: u8,
    /// End of the walk.
    end: u8,
}

impl Walked {
    const WHOLE: u8 = 0;
    const FIRST: u8 = 1;
    const LATER: u8 = 2;
    const TRUNCATED: u8 = 3;
    const TOO_MANY: u8 = 4;
    const FOREIGN: u8 = 5;

    const fn ended(end: u8) -> Self {
        Self {
            identification: 0,
            length: 0,
            protocol: 0,
            end,
        }
    }

    #[inline(always)]
    const fn from_word(word: u64) -> Self {
        Self {
            identification: word as u32,
            length: (word >> 32) as u16,
            protocol: (word >> 48) as u8,
            end: (word >> 56) as u8,
        }
    }

    #[inline(always)]
    const fn word(self) -> u64 {
        self.identification as u64
            | (self.length as u64) << 32
            | (self.protocol as u64) << 48
            | (self.end as u64) << 56
    }
}

/// Implementation of [`WalkExtensions::walk_extensions`].
#[inline(always)]
pub(crate) fn walk(context: &impl Access, begin: u32, protocol: u32) -> u64 {
    let begin = Offset::new(begin as usize).get();
    walk_from(context, begin, protocol as u8).word()
}

#[inline(always)]
fn walk_from(context: &impl Access, begin: usize, mut protocol: u8) -> Walked {
    let mut walked = Walked::ended(Walked::WHOLE);
    let mut length = 0;
    for _ in 0..MOST_EXTENSIONS {
        let units = match protocol {
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => 8,
            AUTHENTICATION => 4,
            FRAGMENT => {
                let Ok(header) = context.at::<FragmentHeader>(begin + length) else {
                    return Walked::ended(Walked::TRUNCATED);
                };
                protocol = header.next_header;
                length += size_of::<FragmentHeader>();
                if length > LONGEST_EXTENSIONS {
                    return Walked::ended(Walked::TOO_MANY);
                }
                walked.identification = header.identification;
                if header.place & 0xfff8_u16.to_be() != 0 {
                    walked.end = Walked::LATER;
                    break;
                }
                if header.place & 1_u16.to_be() != 0 {
                    walked.end = Walked::FIRST;
                }
                continue;
            }
            _ => break,
        };
        let Ok(header) = context.at::<ExtensionHeader>(begin + length) else {
            return Walked::ended(Walked::TRUNCATED);
        };
        if protocol == ROUTING && header.segments_left != 0 {
            // Its destination is a station on the way, and not what its checksum covers.
            return Walked::ended(Walked::FOREIGN);
        }
        protocol = header.next_header;
        length += 8 + usize::from(header.length) * units;
        if length > LONGEST_EXTENSIONS {
            return Walked::ended(Walked::TOO_MANY);
        }
    }
    if walked.end != Walked::LATER && is_one(protocol) {
        return Walked::ended(Walked::TOO_MANY);
    }
    walked.length = length as u16;
    walked.protocol = protocol;
    walked
}
