//! The model's walk over IPv6 extension headers (RFC 8200 section 4), within the bounds that are
//! documented: 8 headers, 256 bytes.

use super::wire::{Form, Unread, bytes};

const MOST: usize = 8;
const LONGEST: usize = 256;

pub(crate) const HOP_BY_HOP: u8 = 0;
pub(crate) const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
pub(crate) const AUTHENTICATION: u8 = 51;
pub(crate) const DESTINATION_OPTIONS: u8 = 60;

/// End of a walk through the headers.
pub(crate) struct Walk {
    /// Protocol of what follows them, and its offset.
    pub protocol: u8,
    pub end: usize,
    pub form: Form,
    /// Of the datagram, if there was a fragment header.
    pub identification: u32,
}

/// Walks the headers at `begin`, of which the first is of type `protocol`.
pub(crate) fn walk(frame: &[u8], begin: usize, protocol: u8) -> Result<Walk, Unread> {
    let mut walk = Walk {
        protocol,
        end: begin,
        form: Form::Whole,
        identification: 0,
    };
    let mut count = 0;
    while matches!(
        walk.protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    ) {
        if count == MOST {
            return Err(Unread::TooManyHeaders);
        }
        count += 1;
        let length = if walk.protocol == FRAGMENT {
            let [next, _, high, low, a, b, c, d] = bytes(frame, walk.end)?;
            let place = u16::from_be_bytes([high, low]);
            walk.protocol = next;
            walk.identification = u32::from_be_bytes([a, b, c, d]);
            if place >> 3 != 0 {
                walk.form = Form::Later;
            } else if place & 1 != 0 {
                walk.form = Form::First;
            }
            8
        } else {
            let [next, length, _, segments_left] = bytes(frame, walk.end)?;
            let length = usize::from(length);
            let length = match walk.protocol {
                AUTHENTICATION => 8 + 4 * length,
                _ => 8 + 8 * length,
            };
            if walk.protocol == ROUTING && segments_left > 0 {
                // Its destination is a station on the way.
                return Err(Unread::Foreign);
            }
            walk.protocol = next;
            length
        };
        walk.end += length;
        if walk.end - begin > LONGEST {
            return Err(Unread::TooManyHeaders);
        }
        if walk.form == Form::Later {
            // The next header that it names is in the first fragment.
            break;
        }
    }
    Ok(walk)
}
