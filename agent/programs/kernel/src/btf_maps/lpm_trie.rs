//! Tables of prefixes.

use core::marker::PhantomData;

use super::bytes;
use crate::{
    table::{Entry, Misfit, Shelf, Table},
    world::note_lookup,
};

/// A prefix.
#[repr(C, packed)]
#[derive(Debug)]
pub struct Key<K> {
    /// Number of bits that count.
    pub prefix_len: u32,
    /// The bits, from the first byte's highest on.
    pub data: K,
}

impl<K> Key<K> {
    /// The first `prefix_len` bits of `data`.
    pub const fn new(prefix_len: u32, data: K) -> Self {
        Self { prefix_len, data }
    }
}

/// A table of prefixes: the longest that covers a key counts.
#[repr(transparent)]
#[derive(Debug)]
pub struct LpmTrie<K, V, const MAX_ENTRIES: usize> {
    shelf: Shelf,
    of: PhantomData<*mut (K, V)>,
}

// SAFETY: one thread at a time has the turn.
unsafe impl<K, V, const N: usize> Sync for LpmTrie<K, V, N> {}

impl<K, V, const N: usize> LpmTrie<K, V, N> {
    /// With nothing in it.
    #[expect(clippy::new_without_default, reason = "programs have statics of it")]
    pub const fn new() -> Self {
        Self {
            shelf: Shelf::new(size_of::<Key<K>>(), size_of::<V>()),
            of: PhantomData,
        }
    }

    /// The value of the longest prefix that covers the key.
    pub fn get(&self, key: &Key<K>) -> Option<&V> {
        let sought = bytes(key);
        let values = self.shelf.values().iter();
        let found = values
            .filter(|(prefix, _)| covers(prefix, sought))
            .max_by_key(|(prefix, _)| length(prefix))
            .map(|(_, value)| value.as_ptr());
        note_lookup((&raw const *self).cast(), sought, found.is_some());
        // SAFETY: a value that a loader has put there.
        found.map(|value| unsafe { &*value.cast() })
    }
}

/// Returns the number of bits of a prefix that count.
fn length(prefix: &[u8]) -> u32 {
    let bytes = prefix.first_chunk().copied();
    bytes.map_or(0, u32::from_ne_bytes)
}

/// Returns whether all bits of `prefix` are those of `key`, which has as many.
fn covers(prefix: &[u8], key: &[u8]) -> bool {
    let length = length(prefix);
    let bits = length as usize;
    let (prefix, data) = (&prefix[4..], &key[4..]);
    let whole = bits / 8;
    length <= self::length(key)
        && prefix[..whole] == data[..whole]
        && (bits.is_multiple_of(8) || (prefix[whole] ^ data[whole]) >> (8 - bits % 8) == 0)
}

impl<K, V, const N: usize> Table for LpmTrie<K, V, N> {
    fn key_size(&self) -> usize {
        self.shelf.key()
    }

    fn value_size(&self) -> usize {
        self.shelf.size()
    }

    fn clear(&self) {
        self.shelf.values().clear();
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Misfit> {
        self.shelf.put(key, value)
    }

    fn put_all(&self, values: &[u8]) -> Result<(), Misfit> {
        Err(Misfit {
            wanted: 0,
            given: values.len(),
        })
    }

    fn resize(&self, count: usize) -> Result<(), Misfit> {
        Err(Misfit {
            wanted: 0,
            given: count,
        })
    }

    fn value(&self, key: &[u8]) -> Option<Box<[u8]>> {
        self.shelf.value(key)
    }

    fn entries(&self) -> Vec<Entry> {
        self.shelf.entries()
    }
}
