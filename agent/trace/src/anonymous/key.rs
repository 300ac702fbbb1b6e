//! The key that replacements depend on.

use std::{fmt, fs::File, io, io::Read as _};

use sha2::{Digest as _, Sha256};
use shunt_common::connections::Seeds;

/// Key of the replacements: with it, one can find out what was replaced.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Returns a new random key.
    ///
    /// # Errors
    ///
    /// If the kernel gives no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// This key.
    pub const fn of(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the seeds that stand for those of the node.
    pub(crate) fn seeds(&self) -> Seeds {
        let halves = [0, 1].map(|half| self.bytes("seeds", &[half]));
        let words = halves.as_flattened().chunks_exact(4);
        let mut seeds = [0; 10];
        for (seed, word) in seeds.iter_mut().zip(words) {
            *seed = bytemuck::pod_read_unaligned(word);
        }
        Seeds(seeds)
    }

    /// Returns bytes that depend on the key, on their purpose and on these parts, and that reveal none of them:
    /// a hash over all of them, the key first and the parts' lengths before them, so that no two questions are one.
    pub(crate) fn bytes(&self, purpose: &str, of: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update((purpose.len() as u64).to_be_bytes());
        hash.update(purpose.as_bytes());
        hash.update((of.len() as u64).to_be_bytes());
        hash.update(of);
        // Hashed once more, so that the hash cannot be continued where it ended (RFC 2104 has the reason).
        let inner = hash.finalize();
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(inner);
        hash.finalize().into()
    }
}
