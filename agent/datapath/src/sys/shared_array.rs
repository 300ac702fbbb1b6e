//! An array table mapped into our memory: writes at memory speed, no system call.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd as _},
    sync::atomic::{AtomicU64, Ordering},
};

use bytemuck::Pod;
use memmap2::{MmapOptions, MmapRaw};

/// A `BPF_MAP_TYPE_ARRAY` with `BPF_F_MMAPABLE` (Linux 5.5) of `T`s.
///
/// The kernel's programs read it at any time. What is written becomes visible entry by entry, not
/// as one; only [`SharedArray::store`] is atomic.
#[derive(Debug)]
pub(crate) struct SharedArray<T> {
    memory: MmapRaw,
    length: u32,
    entry: PhantomData<T>,
}

impl<T: Pod> SharedArray<T> {
    /// The kernel rounds every value up to 8 bytes (`array_map_alloc` in `kernel/bpf/arraymap.c`).
    const STRIDE: usize = size_of::<T>().next_multiple_of(8);

    const ALIGNED: () = assert!(
        align_of::<T>() <= 8,
        "entries stand at multiples of 8 bytes"
    );

    /// Maps the table behind `map`, which has `length` entries of `T`.
    pub(crate) fn map(map: impl AsFd, length: u32) -> io::Result<Self> {
        let () = Self::ALIGNED;
        let memory = MmapOptions::new()
            .len(length as usize * Self::STRIDE)
            .map_raw(map.as_fd().as_raw_fd())?;
        Ok(Self {
            memory,
            length,
            entry: PhantomData,
        })
    }

    /// Returns the number of entries.
    pub(crate) const fn len(&self) -> u32 {
        self.length
    }

    /// The entry at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is beyond the end.
    pub(crate) fn read(&self, index: u32) -> T {
        // SAFETY: `at` is in bounds and aligned; any bytes are a `T`; only we write, but for counts, which
        // programs change by whole words.
        unsafe { self.at(index).read_volatile() }
    }

    /// Replaces the entry at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is beyond the end.
    pub(crate) fn write(&mut self, index: u32, value: T) {
        // SAFETY: `at` is in bounds and aligned; the mapping is writable.
        unsafe { self.at(index).write_volatile(value) }
    }

    fn at(&self, index: u32) -> *mut T {
        assert!(index < self.length, "index {index} of {}", self.length);
        // SAFETY: the mapping is `length` strides long, so this stays inside.
        unsafe { self.memory.as_mut_ptr().add(index as usize * Self::STRIDE) }.cast()
    }
}

impl SharedArray<u64> {
    /// Replaces the word at `index` in one store. A reader that sees it sees every earlier write.
    ///
    /// # Panics
    ///
    /// If `index` is beyond the end.
    pub(crate) fn store(&mut self, index: u32, word: u64) {
        // SAFETY: `at` is in bounds and aligned to 8 bytes; all of our accesses that can race with
        // the kernel's are this store.
        unsafe { AtomicU64::from_ptr(self.at(index)) }.store(word, Ordering::Release);
    }
}
