//! Reading and filling a hash table many entries a system call.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use bytemuck::{Pod, Zeroable};

/// `BPF_MAP_LOOKUP_BATCH` of `linux/bpf.h` (Linux 5.6).
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
/// `BPF_MAP_UPDATE_BATCH` of `linux/bpf.h` (Linux 5.6).
const BPF_MAP_UPDATE_BATCH: libc::c_long = 26;

/// The part of `union bpf_attr` that the batch commands use.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct BatchAttributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

const _: () = assert!(size_of::<BatchAttributes>() == 56, "as in linux/bpf.h");

impl BatchAttributes {
    /// Makes the call; the kernel leaves in `count` how many entries it has dealt with. The
    /// pointers are to live buffers of the sizes that the map's keys and values and the count
    /// demand.
    fn call(&mut self, command: libc::c_long) -> io::Result<()> {
        // SAFETY: the kernel reads and writes the attributes, and the buffers as said above.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                &raw mut *self,
                size_of::<BatchAttributes>(),
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Entries that the kernel did not take.
#[derive(Debug)]
pub(crate) struct Refused {
    /// How many it had taken before the first of them.
    pub inserted: usize,
    /// Why it took no more.
    pub source: io::Error,
}

/// Inserts or replaces entries, one after the other: `values[i]` at `keys[i]`.
///
/// # Panics
///
/// If the two differ in length.
pub(crate) fn insert<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    keys: &[K],
    values: &[V],
) -> Result<(), Refused> {
    assert_eq!(keys.len(), values.len(), "a value for each key");
    if keys.is_empty() {
        return Ok(());
    }
    let mut attributes = BatchAttributes {
        in_batch: 0,
        out_batch: 0,
        keys: keys.as_ptr() as u64,
        values: values.as_ptr() as u64,
        count: keys.len() as u32,
        map_fd: map.as_raw_fd().cast_unsigned(),
        elem_flags: 0,
        flags: 0,
    };
    attributes
        .call(BPF_MAP_UPDATE_BATCH)
        .map_err(|source| Refused {
            // A call that is refused before its first entry may leave the count as it was.
            inserted: (attributes.count as usize).min(keys.len()),
            source,
        })
}

/// Reads a whole hash table in pieces. What changes meanwhile may be seen or not, and an entry of
/// a bucket that is read is seen once.
#[derive(Debug)]
pub(crate) struct BatchReader<K, V> {
    /// The kernel's place in the table; none before the first piece.
    cursor: Option<u32>,
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Pod, V: Pod> BatchReader<K, V> {
    /// How many entries a piece has at most; a bucket with more cannot be read.
    const PIECE: usize = 4096;

    /// A reader at the beginning.
    pub(crate) fn new() -> Self {
        Self {
            cursor: None,
            keys: vec![K::zeroed(); Self::PIECE],
            // The kernel copies values in strides of 8 bytes (`htab_map_lookup_batch`).
            values: vec![V::zeroed(); Self::PIECE],
        }
    }

    /// The next piece, and whether it is the last.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn next_piece(&mut self, map: BorrowedFd<'_>) -> io::Result<(&[K], &[V], bool)> {
        const { assert!(size_of::<V>().is_multiple_of(8), "no gaps between values") };
        let mut next = 0u32;
        let mut attributes = BatchAttributes {
            in_batch: self
                .cursor
                .as_ref()
                .map_or(0, |cursor| &raw const *cursor as u64),
            out_batch: &raw mut next as u64,
            keys: self.keys.as_mut_ptr() as u64,
            values: self.values.as_mut_ptr() as u64,
            count: Self::PIECE as u32,
            map_fd: map.as_raw_fd().cast_unsigned(),
            elem_flags: 0,
            flags: 0,
        };
        let result = attributes.call(BPF_MAP_LOOKUP_BATCH);
        let last = match result {
            Ok(()) => false,
            // The end of the table; the count is that of the last entries.
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        self.cursor = Some(next);
        let count = attributes.count as usize;
        Ok((&self.keys[..count], &self.values[..count], last))
    }
}
