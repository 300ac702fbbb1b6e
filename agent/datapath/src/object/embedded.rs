//! An object that is embedded in the agent, compressed.

use std::{io::Read as _, ops::Deref};

use flate2::read::GzDecoder;

use crate::error::DatapathError;

/// The compressed bytes of an object.
#[derive(Debug)]
pub(crate) struct Embedded(&'static [u8]);

/// An object's bytes, aligned as the parser of ELF files needs them.
#[derive(Debug)]
pub(crate) struct ObjectBytes {
    words: Vec<u64>,
    length: usize,
}

impl Embedded {
    /// Wraps the bytes that the build script has written.
    pub(crate) const fn new(compressed: &'static [u8]) -> Self {
        Self(compressed)
    }

    /// Returns the object. Decompressing takes some 10 ms, and the bytes go when the object is loaded.
    ///
    /// # Errors
    ///
    /// Fails if the embedded bytes are damaged.
    pub(crate) fn bytes(&self) -> Result<ObjectBytes, DatapathError> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.0)
            .read_to_end(&mut bytes)
            .map_err(DatapathError::Embedded)?;
        let length = bytes.len();
        bytes.resize(length.next_multiple_of(size_of::<u64>()), 0);
        let (words, _) = bytes.as_chunks();
        Ok(ObjectBytes {
            words: words.iter().copied().map(u64::from_ne_bytes).collect(),
            length,
        })
    }
}

impl Deref for ObjectBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words);
        &bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::programs::{FLOW_OBJECT, OBJECT};

    #[test]
    fn the_objects_come_out_whole_and_aligned() {
        for object in [&OBJECT, &FLOW_OBJECT] {
            let bytes = object.bytes().unwrap();
            assert!(bytes.starts_with(b"\x7fELF"));
            assert_eq!(bytes.as_ptr().addr() % align_of::<u64>(), 0);
            aya_obj::Object::parse(&bytes).unwrap();
        }
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let error = Embedded::new(b"no object").bytes().unwrap_err();
        assert!(error.to_string().contains("binary is damaged"), "{error}");
    }
}
