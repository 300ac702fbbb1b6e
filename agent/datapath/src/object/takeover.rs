//! The pinned connection tables that this agent goes on with, and what it takes from those that
//! are not as its own are to be.

use std::{fs::File, io::Read as _};

use aya::maps::{Array, Map};
use bytemuck::{Pod, Zeroable as _};
use shunt_common::{
    PortRange, V4, V6,
    connections::{Room, Seeds, Snapshot, Timeouts, Wide, slots_for},
    registry::{self, FamilyMaps, handover::From},
};
use tracing::warn;

use crate::{
    error::DatapathError,
    maps::{
        clock::Clock,
        connection_table::{Access, ConnectionTable, capacity_of},
        family::FromIp,
    },
    object::options::DatapathOptions,
    pins::directory::{Pins, draft},
    sys::raw::Raw,
};

/// Number of slots in a family's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Our table.
    pub(crate) ours: u32,
    /// The one that hands over; 1 if none does.
    pub(crate) previous: u32,
}

/// The tables of connections, and which of them hand over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Takeover {
    /// Tables that hand over. Both families' do, or neither's.
    pub(crate) from: From,
    /// The tables of IPv4.
    pub(crate) v4: Slots,
    /// The tables of IPv6.
    pub(crate) v6: Slots,
    /// By which connections are found.
    pub(crate) seeds: Seeds,
    /// The source ports that connections may have been given.
    pub(crate) given_ports: PortRange,
}

/// Facts that are known before any table is opened.
struct Found<'a> {
    pins: &'a Pins,
    options: &'a DatapathOptions,
    seeds: Seeds,
    timeouts: Timeouts,
    /// The tick.
    now: u32,
}

impl Takeover {
    /// Nothing is pinned.
    pub(crate) fn none(options: &DatapathOptions) -> Result<Self, DatapathError> {
        let of_family = |is_translated| Slots {
            ours: asked(options, is_translated),
            previous: 1,
        };
        Ok(Self {
            from: From::Nothing,
            v4: of_family(options.families.ipv4),
            v6: of_family(options.families.ipv6),
            seeds: random_seeds()?,
            given_ports: options.snat_ports,
        })
    }

    /// Returns the plan for the tables that are pinned.
    pub(crate) fn plan(options: &DatapathOptions, pins: &Pins) -> Result<Self, DatapathError> {
        let clock = Clock::open()?;
        let found = Found {
            pins,
            options,
            seeds: match pinned_seeds(pins)? {
                Some(seeds) => seeds,
                None => random_seeds()?,
            },
            timeouts: options.timeouts.in_ticks(clock.rate()),
            now: clock.tick().map_err(DatapathError::Clock)?,
        };
        let v4 = found.slots::<V4>(options.families.ipv4)?;
        let v6 = found.slots::<V6>(options.families.ipv6)?;
        let changes = |slots: Slots| slots.ours != slots.previous;
        let takeover = Self {
            from: if changes(v4) || changes(v6) {
                From::Array
            } else {
                From::Nothing
            },
            v4,
            v6,
            seeds: found.seeds,
            given_ports: given_ports(options.snat_ports, pins)?,
        };
        for (map, slots) in takeover.tables() {
            takeover.remove_misfit(pins, map, slots)?;
        }
        Ok(takeover)
    }

    /// Each family's table and its sizes.
    pub(crate) const fn tables(&self) -> [(registry::Map, Slots); 2] {
        [
            (FamilyMaps::V4.conntrack, self.v4),
            (FamilyMaps::V6.conntrack, self.v6),
        ]
    }

    /// As our table is pinned until nothing has to hand over to it.
    pub(crate) fn pin(&self, map: registry::Map) -> String {
        match self.from {
            From::Array => draft(map.pin),
            From::Nothing => map.pin.to_owned(),
        }
    }

    /// Removes what is left of a handover to a table of another size. Who has it still has the table
    /// that it would have followed.
    fn remove_misfit(
        &self,
        pins: &Pins,
        map: registry::Map,
        slots: Slots,
    ) -> Result<(), DatapathError> {
        let pin = self.pin(map);
        if let Some(info) = pins.map_info(&pin)?
            && info.max_entries() != slots.ours
        {
            pins.remove_map(&pin)?;
        }
        Ok(())
    }
}

impl Found<'_> {
    /// The sizes of a family's tables.
    fn slots<F: FromIp + Wide>(&self, is_translated: bool) -> Result<Slots, DatapathError> {
        let asked = asked(self.options, is_translated);
        let Some(info) = self.pins.map_info(F::MAPS.conntrack.pin)? else {
            return Ok(Slots {
                ours: asked,
                previous: asked,
            });
        };
        let previous = info.max_entries();
        let ours = if is_translated {
            Self::enough::<F>(asked, previous, || self.live::<F>())?
        } else {
            // What it has goes on.
            previous
        };
        Ok(Slots { ours, previous })
    }

    /// Returns what was asked for, unless a table that has become smaller had no room for what is there.
    fn enough<F: FromIp>(
        asked: u32,
        before: u32,
        live: impl FnOnce() -> Result<u32, DatapathError>,
    ) -> Result<u32, DatapathError> {
        if asked >= before {
            return Ok(asked);
        }
        let live = live()?;
        if live <= capacity_of(asked) {
            return Ok(asked);
        }
        warn!(
            "the table {} has {live} entries in use, more than the {} that were asked for: it keeps \
             its room for {}",
            F::MAPS.conntrack.name,
            capacity_of(asked),
            capacity_of(before),
        );
        Ok(before)
    }

    /// Returns the number of a table's halves of connections that are not given up for others.
    fn live<F: FromIp + Wide>(&self) -> Result<u32, DatapathError> {
        let data = self.pins.open_map(F::MAPS.conntrack.pin)?;
        let table = ConnectionTable::<F>::map(&data, Access::Read, self.seeds, self.timeouts)?;
        let stays = |snapshot: &Snapshot<F>| snapshot.phase().room() == Room::Never;
        Ok(2 * table.live(0, u32::MAX, self.now).filter(stays).count() as u32)
    }
}

/// Returns the number of slots that were asked for.
const fn asked(options: &DatapathOptions, is_translated: bool) -> u32 {
    if is_translated {
        slots_for(options.sizes.conntrack)
    } else {
        1
    }
}

/// The words that an earlier agent chose; `None` if none has, or it died before it had written them.
fn pinned_seeds(pins: &Pins) -> Result<Option<Seeds>, DatapathError> {
    pinned(pins, registry::SEEDS)
}

/// The ports that connections are given, and those that earlier agents gave them.
fn given_ports(ours: PortRange, pins: &Pins) -> Result<PortRange, DatapathError> {
    let before: Option<PortRange> = pinned(pins, registry::GIVEN_PORTS)?;
    Ok(before.map_or(ours, |before| ours.covering(&before)))
}

/// The entry of a pinned array of one; `None` if it is not there, or was never written.
fn pinned<T: Pod + PartialEq>(pins: &Pins, map: registry::Map) -> Result<Option<T>, DatapathError> {
    if !pins.map(map.pin).exists() {
        return Ok(None);
    }
    let failed = |source| DatapathError::Map {
        name: map.name,
        source,
    };
    let array =
        Array::<_, Raw<T>>::try_from(Map::Array(pins.open_map(map.pin)?)).map_err(failed)?;
    let Raw(value) = array.get(&0, 0).map_err(failed)?;
    Ok((value != T::zeroed()).then_some(value))
}

fn random_seeds() -> Result<Seeds, DatapathError> {
    let mut seeds = Seeds::zeroed();
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(bytemuck::bytes_of_mut(&mut seeds)))
        .map_err(DatapathError::Random)?;
    Ok(seeds)
}
