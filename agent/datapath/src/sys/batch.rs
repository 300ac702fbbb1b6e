//! Reading and filling a table many entries a system call.

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
        // SAFETY: the kernel reads and writes the attributes, and the buffers as described above.
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
    /// Number of entries that it had taken before the first of them.
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
    let (keys, values, count) = (keys.as_ptr() as u64, values.as_ptr() as u64, keys.len());
    update(map, keys, values, count)
}

/// Inserts or replaces entries: so many keys and values are at these addresses.
fn update(map: BorrowedFd<'_>, keys: u64, values: u64, count: usize) -> Result<(), Refused> {
    if count == 0 {
        return Ok(());
    }
    let mut attributes = BatchAttributes {
        in_batch: 0,
        out_batch: 0,
        keys,
        values,
        count: count as u32,
        map_fd: map.as_raw_fd().cast_unsigned(),
        elem_flags: 0,
        flags: 0,
    };
    attributes
        .call(BPF_MAP_UPDATE_BATCH)
        .map_err(|source| Refused {
            // A call that is refused before its first entry may leave the count as it was.
            inserted: (attributes.count as usize).min(count),
            source,
        })
}

/// Number of entries that are read at once; a bucket of a hash with more cannot be read.
const PIECE: usize = 4096;

/// The kernel's place in a table.
#[derive(Debug)]
struct Cursor {
    /// Of a hash a bucket, of every other table a key.
    place: Vec<u8>,
    next: Vec<u8>,
    has_begun: bool,
}

impl Cursor {
    /// Before the first entry of a table whose keys are so long.
    fn new(key_size: usize) -> Self {
        let place = vec![0; key_size.max(size_of::<u32>())];
        Self {
            next: place.clone(),
            place,
            has_begun: false,
        }
    }

    /// Reads up to so many entries to these addresses. Returns how many, and whether they are the last.
    fn read(
        &mut self,
        map: BorrowedFd<'_>,
        keys: u64,
        values: u64,
        limit: usize,
    ) -> io::Result<(usize, bool)> {
        let mut attributes = BatchAttributes {
            in_batch: if self.has_begun {
                self.place.as_ptr() as u64
            } else {
                0
            },
            out_batch: self.next.as_mut_ptr() as u64,
            keys,
            values,
            count: limit as u32,
            map_fd: map.as_raw_fd().cast_unsigned(),
            elem_flags: 0,
            flags: 0,
        };
        let last = match attributes.call(BPF_MAP_LOOKUP_BATCH) {
            Ok(()) => false,
            // The end of the table; the count is that of the last entries.
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        std::mem::swap(&mut self.place, &mut self.next);
        self.has_begun = true;
        Ok((attributes.count as usize, last))
    }
}

/// Length of a table's entries, in bytes, as the kernel copies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntrySize {
    /// A key.
    pub key: usize,
    /// A value; of a table that has one for each processor all of them.
    pub value: usize,
}

/// Copies up to so many entries of one table to another. Both are of the same type, and have entries of
/// this size; no program changes what the first one has.
///
/// # Errors
///
/// If the kernel refuses to read or to write.
pub(crate) fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    size: EntrySize,
    limit: usize,
) -> io::Result<()> {
    let mut keys = vec![0_u8; PIECE * size.key];
    let mut values = vec![0_u8; PIECE * size.value];
    let (keys, values) = (keys.as_mut_ptr() as u64, values.as_mut_ptr() as u64);
    let mut cursor = Cursor::new(size.key);
    let mut left = limit;
    while left > 0 {
        let (count, last) = cursor.read(from, keys, values, PIECE.min(left))?;
        update(to, keys, values, count).map_err(|refused| refused.source)?;
        left -= count;
        if last {
            break;
        }
    }
    Ok(())
}

/// Reads up to so many entries of this size, of whatever table: the bytes of all keys and of all values,
/// each right after the other. What changes meanwhile may be there as it was or as it is.
///
/// # Errors
///
/// If the kernel refuses.
pub(crate) fn read(
    map: BorrowedFd<'_>,
    size: EntrySize,
    limit: usize,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut piece = (vec![0_u8; PIECE * size.key], vec![0_u8; PIECE * size.value]);
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut cursor = Cursor::new(size.key);
    let mut left = limit;
    while left > 0 {
        let to = (piece.0.as_mut_ptr() as u64, piece.1.as_mut_ptr() as u64);
        let (count, last) = cursor.read(map, to.0, to.1, PIECE.min(left))?;
        keys.extend_from_slice(&piece.0[..count * size.key]);
        values.extend_from_slice(&piece.1[..count * size.value]);
        left = left.saturating_sub(count);
        if last {
            break;
        }
    }
    Ok((keys, values))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        os::fd::{AsFd as _, OwnedFd},
    };

    use shunt_skip::skip;

    use super::*;
    use crate::sys::new_map::NewMap;

    /// `BPF_MAP_TYPE_HASH` and `BPF_MAP_TYPE_ARRAY` of `linux/bpf.h`.
    const HASH: u32 = 1;
    const ARRAY: u32 = 2;

    const SIZE: EntrySize = EntrySize { key: 4, value: 8 };

    /// Number of entries: two pieces, and the begin of a third.
    const COUNT: usize = 2 * PIECE + 100;

    type Entries = BTreeMap<u32, u64>;

    fn new_table(kind: u32) -> io::Result<OwnedFd> {
        let map = NewMap {
            kind,
            key_size: SIZE.key as u32,
            value_size: SIZE.value as u32,
            count: COUNT as u32,
            flags: 0,
            inner: 0,
        };
        map.create()
    }

    /// A table with all its entries; `None` if none can be made.
    fn full_table(kind: u32) -> Option<(OwnedFd, Entries)> {
        let table = match new_table(kind) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                skip("needs root");
                return None;
            }
            made => made.unwrap(),
        };
        let entries: Entries = (0..COUNT as u32)
            .map(|key| (key, u64::from(key) * 3 + 1))
            .collect();
        let keys: Vec<u32> = entries.keys().copied().collect();
        let values: Vec<u64> = entries.values().copied().collect();
        insert(table.as_fd(), &keys, &values).unwrap();
        Some((table, entries))
    }

    /// The entries of a table, but for zeros.
    fn entries(table: &OwnedFd) -> Entries {
        let (keys, values) = read(table.as_fd(), SIZE, COUNT).unwrap();
        let (keys, values) = (keys.as_chunks().0, values.as_chunks().0);
        assert_eq!(keys.len(), values.len());
        let keys = keys.iter().map(|key| u32::from_ne_bytes(*key));
        let values = values.iter().map(|value| u64::from_ne_bytes(*value));
        keys.zip(values).filter(|(_, value)| *value != 0).collect()
    }

    #[test]
    fn a_table_of_several_pieces_is_read_and_copied_whole() {
        for kind in [HASH, ARRAY] {
            let Some((table, expected)) = full_table(kind) else {
                return;
            };
            assert!(entries(&table) == expected, "type {kind}: read");
            let copied = new_table(kind).unwrap();
            copy(table.as_fd(), copied.as_fd(), SIZE, COUNT).unwrap();
            assert!(entries(&copied) == expected, "type {kind}: copied");
        }
    }

    #[test]
    fn no_more_entries_are_copied_than_there_is_room_for() {
        const ROOM: usize = PIECE + 5;

        let Some((table, mut expected)) = full_table(ARRAY) else {
            return;
        };
        let copied = new_table(ARRAY).unwrap();
        copy(table.as_fd(), copied.as_fd(), SIZE, ROOM).unwrap();
        expected.retain(|key, _| *key < ROOM as u32);
        assert!(entries(&copied) == expected);
    }
}
