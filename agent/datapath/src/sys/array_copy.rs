//! Copying what is in an array table by its memory: the kernel's own batches read an array entry by entry.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use memmap2::MmapOptions;

/// What the kernel rounds every value up to (`array_map_alloc` in `kernel/bpf/arraymap.c`).
const WORD: usize = size_of::<u64>();

/// The values of a `BPF_MAP_TYPE_ARRAY` with `BPF_F_MMAPABLE` (Linux 5.5), one right after the other: it has `count`
/// of `size` bytes. What changes meanwhile may be there as it was or as it is, word by word.
///
/// # Errors
///
/// If the kernel refuses to map it.
pub(crate) fn values(map: BorrowedFd<'_>, size: usize, count: u32) -> io::Result<Vec<u8>> {
    let words = size.div_ceil(WORD);
    let memory = MmapOptions::new()
        .len(count as usize * words * WORD)
        .map_raw_read_only(map.as_raw_fd())?;
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a mapping begins where a page does"
    )]
    let first = memory.as_ptr().cast::<u64>();
    let mut values = Vec::with_capacity(count as usize * size);
    let mut value = vec![0_u64; words];
    for entry in 0..count as usize {
        for (number, word) in value.iter_mut().enumerate() {
            // SAFETY: the mapping has `count` times `words` words, and begins at a page; volatile, as programs and
            // the agent write there.
            *word = unsafe { first.add(entry * words + number).read_volatile() };
        }
        values.extend_from_slice(&bytemuck::cast_slice(&value)[..size]);
    }
    Ok(values)
}
