//! Tables that are read back: of an agent that was killed, or changed by someone else.

use super::*;

mod fuzz;

/// The snapshot: for each port the backends of its service.
type Snapshot = BTreeMap<u16, BTreeMap<u8, u32>>;

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let backends = prop::collection::btree_map(1u8..6, 0u32..4, 0..4);
    prop::collection::btree_map(80u16..84, backends, 0..4)
}

/// The frontends of a snapshot. Ports 82 and 83 are the same service's, as ClusterIP and NodePort
/// are, if they have the same backends.
fn rendered(snapshot: &Snapshot) -> BTreeMap<u16, Frontend> {
    let mut frontends = BTreeMap::new();
    for (port, backends) in snapshot {
        let shared = *port == 83 && snapshot.get(&82) == Some(backends);
        let service = if shared { 82 } else { *port };
        let backends: Vec<_> = backends
            .iter()
            .map(|(last, weight)| (*last, *weight))
            .collect();
        frontends.insert(*port, frontend(&set(&service.to_string(), &backends)));
    }
    frontends
}

fn resync(publisher: &mut Publisher<V4, Watched>, snapshot: &Snapshot) -> Result<u64, TableError> {
    let frontends = rendered(snapshot);
    let wanted: Vec<_> = frontends
        .iter()
        .map(|(port, new)| (key(*port), new))
        .collect();
    let before = publisher.writes();
    publisher.resync(&wanted)?;
    Ok(publisher.writes() - before)
}

/// Returns the view that packets are to have after a Resync with this snapshot.
fn expected(snapshot: &Snapshot) -> View {
    let view = |(port, frontend): (u16, Frontend)| {
        let backends = &frontend.backends.backends;
        let unusable = backends.iter().all(|backend| backend.weight == 0);
        let listed = backends.iter().map(|b| (b.ip, b.weight)).collect();
        let flags = (u16::from(unusable) * Cell::UNUSABLE) | Cell::CLUSTER_IP;
        (port, (listed, flags))
    };
    rendered(snapshot).into_iter().map(view).collect()
}

/// An agent that starts on these tables.
fn successor(mut tables: Watched) -> Publisher<V4, Watched> {
    tables.views.clear();
    tables.writes_left = usize::MAX;
    Publisher::new(tables)
}

/// Every slot selects by the weights, and nothing is held but what the frontends use.
fn assert_tidy(publisher: &mut Publisher<V4, Watched>, snapshot: &Snapshot) {
    let tables = &publisher.tables().inner;
    for cell in tables
        .frontends
        .values()
        .map(|index| tables.cells[*index as usize])
    {
        let slots = &tables.slots[cell.offset() as usize..][..cell.count() as usize];
        let indexes: Vec<_> = slots.iter().map(|slot| slot.backend).collect();
        let weights: Vec<_> = indexes
            .iter()
            .map(|index| tables.backends[*index as usize].weight)
            .collect();
        assert_eq!(slots, shunt_common::fill_slots(&indexes, &weights, 0));
    }
    assert_eq!(
        resync(publisher, snapshot).unwrap(),
        0,
        "the same snapshot again writes nothing"
    );
    resync(publisher, &Snapshot::new()).unwrap();
    assert_eq!(
        publisher.slots.free_count(),
        CAPACITY.slots,
        "no slot leaks"
    );
    assert_eq!(
        publisher.backends.free_count(),
        CAPACITY.backends,
        "no backend leaks"
    );
    assert_eq!(
        publisher.indexes.free_count(),
        CAPACITY.frontends,
        "no index leaks"
    );
    for backend in &publisher.tables().inner.backends {
        assert_eq!((backend.address, backend.port), (0, 0), "all are cleared");
    }
}

#[test]
fn an_agent_that_restarts_writes_nothing() {
    let snapshot = Snapshot::from([
        (80, BTreeMap::from([(1, 1), (2, 3)])),
        (81, BTreeMap::new()),
        (82, BTreeMap::from([(1, 1)])),
        (83, BTreeMap::from([(1, 1)])),
    ]);
    let mut first = publisher();
    assert!(resync(&mut first, &snapshot).unwrap() > 0);
    let mut second = successor(first.tables.tables);
    assert_eq!(resync(&mut second, &snapshot).unwrap(), 0);
    assert_eq!(second.tables().view(), expected(&snapshot));
    assert_tidy(&mut second, &snapshot);
}

#[test]
fn connections_remember_their_backends_over_a_restart_with_changes() {
    let mut first = publisher();
    let before = Snapshot::from([(80, BTreeMap::from([(1, 1), (2, 1)]))]);
    resync(&mut first, &before).unwrap();
    let stays = remembered(&first, 80, 1);
    let (gone, generation) = remembered(&first, 80, 2);
    let mut second = successor(first.tables.tables);
    let after = Snapshot::from([(80, BTreeMap::from([(1, 5), (3, 1)]))]);
    resync(&mut second, &after).unwrap();
    assert_eq!(remembered(&second, 80, 1), stays);
    assert_ne!(second.tables().backend(gone).generation, generation);
}

#[test]
fn a_flow_of_an_agent_that_was_killed_does_not_match_another_backend() {
    let mut first = publisher();
    let snapshot = |last: u8| Snapshot::from([(80, BTreeMap::from([(last, 1)]))]);
    resync(&mut first, &snapshot(1)).unwrap();
    let old = remembered(&first, 80, 1);
    // Killed when the cell is replaced, before the old backend gets a new generation: a backend,
    // a slot and the cell.
    first.tables.tables.writes_left = 3;
    resync(&mut first, &snapshot(2)).unwrap();
    let mut second = successor(first.tables.tables);
    assert_eq!(second.tables().view(), expected(&snapshot(2)));
    assert_eq!(second.tables().backend(old.0).generation, old.1);
    resync(&mut second, &snapshot(2)).unwrap();
    assert_ne!(second.tables().backend(old.0).generation, old.1);
}

#[test]
fn a_resync_that_does_not_fit_changes_nothing() {
    let small = Snapshot::from([(80, BTreeMap::from([(1, 1)]))]);
    let mut publisher = publisher();
    resync(&mut publisher, &small).unwrap();
    let large: Snapshot = Snapshot::from([
        (80, BTreeMap::from([(2, 1)])),
        (81, (0..40).map(|last| (last, 1)).collect()),
    ]);
    let error = resync(&mut publisher, &large).unwrap_err();
    assert!(matches!(error, TableError::Full { .. }), "{error}");
    assert_eq!(publisher.tables().view(), expected(&small));
    publisher.tables.tables.inserts_left = 0;
    let other = Snapshot::from([(80, BTreeMap::from([(2, 1)])), (81, BTreeMap::new())]);
    let error = resync(&mut publisher, &other).unwrap_err();
    assert!(matches!(error, TableError::Kernel { .. }), "{error}");
    assert_eq!(publisher.tables().view(), expected(&small));
    publisher.tables.tables.inserts_left = usize::MAX;
    let web = frontend(&set("80", &[(3, 1)]));
    publisher.publish(&[(key(80), &web)], &[]).unwrap();
    let last = Snapshot::from([(80, BTreeMap::from([(3, 1)]))]);
    assert_eq!(publisher.tables().view(), expected(&last));
    // What the failures wrote into free space, this one clears.
    resync(&mut publisher, &last).unwrap();
    assert_tidy(&mut publisher, &last);
}

/// Damage that another process may do to the tables.
#[derive(Debug, Clone)]
enum Damage {
    Entry { port: u16, scope: u8, index: u32 },
    Removal { port: u16 },
    Cell { index: u32, word: u64 },
    Slot { index: usize, slot: [u32; 4] },
    Backend { index: usize, words: [u32; 4] },
}

fn damage() -> impl Strategy<Value = Damage> {
    let word = || prop_oneof![0u32..12, any::<u32>()];
    prop_oneof![
        (78u16..86, 0u8..2, word()).prop_map(|(port, scope, index)| Damage::Entry {
            port,
            scope,
            index
        }),
        (80u16..84).prop_map(|port| Damage::Removal { port }),
        (
            0..CAPACITY.frontends,
            prop_oneof![
                any::<u64>(),
                (0u32..64, 0u32..64, 0u16..4)
                    .prop_map(|(offset, count, flags)| Cell::new(offset, count, flags).word()),
            ]
        )
            .prop_map(|(index, word)| Damage::Cell { index, word }),
        (0usize..12, [word(), word(), word(), word()])
            .prop_map(|(index, slot)| Damage::Slot { index, slot }),
        (0usize..12, [word(), word(), word(), word()])
            .prop_map(|(index, words)| Damage::Backend { index, words }),
    ]
}

impl Damage {
    fn apply(self, tables: &mut MemoryTables<V4>) {
        match self {
            Self::Entry { port, scope, index } => {
                let key = FrontendKey { scope, ..key(port) };
                tables.frontends.insert(key, index);
            }
            Self::Removal { port } => drop(tables.frontends.remove(&key(port))),
            Self::Cell { index, word } => tables.cells[index as usize] = Cell::from_word(word),
            Self::Slot { index, slot } => tables.slots[index] = bytemuck::cast(slot),
            Self::Backend { index, words } => tables.backends[index] = bytemuck::cast(words),
        }
    }
}

proptest! {
    #[test]
    fn after_a_kill_at_any_write_the_next_agent_converges(
        life in prop::collection::vec(snapshot(), 1..6),
        writes in 0usize..120,
        next in snapshot(),
        untidy: bool,
    ) {
        let mut first = publisher();
        first.tables.tables.writes_left = writes;
        for snapshot in &life {
            if untidy {
                let frontends = rendered(snapshot);
                let wanted: Vec<_> =
                    frontends.iter().map(|(port, new)| (key(*port), new)).collect();
                let known: Vec<_> = first.frontends.keys().copied().collect();
                let removed: Vec<_> = known
                    .into_iter()
                    .filter(|known| wanted.iter().all(|(key, _)| key != known))
                    .collect();
                if let Err(error) = first.publish(&wanted, &removed) {
                    // What is retired is the room that is left, as for both families.
                    assert!(matches!(error, TableError::Full { .. }), "{error}");
                    first.reclaim().unwrap();
                    first.publish(&wanted, &removed).unwrap();
                }
            } else {
                resync(&mut first, snapshot).unwrap();
            }
            if first.tables.tables.writes_left == 0 {
                break;
            }
        }
        let mut second = successor(first.tables.tables);
        let before = second.tables().view();
        resync(&mut second, &next).unwrap();
        let after = expected(&next);
        prop_assert_eq!(&second.tables().view(), &after);
        for view in &second.tables().views {
            for port in 80..84 {
                // A weight may be listed early: packets select by slots.
                let backends = |view: &View| view.get(&port).map(|(backends, flags)| {
                    (backends.iter().map(|(ip, _)| *ip).collect::<Vec<_>>(), *flags)
                });
                let seen = backends(view);
                prop_assert!(
                    seen == backends(&before) || seen == backends(&after),
                    "port {port}: {seen:?} is neither old nor new"
                );
            }
        }
        assert_tidy(&mut second, &next);
    }

    #[test]
    fn a_resync_repairs_whatever_was_done_to_the_tables(
        before in snapshot(),
        damage in prop::collection::vec(damage(), 1..12),
        next in snapshot(),
        restart: bool,
    ) {
        let mut publisher = publisher();
        resync(&mut publisher, &before).unwrap();
        for damage in damage {
            damage.apply(&mut publisher.tables.tables.inner);
        }
        if restart {
            publisher = successor(publisher.tables.tables);
        }
        match resync(&mut publisher, &next) {
            Ok(_) => {}
            // Foreign cells may reach every slot; what packets can reach is not overwritten.
            Err(TableError::Full { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
        prop_assert_eq!(publisher.tables().view(), expected(&next));
        prop_assert_eq!(publisher.tables().inner.frontends.len(), next.len(), "nothing foreign");
        assert_tidy(&mut publisher, &next);
    }
}

#[test]
fn the_first_resync_marks_the_node_ports_of_an_agent_that_did_not() {
    let mut node_port = frontend(&set("web", &[(1, 1), (2, 3)]));
    node_port.kind = FrontendKind::NodePort;
    let mut first = publisher();
    first.resync(&[(key(80), &node_port)]).unwrap();
    let mut tables = first.tables.tables;
    let unmarked = |cell: Cell| {
        let flags = cell.flags() & !Cell::NODE_PORT;
        Cell::new(cell.offset(), cell.count(), flags)
    };
    for cell in &mut tables.inner.cells {
        *cell = unmarked(*cell);
    }
    let before = tables.view();
    let mut second = successor(tables);
    second.resync(&[(key(80), &node_port)]).unwrap();
    assert_eq!(second.writes(), 1, "the cell alone is written");
    let (backends, flags) = &before[&80];
    let marked = (backends.clone(), flags | Cell::NODE_PORT);
    assert_eq!(second.tables().view(), View::from([(80, marked)]));
}
