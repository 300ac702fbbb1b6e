//! The bytes that bulk transfers carry, and their checksum.

use std::sync::LazyLock;

use crc32fast::Hasher;

/// The length of the pattern. A prime, so that no power of two of lost, repeated or swapped bytes
/// leaves the stream as it was.
const PATTERN: usize = 1_048_583;

/// Number of bytes of a write: more than one GSO packet holds.
const CHUNK: usize = 256 * 1024;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    // Marsaglia's xorshift64: no two stretches of it are alike.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(PATTERN + 8);
    while bytes.len() < PATTERN {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(PATTERN);
    bytes
});

/// The first `length` bytes of the endless pattern, as chunks to be written one after the other.
pub(crate) fn chunks(length: u64) -> impl Iterator<Item = &'static [u8]> {
    let mut position = 0_u64;
    std::iter::from_fn(move || {
        let left = usize::try_from(length - position).unwrap_or(usize::MAX);
        if left == 0 {
            return None;
        }
        let start = usize::try_from(position % PATTERN as u64).unwrap_or(0);
        let size = left.min(CHUNK).min(PATTERN - start);
        position += size as u64;
        Some(&BYTES[start..start + size])
    })
}

/// A running CRC-32 (ISO-HDLC, as in zip and Ethernet).
#[derive(Default)]
pub(crate) struct Checksum(Hasher);

impl Checksum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn value(self) -> u32 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_add_up_to_the_length() {
        for length in [
            0,
            1,
            1000,
            CHUNK as u64,
            PATTERN as u64 + 5,
            3 * PATTERN as u64,
        ] {
            assert_eq!(
                chunks(length).map(|chunk| chunk.len() as u64).sum::<u64>(),
                length
            );
        }
    }

    #[test]
    fn the_checksum_sees_swapped_chunks() {
        let all: Vec<_> = chunks(2 * CHUNK as u64).collect();
        let mut straight = Checksum::default();
        let mut swapped = Checksum::default();
        straight.add(all[0]);
        straight.add(all[1]);
        swapped.add(all[1]);
        swapped.add(all[0]);
        assert_ne!(straight.value(), swapped.value());
    }
}
