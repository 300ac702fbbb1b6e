//! Source ranges: one list or the other, after every write.

use ipnet::IpNet;
use shunt_common::SourceRange;

use super::*;

fn with_sources(set: &Arc<BackendSet>, sources: &[&str]) -> Frontend {
    let mut sources: Vec<IpNet> = sources.iter().map(|range| range.parse().unwrap()).collect();
    sources.sort();
    Frontend {
        sources: sources.into(),
        ..frontend(set)
    }
}

/// Returns the clients that may use the frontend, as a packet finds it: every range of the list that its cell names, or
/// `None` if everyone may.
fn allowed(tables: &MemoryTables<V4>) -> Option<BTreeSet<(u32, u32)>> {
    let index = tables.frontends.get(&key(80))?;
    let cell = tables.cells[*index as usize];
    if !cell.has(Cell::RANGES) {
        return None;
    }
    let frontend = key(80).scoped(u8::from(cell.has(Cell::SECOND_RANGES)));
    let list = tables.source_ranges.iter();
    let list = list.filter(|(_, range)| range.frontend == frontend);
    Some(list.map(|(bits, range)| (*bits, range.client)).collect())
}

fn list(sources: &[&str]) -> Option<BTreeSet<(u32, u32)>> {
    let range = |text: &&str| {
        let range: IpNet = text.parse().unwrap();
        let bits = SourceRange::<V4>::FRONTEND_BITS + u32::from(range.prefix_len());
        (bits, V4::address(range.network()).unwrap())
    };
    (!sources.is_empty()).then(|| sources.iter().map(range).collect())
}

#[test]
fn a_list_is_replaced_at_once_and_nothing_of_the_old_one_stays() {
    const LISTS: [&[&str]; 6] = [
        &["10.0.0.0/8", "192.0.2.0/24"],
        &["192.0.2.0/24"],
        &["192.0.2.0/24", "10.0.0.0/8", "10.1.0.0/16"],
        &[],
        &["10.1.0.0/16"],
        &["10.1.0.0/16"],
    ];
    let mut publisher = publisher();
    let mut before: &[&str] = &[];
    for (round, sources) in LISTS.into_iter().enumerate() {
        let set = set("web", &[(round as u8, 1)]);
        publisher.tables.tables.states.clear();
        publisher
            .publish(&[(key(80), &with_sources(&set, sources))], &[])
            .unwrap();
        for state in &publisher.tables.tables.states {
            let seen = allowed(state);
            // Before the first one there is no frontend.
            assert!(
                seen == list(before) || seen == list(sources),
                "{before:?} or {sources:?}, not {seen:?}"
            );
        }
        assert_eq!(allowed(&publisher.tables().inner), list(sources));
        publisher.reclaim().unwrap();
        assert_eq!(publisher.tables().inner.source_ranges.len(), sources.len());
        before = sources;
    }
    publisher.publish(&[], &[key(80)]).unwrap();
    publisher.reclaim().unwrap();
    assert!(publisher.tables().inner.source_ranges.is_empty());
}

#[test]
fn a_resync_repairs_a_list_and_leaves_a_right_one_alone() {
    let mut publisher = publisher();
    let web = with_sources(&set("web", &[(1, 1)]), &["10.0.0.0/8", "192.0.2.0/24"]);
    publisher.resync(&[(key(80), &web)]).unwrap();
    let right = publisher.tables().inner.source_ranges.clone();
    let writes = publisher.writes();
    publisher.resync(&[(key(80), &web)]).unwrap();
    assert_eq!(publisher.writes(), writes, "nothing to repair");

    let ranges = &mut publisher.tables.tables.inner.source_ranges;
    let one = *ranges.iter().next().unwrap();
    ranges.remove(&one);
    let (bits, mut foreign) = one;
    foreign.client ^= 1;
    ranges.insert((bits, foreign));
    foreign.frontend = key(4711);
    ranges.insert((bits, foreign));
    publisher.resync(&[(key(80), &web)]).unwrap();
    let unscoped = |ranges: &std::collections::HashSet<(u32, SourceRange<V4>)>| {
        let ranges = ranges.iter();
        ranges
            .map(|(bits, range)| (*bits, range.client, range.frontend.port))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        unscoped(&publisher.tables().inner.source_ranges),
        unscoped(&right)
    );
    assert_eq!(
        allowed(&publisher.tables().inner),
        list(&["10.0.0.0/8", "192.0.2.0/24"])
    );
}
