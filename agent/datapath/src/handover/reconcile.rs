//! Making one table what another one is, while packets change both.

use std::io;

/// What can be in two tables.
pub(crate) trait Entry: Copy {
    /// Whether the two are of one connection, with the same translation.
    fn is_of(&self, other: &Self) -> bool;

    /// Takes over what `other`, of the same connection, has seen besides; gives whether that was
    /// anything.
    fn absorb(&mut self, other: &Self) -> bool;
}

/// The table that decides, its entries as they are in the other one's layout.
pub(crate) trait Source {
    /// Of both tables.
    type Key: Copy;
    /// Of the other table.
    type Entry: Entry;

    /// Every entry, in any order. What changes meanwhile may be among them or not.
    fn entries(&self) -> impl Iterator<Item = io::Result<(Self::Key, Self::Entry)>>;

    /// The entry with this key.
    fn get(&self, key: &Self::Key) -> io::Result<Option<Self::Entry>>;
}

/// The table that is to follow.
pub(crate) trait Target<K, E> {
    /// Every key, in any order.
    fn keys(&self) -> io::Result<Vec<K>>;

    /// The entry with this key.
    fn get(&self, key: &K) -> io::Result<Option<E>>;

    /// Adds an entry unless there is one; gives whether there was none.
    fn insert(&mut self, key: &K, entry: &E) -> io::Result<bool>;

    /// Adds an entry in place of any other.
    fn replace(&mut self, key: &K, entry: &E) -> io::Result<()>;

    /// Removes an entry; none there is no error.
    fn remove(&mut self, key: &K) -> io::Result<()>;
}

/// After how many rounds it is enough: what packets repair themselves is no reason to go on.
const ROUNDS: usize = 8;

/// Makes `target` what `source` is. Packets meanwhile change `source` first, then `target`.
///
/// What is read of the one may be out of date when it is written to the other. So this is done
/// until a round finds nothing to do, of which the first copies everything, the second a few.
/// Gives how many entries were written or removed.
///
/// # Errors
///
/// If a table cannot be read or written.
pub(crate) fn reconcile<S: Source>(
    source: &S,
    target: &mut impl Target<S::Key, S::Entry>,
) -> io::Result<usize> {
    let mut all = 0;
    for _ in 0..ROUNDS {
        let repairs = round(source, target)?;
        all += repairs;
        if repairs == 0 {
            break;
        }
    }
    Ok(all)
}

/// What is only in `target` goes first: the other way round, an entry that a packet enters between
/// our two looks at it would be missing at the end of the round.
fn round<S: Source>(source: &S, target: &mut impl Target<S::Key, S::Entry>) -> io::Result<usize> {
    let mut repairs = 0;
    for key in target.keys()? {
        if source.get(&key)?.is_none() {
            target.remove(&key)?;
            repairs += 1;
        }
    }
    for entry in source.entries() {
        let (key, entry) = entry?;
        match target.get(&key)? {
            None => repairs += usize::from(target.insert(&key, &entry)?),
            Some(mut there) if there.is_of(&entry) => {
                if there.absorb(&entry) {
                    target.replace(&key, &there)?;
                }
            }
            Some(there) => {
                // Another connection has the key: which one, `source` says now.
                if let Some(now) = source.get(&key)?
                    && !now.is_of(&there)
                {
                    target.replace(&key, &now)?;
                    repairs += 1;
                }
            }
        }
    }
    Ok(repairs)
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeMap};

    use super::*;

    /// Whose connection it is, and what was seen of it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Seen(u8, u8);

    impl Entry for Seen {
        fn is_of(&self, other: &Self) -> bool {
            self.0 == other.0
        }

        fn absorb(&mut self, other: &Self) -> bool {
            let before = self.1;
            self.1 |= other.1;
            self.1 != before
        }
    }

    type Map = BTreeMap<u8, Seen>;

    /// A table that packets change after the first look at all of it.
    struct Memory {
        entries: RefCell<Map>,
        later: RefCell<Option<Map>>,
    }

    impl Source for Memory {
        type Key = u8;
        type Entry = Seen;

        fn entries(&self) -> impl Iterator<Item = io::Result<(u8, Seen)>> {
            let entries = self.entries.borrow().clone();
            if let Some(later) = self.later.take() {
                self.entries.replace(later);
            }
            entries.into_iter().map(Ok)
        }

        fn get(&self, key: &u8) -> io::Result<Option<Seen>> {
            Ok(self.entries.borrow().get(key).copied())
        }
    }

    impl Target<u8, Seen> for Map {
        fn keys(&self) -> io::Result<Vec<u8>> {
            Ok(self.keys().copied().collect())
        }

        fn get(&self, key: &u8) -> io::Result<Option<Seen>> {
            Ok(Self::get(self, key).copied())
        }

        fn insert(&mut self, key: &u8, entry: &Seen) -> io::Result<bool> {
            let is_new = !self.contains_key(key);
            self.entry(*key).or_insert(*entry);
            Ok(is_new)
        }

        fn replace(&mut self, key: &u8, entry: &Seen) -> io::Result<()> {
            Self::insert(self, *key, *entry);
            Ok(())
        }

        fn remove(&mut self, key: &u8) -> io::Result<()> {
            Self::remove(self, key);
            Ok(())
        }
    }

    fn memory(entries: &[(u8, Seen)], later: Option<&[(u8, Seen)]>) -> Memory {
        let map = |entries: &[(u8, Seen)]| entries.iter().copied().collect::<Map>();
        Memory {
            entries: RefCell::new(map(entries)),
            later: RefCell::new(later.map(map)),
        }
    }

    #[test]
    fn an_empty_table_gets_everything() {
        let source = memory(&[(1, Seen(1, 1)), (2, Seen(2, 3))], None);
        let mut target = Map::new();
        assert_eq!(reconcile(&source, &mut target).unwrap(), 2);
        assert_eq!(target, *source.entries.borrow());
    }

    #[test]
    fn what_both_have_keeps_what_either_has_seen() {
        let source = memory(&[(1, Seen(1, 0b01))], None);
        let mut target = Map::from([(1, Seen(1, 0b10))]);
        assert_eq!(reconcile(&source, &mut target).unwrap(), 0);
        assert_eq!(target, Map::from([(1, Seen(1, 0b11))]));
    }

    #[test]
    fn what_is_left_of_a_draft_goes() {
        let source = memory(&[(1, Seen(1, 1))], None);
        let mut target = Map::from([(1, Seen(9, 1)), (2, Seen(2, 1))]);
        assert_eq!(reconcile(&source, &mut target).unwrap(), 2);
        assert_eq!(target, *source.entries.borrow());
    }

    #[test]
    fn what_changes_while_it_is_copied_is_found() {
        let before = [(1, Seen(1, 1)), (2, Seen(2, 1)), (3, Seen(3, 1))];
        let later = [(2, Seen(7, 1)), (3, Seen(3, 1)), (4, Seen(4, 1))];
        let source = memory(&before, Some(&later));
        let mut target = Map::new();
        reconcile(&source, &mut target).unwrap();
        assert_eq!(target, later.into_iter().collect());
    }
}
