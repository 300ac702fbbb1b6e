//! The publish order, watched write by write.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use proptest::prelude::*;
use shunt_common::{Cell, FrontendKey, SourceRange, TCP, V4, registry::Size};

use shunt_model::{
    BackendSet, Clients, Forwarding, Frontend, FrontendKind, Masquerade, PortPart, Refusal, Scopes,
    ServiceId, TrafficPolicy,
};

use crate::{
    error::TableError,
    maps::{
        family::FromIp,
        memory_tables::MemoryTables,
        tables::{Capacity, Tables},
    },
    publish::publisher::Publisher,
};

mod maglev;
mod owners;
mod resync;
mod source_ranges;
mod splits;
mod watched;

use watched::{View, Watched};

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// One family's change by itself, with the steps that [`crate::datapath::DualPublisher`] takes
    /// in both.
    pub(crate) fn publish(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
        removed: &[FrontendKey<F>],
    ) -> Result<(), TableError> {
        if self.is_blocked(wanted) {
            self.reclaim()?;
        }
        carry_out(self.stage(wanted, removed)?)
    }

    /// One family's Resync by itself.
    fn resync(&mut self, wanted: &[(FrontendKey<F>, &Frontend)]) -> Result<(), TableError> {
        self.reclaim()?;
        carry_out(self.stage_resync(wanted)?)?;
        self.reclaim()
    }

    /// The tables, for someone else to write into.
    pub(crate) const fn tables_mut(&mut self) -> &mut T {
        &mut self.tables.tables
    }

    fn reclaim(&mut self) -> Result<(), TableError> {
        self.wait_for_readers()?;
        self.free_retired();
        Ok(())
    }
}

fn carry_out<F: FromIp, T: Tables<F>>(
    mut change: super::change::Change<'_, F, T>,
) -> Result<(), TableError> {
    change.insert()?;
    change.commit();
    Ok(())
}

const CAPACITY: Capacity = Capacity {
    frontends: 8,
    slots: 64,
    backends: 32,
};

fn key(port: u16) -> FrontendKey<V4> {
    FrontendKey::new(u32::from_ne_bytes([10, 96, 0, 1]), port.to_be(), TCP)
}

/// A set of the service `name` with these backends: (last byte of the address, weight).
fn set(name: &str, backends: &[(u8, u32)]) -> Arc<BackendSet> {
    Arc::new(BackendSet {
        service: Arc::new(ServiceId {
            namespace: "default".into(),
            name: name.into(),
        }),
        port: "http".into(),
        affinity_timeout: 0,
        maglev: None,
        part: PortPart::Main,
        split: None,
        backends: backends
            .iter()
            .map(|(last, weight)| shunt_model::Backend {
                ip: Ipv4Addr::new(10, 1, 1, *last).into(),
                port: 8080,
                weight: *weight,
                local: true,
                scopes: Scopes {
                    cluster: true,
                    local: true,
                },
            })
            .collect(),
    })
}

fn frontend(backends: &Arc<BackendSet>) -> Frontend {
    Frontend {
        kind: FrontendKind::ClusterIp,
        policy: TrafficPolicy::Cluster,
        clients: Clients::Everyone,
        forwarding: Forwarding::Snat,
        masquerade: Masquerade::Off,
        refusal: Refusal::Reject,
        this_node: None,
        with_draining: None,
        sources: Arc::default(),
        backends: Arc::clone(backends),
    }
}

fn publisher() -> Publisher<V4, Watched> {
    Publisher::new(Watched::new(CAPACITY))
}

/// The index of the backend with this last byte, as connections remember it, and its generation.
fn remembered(publisher: &Publisher<V4, Watched>, port: u16, last: u8) -> (u32, u16) {
    let tables = &publisher.tables().inner;
    let cell = tables.cells[tables.frontends[&key(port)] as usize];
    let slots = &tables.slots[cell.offset() as usize..][..cell.count() as usize];
    let address = u32::from_ne_bytes([10, 1, 1, last]);
    let index = slots
        .iter()
        .map(|slot| slot.backend)
        .find(|index| tables.backends[*index as usize].address == address)
        .unwrap();
    (index, tables.backends[index as usize].generation)
}

#[test]
fn frontends_of_one_service_port_share_a_slice() {
    let mut publisher = publisher();
    let web = frontend(&set("web", &[(1, 1), (2, 1)]));
    publisher
        .publish(&[(key(80), &web), (key(81), &web)], &[])
        .unwrap();
    let tables = &publisher.tables().inner;
    let cell = |port| tables.cells[tables.frontends[&key(port)] as usize];
    assert_eq!(cell(80), cell(81));
}

#[test]
fn a_backend_that_stays_is_remembered_and_one_that_leaves_is_not() {
    let mut publisher = publisher();
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(1, 1), (2, 1)])))], &[])
        .unwrap();
    let stays = remembered(&publisher, 80, 1);
    let (index, generation) = remembered(&publisher, 80, 2);
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(1, 7), (3, 1)])))], &[])
        .unwrap();
    assert_eq!(
        remembered(&publisher, 80, 1),
        stays,
        "weights change nothing for connections"
    );
    assert_ne!(
        publisher.tables().backend(index).generation,
        generation,
        "gone at once"
    );
}

#[test]
fn a_backend_that_leaves_one_service_stays_in_another() {
    let mut publisher = publisher();
    let api = frontend(&set("api", &[(1, 1)]));
    let web = frontend(&set("web", &[(1, 1)]));
    publisher
        .publish(&[(key(80), &web), (key(81), &api)], &[])
        .unwrap();
    let (of_web, of_api) = (remembered(&publisher, 80, 1), remembered(&publisher, 81, 1));
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(2, 1)])))], &[])
        .unwrap();
    assert_eq!(remembered(&publisher, 81, 1), of_api);
    assert_ne!(publisher.tables().backend(of_web.0).generation, of_web.1);
}

#[test]
fn nothing_is_reused_before_the_grace_period() {
    let mut publisher = publisher();
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(1, 1)])))], &[])
        .unwrap();
    let old = publisher.tables().inner.clone();
    let cell = old.cells[old.frontends[&key(80)] as usize];
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(2, 1)])))], &[])
        .unwrap();
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(3, 1)])))], &[])
        .unwrap();
    let slot = publisher.tables().inner.slots[cell.offset() as usize];
    assert_eq!(
        slot,
        old.slots[cell.offset() as usize],
        "a late reader finds its slot"
    );
    let address = publisher.tables().backend(slot.backend).address;
    assert_eq!(
        address, old.backends[slot.backend as usize].address,
        "and its backend"
    );
}

#[test]
fn a_full_table_fails_the_whole_change() {
    let mut publisher = publisher();
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(1, 1)])))], &[])
        .unwrap();
    let before = publisher.tables().view();
    let many: Vec<_> = (0..40).map(|last| (last, 1)).collect();
    let error = publisher
        .publish(
            &[
                (key(81), &frontend(&set("api", &[(9, 1)]))),
                (key(82), &frontend(&set("big", &many))),
            ],
            &[key(80)],
        )
        .unwrap_err();
    assert!(
        matches!(
            error,
            TableError::Full {
                table: Size::Backends,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(publisher.tables().view(), before);
    publisher.reclaim().unwrap();
    let rest: Vec<_> = (0..31).map(|last| (last, 1)).collect();
    publisher
        .publish(&[(key(83), &frontend(&set("rest", &rest)))], &[])
        .expect("what the failed change had taken is free again");
}

#[test]
fn a_refused_insert_fails_the_whole_change() {
    let mut publisher = publisher();
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(1, 1)])))], &[])
        .unwrap();
    let before = publisher.tables().view();
    publisher.tables.tables.inserts_left = 1;
    let api = frontend(&set("api", &[(9, 1)]));
    let error = publisher
        .publish(
            &[
                (key(80), &frontend(&set("web", &[(2, 1)]))),
                (key(81), &api),
                (key(82), &api),
            ],
            &[],
        )
        .unwrap_err();
    assert!(matches!(error, TableError::Kernel { .. }), "{error}");
    assert_eq!(publisher.tables().view(), before);
}

#[test]
fn publishing_what_is_there_writes_nothing() {
    let mut publisher = publisher();
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(1, 1), (2, 3)])))], &[])
        .unwrap();
    let writes = publisher.tables().inner.writes;
    publisher
        .publish(&[(key(80), &frontend(&set("web", &[(1, 1), (2, 3)])))], &[])
        .unwrap();
    assert_eq!(publisher.tables().inner.writes, writes);
}

/// One change: for some of four ports the service's new backends, or its removal.
type Change = BTreeMap<u16, Option<BTreeMap<u8, u32>>>;

fn change() -> impl Strategy<Value = Change> {
    let backends = prop::collection::btree_map(1u8..6, 0u32..4, 0..4);
    prop::collection::btree_map(80u16..84, prop::option::weighted(0.8, backends), 1..4)
}

proptest! {
    #[test]
    fn after_every_write_each_frontend_is_old_or_new(
        changes in prop::collection::vec((change(), any::<bool>()), 1..20),
    ) {
        let mut publisher = publisher();
        let mut generations: HashMap<(u32, u16), (u16, IpAddr)> = HashMap::new();
        for (change, reclaim) in changes {
            let before = publisher.tables().view();
            let frontends: BTreeMap<u16, Frontend> = change
                .iter()
                .filter_map(|(port, backends)| {
                    let backends: Vec<_> = backends.as_ref()?.clone().into_iter().collect();
                    Some((*port, frontend(&set(&port.to_string(), &backends))))
                })
                .collect();
            let wanted: Vec<_> = frontends.iter().map(|(port, new)| (key(*port), new)).collect();
            let removed: Vec<_> = change
                .keys()
                .filter(|port| !frontends.contains_key(port))
                .map(|port| key(*port))
                .collect();
            publisher.tables.tables.views.clear();
            let mut published = publisher.publish(&wanted, &removed);
            // As both families' publisher does.
            if let Err(TableError::Full { .. }) = published {
                publisher.reclaim().unwrap();
                published = publisher.publish(&wanted, &removed);
            }
            published.unwrap();
            let after = publisher.tables().view();

            for port in 80..84 {
                let allowed = [before.get(&port), after.get(&port)];
                for view in &publisher.tables().views {
                    let seen = view.get(&port);
                    // A weight may be listed early: packets select by slots, not by weights.
                    let backends = |view: Option<&(Vec<(IpAddr, u32)>, u16)>| {
                        view.map(|(backends, flags)| {
                            (backends.iter().map(|(ip, _)| *ip).collect::<Vec<_>>(), *flags)
                        })
                    };
                    prop_assert!(
                        allowed.into_iter().any(|allowed| backends(allowed) == backends(seen)),
                        "port {port}: {seen:?} is neither {:?} nor {:?}", allowed[0], allowed[1],
                    );
                }
            }
            for (port, new) in &frontends {
                let listed: Vec<_> =
                    new.backends.backends.iter().map(|b| (b.ip, b.weight)).collect();
                prop_assert_eq!(&after[port].0, &listed);
            }
            for port in removed {
                prop_assert!(!after.contains_key(&u16::from_be(port.port)));
            }

            // What a connection remembers, (index, generation), never means two backends.
            let tables = &publisher.tables().inner;
            for (key, index) in &tables.frontends {
                let cell = tables.cells[*index as usize];
                for slot in &tables.slots[cell.offset() as usize..][..cell.count() as usize] {
                    let backend = tables.backends[slot.backend as usize];
                    let is = (key.port, V4::ip(backend.address));
                    let was = generations.insert((slot.backend, backend.generation), is);
                    prop_assert!(was.is_none_or(|was| was == is), "{was:?} became {is:?}");
                }
            }
            if reclaim {
                publisher.reclaim().unwrap();
            }
        }
        let all: BTreeSet<_> = publisher.frontends.keys().copied().map(|key| key.port).collect();
        let all: Vec<_> = all.into_iter().map(|port| key(u16::from_be(port))).collect();
        publisher.publish(&[], &all).unwrap();
        publisher.reclaim().unwrap();
        prop_assert_eq!(publisher.slots.free_count(), CAPACITY.slots, "no slot leaks");
        prop_assert_eq!(publisher.backends.free_count(), CAPACITY.backends, "no backend leaks");
        prop_assert_eq!(publisher.indexes.free_count(), CAPACITY.frontends, "no index leaks");
    }
}
