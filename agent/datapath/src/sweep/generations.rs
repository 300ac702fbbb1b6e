//! The generations of backends, read while others write them.

use std::mem::offset_of;

use aya::Ebpf;
use shunt_common::{Backend, Family, V4, V6, socket::Pair};

use crate::{
    error::DatapathError,
    maps::{family::FromIp, object_maps},
    sys::shared_words::SharedWords,
};

/// Number of bytes in a word.
const WORD: usize = size_of::<u64>();

/// The backend tables of both families, of which the generations are read.
#[derive(Debug)]
pub(crate) struct Generations {
    v4: Table,
    v6: Table,
}

/// One family's table, as words.
#[derive(Debug)]
struct Table {
    words: SharedWords,
    entries: u32,
    place: Place,
}

/// Place of the generation in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Number of words from one entry to the next: the kernel rounds an entry up.
    stride: usize,
    /// In which of them it is.
    word: usize,
    /// At which byte of that word it begins. It does not go on in the next: it is aligned.
    byte: usize,
}

impl Generations {
    /// Opens the tables of the loaded object.
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        Ok(Self {
            v4: Table::open::<V4>(ebpf)?,
            v6: Table::open::<V6>(ebpf)?,
        })
    }

    /// Returns whether the pair's backend has left its service port since the pair was made, or is beyond
    /// the end of its table.
    pub(crate) fn is_gone(&self, pair: &Pair) -> bool {
        let table = match pair.peer.address.v4() {
            Some(_) => &self.v4,
            None => &self.v6,
        };
        table.generation(pair.backend) != Some(pair.generation)
    }
}

impl Table {
    fn open<F: FromIp>(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        let name = F::MAPS.backends.name;
        let map = object_maps::array(ebpf, F::MAPS.backends)?;
        let info = map
            .info()
            .map_err(|source| DatapathError::Map { name, source })?;
        if info.value_size() as usize != size_of::<Backend<F>>() {
            return Err(DatapathError::Missing(name));
        }
        let (entries, place) = (info.max_entries(), Place::of::<F>());
        let words = SharedWords::read_only(map.fd(), entries as usize * place.stride)
            .map_err(|source| DatapathError::Mapping { name, source })?;
        Ok(Self {
            words,
            entries,
            place,
        })
    }

    fn generation(&self, index: u32) -> Option<u16> {
        let Self {
            words,
            entries,
            place,
        } = self;
        (index < *entries).then(|| place.generation(|word| words.load(word), index))
    }
}

impl Place {
    const fn of<F: Family>() -> Self {
        let offset = offset_of!(Backend<F>, generation);
        Self {
            stride: size_of::<Backend<F>>().div_ceil(WORD),
            word: offset / WORD,
            byte: offset % WORD,
        }
    }

    /// The generation of the entry with this index.
    fn generation(self, load: impl FnOnce(usize) -> u64, index: u32) -> u16 {
        let Self { stride, word, byte } = self;
        let bytes = load(index as usize * stride + word).to_ne_bytes();
        u16::from_ne_bytes([bytes[byte], bytes[byte + 1]])
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable as _;

    use super::*;

    fn is_found<F: Family>() {
        let size = Place::of::<F>().stride * WORD;
        let mut table = vec![0u8; 3 * size];
        let backend = Backend::<F> {
            generation: 0x1234,
            ..Backend::zeroed()
        };
        table[size..][..size_of::<Backend<F>>()].copy_from_slice(bytemuck::bytes_of(&backend));
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        let words: Vec<u64> = table.chunks(WORD).map(word).collect();
        let generations = [0, 1, 2].map(|index| Place::of::<F>().generation(|at| words[at], index));
        assert_eq!(generations, [0, 0x1234, 0]);
    }

    #[test]
    fn a_generation_is_found_in_the_words_of_its_entry() {
        is_found::<V4>();
        is_found::<V6>();
    }
}
