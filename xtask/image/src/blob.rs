//! Parts of a layout: bytes that are named by their digest.

use std::str::FromStr as _;

use anyhow::Result;
use oci_spec::image::{Descriptor, MediaType, Sha256Digest};
use sha2::{Digest as _, Sha256};

/// Some bytes, and what they are.
#[derive(Debug)]
pub(crate) struct Blob {
    kind: MediaType,
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    pub(crate) fn new(kind: MediaType, bytes: Vec<u8>) -> Self {
        Self {
            kind,
            digest: digest(&bytes),
            bytes,
        }
    }

    /// SHA-256, in hexadecimal.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the descriptor by which others name it.
    pub(crate) fn descriptor(&self) -> Result<Descriptor> {
        let digest = Sha256Digest::from_str(&self.digest)?;
        Ok(Descriptor::new(
            self.kind.clone(),
            self.bytes.len() as u64,
            digest,
        ))
    }
}

/// SHA-256, in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
