//! An array table mapped into our memory as words that others exchange.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
    sync::atomic::{AtomicU64, Ordering},
};

use memmap2::{MmapOptions, MmapRaw};

/// A `BPF_MAP_TYPE_ARRAY` with `BPF_F_MMAPABLE` whose entries are words, read and written word by
/// word beside the kernel's programs.
#[derive(Debug)]
pub(crate) struct SharedWords {
    memory: MmapRaw,
    words: usize,
    is_writable: bool,
}

impl SharedWords {
    /// Maps the table behind `map`, of so many words, for reading: what is written is ignored.
    pub(crate) fn read_only(map: impl AsFd, words: usize) -> io::Result<Self> {
        Ok(Self {
            memory: options(words).map_raw_read_only(map.as_fd().as_raw_fd())?,
            words,
            is_writable: false,
        })
    }

    /// Maps it for reading and writing.
    pub(crate) fn writable(map: impl AsFd, words: usize) -> io::Result<Self> {
        Ok(Self {
            memory: options(words).map_raw(map.as_fd().as_raw_fd())?,
            words,
            is_writable: true,
        })
    }

    /// The word at this place: acquire.
    ///
    /// # Panics
    ///
    /// If there is none, as with the others.
    pub(crate) fn load(&self, place: usize) -> u64 {
        self.at(place).load(Ordering::Acquire)
    }

    /// Writes the word at this place: release.
    pub(crate) fn store(&self, place: usize, value: u64) {
        if self.is_writable {
            self.at(place).store(value, Ordering::Release);
        }
    }

    /// Replaces the word at this place if it is `old`, and returns whether it was: acquire, release.
    pub(crate) fn exchange(&self, place: usize, old: u64, new: u64) -> bool {
        self.is_writable
            && self
                .at(place)
                .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a mapping begins at a page, so its words are aligned"
    )]
    fn at(&self, place: usize) -> &AtomicU64 {
        assert!(place < self.words, "word {place} of {}", self.words);
        // SAFETY: within the mapping, aligned to words, and there as long as `self`. Everybody
        // accesses it atomically, and no code writes through it where it is mapped for reading alone.
        unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().cast::<u64>().add(place)) }
    }
}

fn options(words: usize) -> MmapOptions {
    let mut options = MmapOptions::new();
    options.len(words * size_of::<u64>());
    options
}
