//! Tables that hold anything at all. `cargo xtask fuzz tables` runs this for longer.

use bytemuck::Zeroable as _;

use super::*;
use crate::publish::read_back;

/// Source of an input: bytes, and zeros after their end.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Any word, or more often one that may be an index here.
    fn word(&mut self) -> u32 {
        let low = self.byte();
        if low < 192 {
            u32::from(low % 16)
        } else {
            u32::from_ne_bytes([low, self.byte(), self.byte(), self.byte()])
        }
    }

    fn cell(&mut self) -> Cell {
        let kind = self.byte();
        if kind < 128 {
            let (offset, count) = (self.byte(), self.byte());
            Cell::new((offset % 64).into(), (count % 64).into(), (kind % 4).into())
        } else {
            Cell::from_word(u64::from(self.word()) << 32 | u64::from(self.word()))
        }
    }

    fn key(&mut self) -> FrontendKey<V4> {
        let kind = self.byte();
        let ours = FrontendKey {
            scope: kind % 4 / 3,
            ..key(78 + u16::from(kind) % 8)
        };
        if kind < 192 {
            ours
        } else {
            FrontendKey {
                address: self.word(),
                protocol: self.byte(),
                scope: self.byte(),
                ..ours
            }
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for _ in 0..self.byte() % 4 {
            let port = 80 + u16::from(self.byte() % 4);
            let mut backends = BTreeMap::new();
            for _ in 0..self.byte() % 4 {
                backends.insert(1 + self.byte() % 5, u32::from(self.byte() % 4));
            }
            snapshot.insert(port, backends);
        }
        snapshot
    }

    fn tables(&mut self) -> MemoryTables<V4> {
        let mut tables = MemoryTables::new(CAPACITY);
        for _ in 0..self.byte() % 16 {
            let (key, index) = (self.key(), self.word());
            tables.frontends.insert(key, index);
        }
        for _ in 0..self.byte() % 4 {
            let mut range = SourceRange::zeroed();
            bytemuck::bytes_of_mut(&mut range)
                .iter_mut()
                .for_each(|byte| *byte = self.byte());
            tables.source_ranges.insert((self.word(), range));
        }
        tables.cells.fill_with(|| self.cell());
        let places = tables.slots.len().min(24);
        for slot in &mut tables.slots[..places] {
            *slot = bytemuck::cast([self.word(), self.word(), self.word(), self.word()]);
        }
        let places = tables.backends.len().min(12);
        for backend in &mut tables.backends[..places] {
            *backend = bytemuck::cast([self.word(), self.word(), self.word(), self.word()]);
        }
        tables
    }
}

#[test]
fn whatever_tables_hold_is_shown_and_put_right() {
    bolero::check!().with_max_len(1024).for_each(|bytes| {
        let mut words = Words(bytes);
        let next = words.snapshot();
        let tables = Watched {
            inner: words.tables(),
            ..Watched::new(CAPACITY)
        };
        read_back::read::<V4, _>(&tables).unwrap();
        let before = tables.view();
        let mut publisher = successor(tables);
        match resync(&mut publisher, &next) {
            Ok(_) => {}
            // Foreign cells may reach every slot; what packets can reach is not overwritten.
            Err(TableError::Full { .. }) => {
                assert_eq!(publisher.tables().view(), before, "nothing was published");
                return;
            }
            Err(error) => panic!("{error}"),
        }
        let tables = publisher.tables();
        assert_eq!(tables.view(), expected(&next));
        assert_eq!(tables.inner.frontends.len(), next.len(), "nothing foreign");
        assert!(
            tables.inner.source_ranges.is_empty(),
            "nobody asked for any"
        );
        assert_eq!(read_back::read::<V4, _>(tables).unwrap().len(), next.len());
        assert_tidy(&mut publisher, &next);
    });
}
