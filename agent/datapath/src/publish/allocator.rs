//! The owners of a table's parts: single indexes and contiguous ranges.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;

/// Hands out indexes below a capacity, the last freed first.
#[derive(Debug)]
pub(crate) struct IndexAllocator {
    capacity: u32,
    next: u32,
    freed: Vec<u32>,
}

impl IndexAllocator {
    /// All indexes below `capacity` are free.
    pub(crate) const fn new(capacity: u32) -> Self {
        Self {
            capacity,
            next: 0,
            freed: Vec::new(),
        }
    }

    /// All indexes below `capacity` are free but those of `used`.
    pub(crate) fn with_used(capacity: u32, used: &FixedBitSet) -> Self {
        let next = used
            .maximum()
            .map_or(0, |last| last as u32 + 1)
            .min(capacity);
        Self {
            capacity,
            next,
            freed: (0..next)
                .rev()
                .filter(|index| !used.contains(*index as usize))
                .collect(),
        }
    }

    /// Returns the number of free indexes.
    pub(crate) fn free_count(&self) -> u32 {
        self.freed.len() as u32 + self.capacity - self.next
    }

    /// An index without an owner, or `None` if there is none.
    pub(crate) fn allocate(&mut self) -> Option<u32> {
        self.freed.pop().or_else(|| {
            (self.next < self.capacity).then(|| {
                self.next += 1;
                self.next - 1
            })
        })
    }

    /// Takes back an index that [`Self::allocate`] gave.
    pub(crate) fn free(&mut self, index: u32) {
        self.freed.push(index);
    }
}

/// Hands out contiguous ranges, each the smallest free one that fits; neighbours that are free
/// become one.
#[derive(Debug)]
pub(crate) struct RangeAllocator {
    /// Free ranges: offset to length.
    by_offset: BTreeMap<u32, u32>,
    /// The same: (length, offset).
    by_length: BTreeSet<(u32, u32)>,
}

impl RangeAllocator {
    /// Everything below `capacity` is free.
    pub(crate) fn new(capacity: u32) -> Self {
        let mut allocator = Self {
            by_offset: BTreeMap::new(),
            by_length: BTreeSet::new(),
        };
        if capacity > 0 {
            allocator.insert(0, capacity);
        }
        allocator
    }

    /// Everything below `capacity` is free but the ranges of `used`, (offset, length), which are
    /// sorted and do not overlap.
    pub(crate) fn with_used(capacity: u32, used: &[(u32, u32)]) -> Self {
        let mut allocator = Self::new(0);
        let mut end = 0;
        for &(offset, length) in used.iter().chain([&(capacity, 0)]) {
            if offset > end {
                allocator.insert(end, offset - end);
            }
            end = offset + length;
        }
        allocator
    }

    /// Returns the number of free indexes, in any number of pieces.
    pub(crate) fn free_count(&self) -> u32 {
        self.by_offset.values().sum()
    }

    /// The offset of a range of `length`, or `None` if no free range is that long. A range of
    /// length 0 is at offset 0 and takes nothing.
    pub(crate) fn allocate(&mut self, length: u32) -> Option<u32> {
        if length == 0 {
            return Some(0);
        }
        let &(free, offset) = self.by_length.range((length, 0)..).next()?;
        self.remove(offset, free);
        if free > length {
            self.insert(offset + length, free - length);
        }
        Some(offset)
    }

    /// Takes back a range that [`Self::allocate`] gave.
    pub(crate) fn free(&mut self, mut offset: u32, mut length: u32) {
        if length == 0 {
            return;
        }
        if let Some((&before, &free)) = self.by_offset.range(..offset).next_back()
            && before + free == offset
        {
            self.remove(before, free);
            offset = before;
            length += free;
        }
        if let Some(&free) = self.by_offset.get(&(offset + length)) {
            self.remove(offset + length, free);
            length += free;
        }
        self.insert(offset, length);
    }

    fn insert(&mut self, offset: u32, length: u32) {
        self.by_offset.insert(offset, length);
        self.by_length.insert((length, offset));
    }

    fn remove(&mut self, offset: u32, length: u32) {
        self.by_offset.remove(&offset);
        self.by_length.remove(&(length, offset));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_index_is_given_once_until_it_is_freed() {
        let mut allocator = IndexAllocator::new(2);
        assert_eq!(
            (allocator.allocate(), allocator.allocate()),
            (Some(0), Some(1))
        );
        assert_eq!(allocator.allocate(), None, "two indexes, both taken");
        allocator.free(0);
        assert_eq!(allocator.free_count(), 1);
        assert_eq!(allocator.allocate(), Some(0));
    }

    #[test]
    fn what_is_used_is_not_given() {
        let mut indexes = IndexAllocator::with_used(4, &FixedBitSet::from_iter([0, 2]));
        assert_eq!(indexes.free_count(), 2);
        let given = [indexes.allocate(), indexes.allocate(), indexes.allocate()];
        assert_eq!(given, [Some(1), Some(3), None]);

        let mut ranges = RangeAllocator::with_used(10, &[(0, 2), (4, 1), (5, 2)]);
        assert_eq!(ranges.free_count(), 5);
        assert_eq!((ranges.allocate(3), ranges.allocate(2)), (Some(7), Some(2)));
        assert_eq!(ranges.allocate(1), None);
        ranges.free(4, 1);
        assert_eq!(ranges.allocate(1), Some(4));
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_all_come_back(
            steps in proptest::collection::vec((any::<bool>(), 0u32..40, any::<prop::sample::Index>()), 1..200),
        ) {
            const CAPACITY: u32 = 256;
            let mut allocator = RangeAllocator::new(CAPACITY);
            let mut taken: Vec<(u32, u32)> = Vec::new();
            for (allocate, length, which) in steps {
                if allocate {
                    let Some(offset) = allocator.allocate(length) else { continue };
                    for (other, other_length) in &taken {
                        prop_assert!(
                            length == 0 || *other_length == 0
                                || offset + length <= *other || other + other_length <= offset,
                        );
                    }
                    prop_assert!(offset + length <= CAPACITY);
                    taken.push((offset, length));
                } else if !taken.is_empty() {
                    let (offset, length) = taken.swap_remove(which.index(taken.len()));
                    allocator.free(offset, length);
                }
                let held: u32 = taken.iter().map(|(_, length)| length).sum();
                prop_assert_eq!(allocator.free_count(), CAPACITY - held);
            }
            for (offset, length) in taken {
                allocator.free(offset, length);
            }
            prop_assert_eq!(allocator.allocate(CAPACITY), Some(0), "all is one range again");
        }
    }
}
