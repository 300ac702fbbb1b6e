//! SCTP's checksum, CRC32c (RFC 9260 appendix A), updated by a difference.
//!
//! A CRC is linear: the checksum of a changed packet is that of the old one, changed by the CRC
//! of the difference alone. So a new port costs the same whatever the packet's length, and the
//! payload is never read.

/// x^8, x^16, x^32 ... x^(8 * 2^15) modulo the polynomial: what 1, 2, 4 ... zero bytes multiply a
/// remainder by. Polynomials are reflected: the highest bit is x^0.
const ZERO_BYTES: [u32; 16] = {
    let mut powers = [0x0080_0000; 16];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = multiply(powers[place - 1], powers[place - 1]);
        place += 1;
    }
    powers
};

/// Castagnoli's polynomial, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// x^0.
const ONE: u32 = 0x8000_0000;

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

/// What the checksum of a packet of `length` bytes changes by (exclusive or) when its first four
/// bytes do by `difference`; both as they stand in the packet, on a little-endian machine. Of
/// the length, the lower 16 bits count.
pub const fn difference(difference: u32, length: u32) -> u32 {
    // A word at the packet's begin is its highest terms; the CRC register takes it whole, and
    // every byte behind it multiplies it by x^8.
    let mut remainder = u32::from_le(difference);
    let mut place = 0;
    while place < 16 {
        let bit = (length >> place) & 1;
        let chosen = 0u32.wrapping_sub(bit);
        let factor = (ZERO_BYTES[place] & chosen) | (ONE & !chosen);
        remainder = multiply(remainder, factor);
        place += 1;
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
