//! The steps of a handover, in their order.

use std::time::Instant;

use aya::maps::{HashMap, Map, MapData, MapError};
use bytemuck::Pod;
use shunt_common::{
    AffinityEntry, AffinityKey, FragmentEntry, FragmentKey, V4, V6,
    connections::{Seeds, Timeouts, Wide},
    registry::{
        self,
        handover::{self, From, Phase, before},
    },
};
use tracing::{info, warn};

use crate::{
    error::{DatapathError, TableError},
    handover::{
        array::Resized,
        dated::{self, Dated, Dates},
        hash::Hash,
        phases::Phases,
        reconcile::{Reconciled, reconcile},
    },
    maps::{
        clock::Clock,
        connection_table::{Access, ConnectionTable},
        family::FromIp,
    },
    pins::{
        directory::{Pins, draft},
        layout::Layout,
    },
    sys::{crash::died_after, grace, raw::Raw},
};

/// A handover that has begun: our programs take the tables of the earlier agent for those that
/// decide.
#[derive(Debug)]
pub(crate) struct Handover {
    phases: Phases,
    clock: Clock,
    from: From,
    v4: Family<V4>,
    v6: Family<V6>,
}

/// The tables of one family.
#[derive(Debug)]
struct Family<F: Wide> {
    previous: Previous<F>,
    ours: ConnectionTable<F>,
}

/// A table that hands over.
#[derive(Debug)]
enum Previous<F: Wide> {
    Hash { connections: Hash<F>, dates: Dates },
    Array(ConnectionTable<F>),
}

/// By what connections are found in our tables, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// The words that their places depend on.
    pub(crate) seeds: Seeds,
    /// In ticks.
    pub(crate) timeouts: Timeouts,
    /// What the clock of the version before shows.
    pub(crate) previous_clock: u32,
}

impl Handover {
    /// Before a program of ours is on a hook; `None` if nothing hands over.
    ///
    /// # Errors
    ///
    /// If a table cannot be opened.
    pub(crate) fn begin(
        mut phases: Phases,
        pins: &Pins,
        from: From,
        terms: Terms,
    ) -> Result<Option<Self>, DatapathError> {
        let clock = Clock::open()?;
        let dates = match from {
            From::Nothing => return Ok(None),
            From::Hash => Some(dates(terms.previous_clock, &clock)?),
            From::Array => None,
        };
        phases.begin(Phase::Swapping);
        let handover = Self {
            v4: Family::open(pins, handover::FamilyMaps::V4, dates, terms)?,
            v6: Family::open(pins, handover::FamilyMaps::V6, dates, terms)?,
            phases,
            clock,
            from,
        };
        match from {
            From::Hash => info!("the pinned tables are of an earlier layout: they hand over"),
            _ => info!("the pinned tables of connections are of another size: they hand over"),
        }
        died_after("begin");
        Ok(Some(handover))
    }

    /// Just before the first hook has a program of ours: what programs of the version before do not
    /// share with ours is copied.
    ///
    /// # Errors
    ///
    /// If a table cannot be read or written; then clients with session affinity choose anew.
    pub(crate) fn prepare(&self, pins: &Pins) -> Result<(), DatapathError> {
        self.v4.copy_dated(pins)?;
        self.v6.copy_dated(pins)
    }

    /// After every hook has a program of ours. Whatever fails, packets are translated as before, and
    /// the next agent begins anew.
    ///
    /// # Errors
    ///
    /// If a table cannot be read or written.
    pub(crate) fn finish(self, pins: &Pins, layout: &Layout) -> Result<(), DatapathError> {
        let Self {
            mut phases,
            clock,
            from,
            v4,
            v6,
        } = self;
        let start = Instant::now();
        died_after("swap");
        // The last packet that a program of an earlier agent was at is through.
        wait_for_readers()?;
        if let Err(error) = v4.copy_dated(pins).and_then(|()| v6.copy_dated(pins)) {
            warn!(%error, "some session affinity of an earlier agent is forgotten");
        }
        let (v4, v6) = (v4.reconcile(&clock)?, v6.reconcile(&clock)?);
        died_after("copy");
        phases.begin(Phase::Draining);
        died_after("drain");
        // At once: from here on our tables have more than the others, and the next agent has to
        // begin with them. That of an earlier version refuses them.
        match from {
            From::Nothing => {}
            From::Hash => layout.stamp(pins)?,
            From::Array => {
                for map in [
                    registry::FamilyMaps::V4.conntrack,
                    registry::FamilyMaps::V6.conntrack,
                ] {
                    pins.rename_map(&draft(map.pin), map.pin)?;
                }
            }
        }
        died_after("stamp");
        // The last packet is through at which a program took the other table for the one that
        // decides.
        wait_for_readers()?;
        phases.begin(Phase::None);
        let copied = v4.repairs + v6.repairs;
        info!(copied, took = ?start.elapsed(), "the tables of the earlier agent have handed over");
        let lost = v4.lost + v6.lost;
        if lost > 0 {
            warn!("{lost} connections found no room in the new tables");
        }
        Ok(())
    }
}

impl<F: FromIp + Wide> Family<F> {
    fn open(
        pins: &Pins,
        maps: handover::FamilyMaps,
        dates: Option<Dates>,
        terms: Terms,
    ) -> Result<Self, DatapathError> {
        let pin = F::MAPS.conntrack.pin;
        let map = |name: &str, access| {
            ConnectionTable::map(&pins.open_map(name)?, access, terms.seeds, terms.timeouts)
        };
        Ok(match dates {
            Some(dates) => Self {
                previous: Previous::Hash {
                    connections: Hash::new(
                        hash(pins.open_map(maps.previous.pin)?, maps.previous.name)?,
                        dates,
                    ),
                    dates,
                },
                ours: map(pin, Access::Write)?,
            },
            None => Self {
                previous: Previous::Array(map(pin, Access::Read)?),
                ours: map(&draft(pin), Access::Write)?,
            },
        })
    }

    fn copy_dated(&self, pins: &Pins) -> Result<(), DatapathError> {
        let Previous::Hash { dates, .. } = &self.previous else {
            return Ok(());
        };
        let registry::FamilyMaps {
            affinity,
            fragments,
            ..
        } = F::MAPS;
        copy::<AffinityKey<F>, AffinityEntry>(pins, affinity, *dates)?;
        copy::<FragmentKey<F>, FragmentEntry<F>>(pins, fragments, *dates)
    }

    /// Makes our table what the other one is.
    fn reconcile(self, clock: &Clock) -> Result<Reconciled, DatapathError> {
        let Self { previous, ours } = self;
        let failed = || kernel("copying the connections");
        let now = clock.tick().map_err(failed())?;
        match previous {
            Previous::Hash { connections, .. } => reconcile(&connections, &ours, now),
            Previous::Array(table) => reconcile(&Resized { table, clock }, &ours, now),
        }
        .map_err(failed())
    }
}

/// What time it is on either clock.
fn dates(before: u32, clock: &Clock) -> Result<Dates, DatapathError> {
    let tick = clock.tick().map_err(DatapathError::Clock)?;
    let second = clock.second().map_err(DatapathError::Clock)?;
    Ok(Dates::new(before, tick, second, clock.rate()))
}

/// Copies a table of the version before that has the layout of ours.
fn copy<K: Pod, V: Dated>(
    pins: &Pins,
    map: registry::Map,
    dates: Dates,
) -> Result<(), DatapathError> {
    let before = before(map).pin;
    if !pins.map(before).exists() {
        return Ok(());
    }
    let before = hash(pins.open_map(before)?, before)?;
    let mut ours = hash(pins.open_map(map.pin)?, map.name)?;
    dated::copy::<K, V>(&before, &mut ours, |date| dates.second(date))
        .map_err(kernel("copying session affinity and fragments"))
}

/// A hash of any kind.
pub(super) fn hash<K: Pod, V: Pod>(
    data: MapData,
    name: &'static str,
) -> Result<HashMap<MapData, Raw<K>, Raw<V>>, DatapathError> {
    let failed = |source: MapError| DatapathError::Map { name, source };
    let map = Map::from_map_data(data).map_err(failed)?;
    HashMap::try_from(map).map_err(failed)
}

pub(super) fn wait_for_readers() -> Result<(), DatapathError> {
    grace::wait_for_readers().map_err(kernel("waiting for a grace period"))
}

fn kernel(call: &'static str) -> impl FnOnce(std::io::Error) -> DatapathError {
    move |source| DatapathError::Handover(TableError::Kernel { call, source })
}
