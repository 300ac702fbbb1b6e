//! Invariants of a table while no thread is at work in it.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::connections::{
    Hints, Key, Kind, Link, Memory, Meta, Role, Slot, Table,
    pair::{Half, Other},
    slot::place,
};

/// Checks the table: no slot is held; halves come in pairs that refer to each other; each key is there
/// once; hints lead to the halves that are away from home, and to nothing else. Returns the number of
/// connections.
pub(crate) fn check<M: Memory>(table: &Table<'_, M>) -> usize {
    let slots: Vec<M::Slot> = (0..)
        .map_while(|index| table.memory().slot(index))
        .collect();
    let mut keys = BTreeSet::new();
    let mut hinted = BTreeSet::new();
    for (index, slot) in slots.iter().enumerate() {
        let mut distances = Hints(slot.load(place::HINTS)).distances();
        while distances != 0 {
            let distance = distances as usize & 0xff;
            if distance != 0 {
                assert!(hinted.insert(index + distance), "two hints to one slot");
            }
            distances >>= 8;
        }
    }
    let mut forward = 0;
    for (index, slot) in slots.iter().enumerate() {
        let meta = Meta(slot.load(place::META));
        match meta.kind() {
            Kind::Free => {}
            Kind::Busy | Kind::Pending => panic!("slot {index} is held by nobody"),
            Kind::Live => {
                let half = Half {
                    index: index as u32,
                    slot: *slot,
                    meta,
                };
                let Other::Live(other) = table.other(half.slot) else {
                    panic!("half {index} is alone");
                };
                let back = Link(other.slot.load(place::LINK));
                assert_eq!((back.index(), back.version()), (half.index, meta.version()));
                assert_ne!(other.meta.role(), meta.role());
                assert_eq!(other.meta.protocol(), meta.protocol());
                let key = Key::<M::Family>::of_slot(*slot);
                assert!(
                    keys.insert(alloc::format!("{key:?}")),
                    "{key:?} is there twice"
                );
                assert_eq!(
                    table.find(&key).map(|hit| hit.index),
                    Some(half.index),
                    "{key:?} is not found"
                );
                assert_eq!(hinted.remove(&index), meta.distance() != 0);
                forward += usize::from(meta.role() == Role::Forward);
            }
        }
    }
    assert!(hinted.is_empty(), "hints to nobody: {hinted:?}");
    assert_eq!(keys.len(), 2 * forward);
    forward
}
