//! The registry by itself.

use alloc::collections::BTreeSet;

use super::*;

#[test]
fn a_name_is_one_maps_alone() {
    let names: BTreeSet<&str> = maps().map(|map| map.name).collect();
    assert_eq!(names.len(), maps().count());
    let shown: BTreeSet<&str> = maps().map(|map| map.shown).collect();
    assert_eq!(shown.len(), maps().count());
}

#[test]
fn what_a_flag_sizes_is_no_scratch() {
    for map in maps() {
        let sized = !matches!(
            map.size,
            Size::Fixed | Size::Redirect | Size::Xdp | Size::Flows
        );
        assert!(!sized || map.kind != Kind::Scratch, "{map:?}");
    }
}
