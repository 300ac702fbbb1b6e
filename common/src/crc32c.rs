//! SCTP's checksum, CRC32c (RFC 9260 appendix A), updated by a difference.
//!
//! A CRC is linear: the checksum of a changed packet is that of the old one, changed by the CRC
//! of the difference alone. So a new port costs the same whatever the packet's length, and the
//! payload is never read.

/// Number of bits of a remainder that are looked up at once, and number of its pieces.
const BITS: usize = 4;
const PIECES: usize = 32 / BITS;

/// The effect of so many zero bytes behind a remainder: the product of each piece of it, at its place, and x^(8 *
/// bytes). The sum of its pieces' products is that of a remainder.
type Shift = [[u32; 1 << BITS]; PIECES];

/// The shifts by 1, 2, 4 ... 2^15 zero bytes.
static SHIFTS: [Shift; 16] = {
    let mut shifts = [[[0; 1 << BITS]; PIECES]; 16];
    // x^8: polynomials are reflected, the highest bit is x^0.
    let mut power = 0x0080_0000;
    let mut place = 0;
    while place < shifts.len() {
        shifts[place] = shift(power);
        power = multiply(power, power);
        place += 1;
    }
    shifts
};

const fn shift(power: u32) -> Shift {
    let mut products = [[0; 1 << BITS]; PIECES];
    let mut piece = 0;
    while piece < PIECES {
        let mut bits = 0;
        while bits < 1 << BITS {
            products[piece][bits] = multiply((bits as u32) << (piece * BITS), power);
            bits += 1;
        }
        piece += 1;
    }
    products
}

/// Castagnoli's polynomial, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The product of two polynomials, modulo ours.
const fn multiply(a: u32, b: u32) -> u32 {
    let mut product = 0;
    let mut shifted = b;
    let mut place = 0;
    while place < 32 {
        let bit = (a >> (31 - place)) & 1;
        product ^= shifted & 0u32.wrapping_sub(bit);
        shifted = (shifted >> 1) ^ (POLYNOMIAL & 0u32.wrapping_sub(shifted & 1));
        place += 1;
    }
    product
}

/// Returns the change (exclusive or) of the checksum of a packet of `length` bytes when its first four bytes change by
/// `difference`; both as they stand in the packet, on a little-endian machine. Of the length, the lower 16 bits count.
pub fn difference(difference: u32, length: u32) -> u32 {
    // A word at the packet's begin is its highest terms; the CRC register takes it whole, and
    // every byte behind it multiplies it by x^8.
    let mut remainder = u32::from_le(difference);
    for (place, shift) in SHIFTS.iter().enumerate() {
        if length >> place & 1 == 0 {
            continue;
        }
        let mut sum = 0;
        for (piece, products) in shift.iter().enumerate() {
            sum ^= products[(remainder >> (piece * BITS)) as usize % products.len()];
        }
        remainder = sum;
    }
    remainder.to_le()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_difference_gives_what_the_whole_packet_gives(
            packet in proptest::collection::vec(any::<u8>(), 4..3000),
            ports: [u8; 4],
        ) {
            let mut changed: Vec<u8> = packet.clone();
            changed[..4].copy_from_slice(&ports);
            let before = u32::from_ne_bytes(packet[..4].try_into().unwrap());
            let by = difference(before ^ u32::from_ne_bytes(ports), packet.len() as u32);
            let checksum = |bytes: &[u8]| crc32c::crc32c(bytes).to_le();
            prop_assert_eq!(checksum(&packet) ^ by, checksum(&changed));
        }
    }
}
