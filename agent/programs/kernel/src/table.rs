//! Tables as their loader sees them: bytes.

use core::fmt;
use std::{cell::UnsafeCell, collections::BTreeMap};

/// A key and its value.
pub type Entry = (Box<[u8]>, Box<[u8]>);

/// A table of a program's.
///
/// All of it is for the thread that has the turn (see [`crate::world::Turn`]).
pub trait Table: Sync {
    /// Returns the size of a key in bytes.
    fn key_size(&self) -> usize;

    /// Returns the size of a value in bytes.
    fn value_size(&self) -> usize;

    /// Takes everything out. An array has its own number of entries again, each of zeros.
    fn clear(&self);

    /// Puts a value at a key.
    ///
    /// # Errors
    ///
    /// One of them has another size, or the key is beyond the array's end.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Misfit>;

    /// Puts the values of an array, one right after the other. The array is as large from then on.
    ///
    /// # Errors
    ///
    /// The table is none, or the values have another size.
    fn put_all(&self, values: &[u8]) -> Result<(), Misfit>;

    /// Has an array have so many entries, each of zeros.
    ///
    /// # Errors
    ///
    /// The table is none.
    fn resize(&self, count: usize) -> Result<(), Misfit>;

    /// The value at a key.
    fn value(&self, key: &[u8]) -> Option<Box<[u8]>>;

    /// All that is in it; of an array what is not all zeros.
    fn entries(&self) -> Vec<Entry>;
}

/// An attempt to put a key or value of the wrong size into a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit {
    /// Number of bytes that the table wants.
    pub wanted: usize,
    /// Number of bytes that it was given.
    pub given: usize,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, given } = self;
        write!(f, "{given} bytes where {wanted} belong")
    }
}

impl std::error::Error for Misfit {}

/// Words that hold a value of so many bytes.
pub(crate) const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// The bytes of words.
pub(crate) fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: words are bytes.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Words with these bytes, filled up with zeros.
pub(crate) fn words(bytes: &[u8]) -> Box<[u64]> {
    let mut words = vec![0_u64; words_of(bytes.len())].into_boxed_slice();
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
    words
}

/// The values of an array. Empty until first used, as most are never.
#[derive(Debug)]
pub(crate) struct Row {
    words: UnsafeCell<Vec<u64>>,
    /// Initial number of entries.
    count: usize,
    /// Size of a value in bytes.
    size: usize,
}

// SAFETY: one thread at a time has the turn.
unsafe impl Sync for Row {}

impl Row {
    pub(crate) const fn new(count: usize, size: usize) -> Self {
        Self {
            words: UnsafeCell::new(Vec::new()),
            count,
            size,
        }
    }

    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    #[expect(clippy::mut_from_ref, reason = "whoever has the turn is one thread")]
    fn words(&self) -> &mut Vec<u64> {
        // SAFETY: one thread at a time has the turn, and keeps no reference to the vector itself.
        let words = unsafe { &mut *self.words.get() };
        if words.is_empty() {
            words.resize(self.count * words_of(self.size), 0);
        }
        words
    }

    /// Returns the address of the value at `index`.
    pub(crate) fn at(&self, index: usize) -> Option<*mut u64> {
        let stride = words_of(self.size);
        let begin = index.checked_mul(stride)?;
        let words = self.words();
        (begin + stride <= words.len()).then(|| {
            // SAFETY: within the vector, as was just seen.
            unsafe { words.as_mut_ptr().add(begin) }
        })
    }

    pub(crate) fn clear(&self) {
        // SAFETY: as in `words`.
        unsafe { *self.words.get() = Vec::new() };
    }

    pub(crate) fn put(&self, index: usize, value: &[u8]) -> Result<(), Misfit> {
        let misfit = Misfit {
            wanted: self.size,
            given: value.len(),
        };
        let stride = words_of(self.size);
        let new = words(value);
        if value.len() != self.size {
            return Err(misfit);
        }
        let begin = index * stride;
        let place = self.words().get_mut(begin..begin + stride).ok_or(misfit)?;
        place.copy_from_slice(&new);
        Ok(())
    }

    pub(crate) fn put_all(&self, values: &[u8]) -> Result<(), Misfit> {
        if !values.len().is_multiple_of(self.size) {
            return Err(Misfit {
                wanted: self.size,
                given: values.len(),
            });
        }
        let new = if self.size.is_multiple_of(8) {
            words(values).into_vec()
        } else {
            values.chunks(self.size).flat_map(words).collect()
        };
        // SAFETY: as in `words`.
        unsafe { *self.words.get() = new };
        Ok(())
    }

    /// Zeros take no memory until something is written there.
    pub(crate) fn resize(&self, count: usize) {
        let new = vec![0; count * words_of(self.size)];
        // SAFETY: as in `words`.
        unsafe { *self.words.get() = new };
    }

    pub(crate) fn value(&self, index: usize) -> Option<Box<[u8]>> {
        let stride = words_of(self.size);
        let words = self.words().get(index * stride..(index + 1) * stride)?;
        Some(bytes_of(words)[..self.size].into())
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let rows = self.words().chunks(words_of(self.size)).enumerate();
        rows.filter(|(_, words)| words.iter().any(|word| *word != 0))
            .map(|(index, words)| {
                let key = (index as u32).to_ne_bytes();
                (key.into(), bytes_of(words)[..self.size].into())
            })
            .collect()
    }
}

/// The words of values, by the bytes of their keys.
type Values = BTreeMap<Box<[u8]>, Box<[u64]>>;

/// Values by key. A value stays where it is until it is taken out.
#[derive(Debug)]
pub(crate) struct Shelf {
    values: UnsafeCell<Values>,
    key: usize,
    /// Size of a value in bytes.
    size: usize,
}

// SAFETY: one thread at a time has the turn.
unsafe impl Sync for Shelf {}

impl Shelf {
    pub(crate) const fn new(key: usize, size: usize) -> Self {
        Self {
            values: UnsafeCell::new(BTreeMap::new()),
            key,
            size,
        }
    }

    pub(crate) const fn key(&self) -> usize {
        self.key
    }

    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    #[expect(clippy::mut_from_ref, reason = "whoever has the turn is one thread")]
    pub(crate) fn values(&self) -> &mut Values {
        // SAFETY: one thread at a time has the turn, and keeps no reference to the map itself.
        unsafe { &mut *self.values.get() }
    }

    /// Returns the address of the value at `key`.
    pub(crate) fn at(&self, key: &[u8]) -> Option<*mut u64> {
        self.values().get_mut(key).map(|value| value.as_mut_ptr())
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Misfit> {
        for (wanted, given) in [(self.key, key.len()), (self.size, value.len())] {
            if wanted != given {
                return Err(Misfit { wanted, given });
            }
        }
        let new = words(value);
        match self.values().get_mut(key) {
            // It stays where it is.
            Some(old) => old.copy_from_slice(&new),
            None => drop(self.values().insert(key.into(), new)),
        }
        Ok(())
    }

    pub(crate) fn value(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let words = self.values().get(key)?;
        Some(bytes_of(words)[..self.size].into())
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let values = self.values().iter();
        values
            .map(|(key, words)| (key.clone(), bytes_of(words)[..self.size].into()))
            .collect()
    }
}
