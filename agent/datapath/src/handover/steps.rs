//! The steps of a handover, in their order.

use std::time::Instant;

use shunt_common::{
    V4, V6,
    connections::{Seeds, Timeouts, Wide},
    registry::{
        self,
        handover::{From, Phase},
    },
};
use tracing::{info, warn};

use crate::{
    error::{DatapathError, TableError},
    handover::{
        array::Resized,
        phases::Phases,
        reconcile::{Reconciled, reconcile},
    },
    maps::{
        clock::Clock,
        connection_table::{Access, ConnectionTable},
        family::FromIp,
    },
    pins::directory::{Pins, draft},
    sys::{crash::died_after, grace},
};

/// A handover that has begun: our programs take the tables of the earlier agent for those that
/// decide.
#[derive(Debug)]
pub(crate) struct Handover {
    phases: Phases,
    clock: Clock,
    v4: Family<V4>,
    v6: Family<V6>,
}

/// The tables of one family.
#[derive(Debug)]
struct Family<F: Wide> {
    previous: ConnectionTable<F>,
    ours: ConnectionTable<F>,
}

/// By what connections are found in our tables, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// The words that their places depend on.
    pub(crate) seeds: Seeds,
    /// In ticks.
    pub(crate) timeouts: Timeouts,
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
        if from == From::Nothing {
            return Ok(None);
        }
        let clock = Clock::open()?;
        phases.begin(Phase::Swapping);
        let handover = Self {
            v4: Family::open(pins, terms)?,
            v6: Family::open(pins, terms)?,
            phases,
            clock,
        };
        info!("the pinned tables of connections are of another size: they hand over");
        died_after("begin");
        Ok(Some(handover))
    }

    /// After every hook has a program of ours. Whatever fails, packets are translated as before, and
    /// the next agent begins anew.
    ///
    /// # Errors
    ///
    /// If a table cannot be read or written.
    pub(crate) fn finish(self, pins: &Pins) -> Result<(), DatapathError> {
        let Self {
            mut phases,
            clock,
            v4,
            v6,
        } = self;
        let start = Instant::now();
        died_after("swap");
        // The last packet that a program of an earlier agent was at is through.
        wait_for_readers()?;
        let (v4, v6) = (v4.reconcile(&clock)?, v6.reconcile(&clock)?);
        died_after("copy");
        phases.begin(Phase::Draining);
        died_after("drain");
        // At once: from here on our tables have more than the others, and the next agent has to
        // begin with them.
        for map in [
            registry::FamilyMaps::V4.conntrack,
            registry::FamilyMaps::V6.conntrack,
        ] {
            pins.rename_map(&draft(map.pin), map.pin)?;
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
    fn open(pins: &Pins, terms: Terms) -> Result<Self, DatapathError> {
        let pin = F::MAPS.conntrack.pin;
        let map = |name: &str, access| {
            ConnectionTable::map(&pins.open_map(name)?, access, terms.seeds, terms.timeouts)
        };
        Ok(Self {
            previous: map(pin, Access::Read)?,
            ours: map(&draft(pin), Access::Write)?,
        })
    }

    /// Makes our table what the other one is.
    fn reconcile(self, clock: &Clock) -> Result<Reconciled, DatapathError> {
        let Self { previous, ours } = self;
        let failed = || kernel("copying the connections");
        let now = clock.tick().map_err(failed())?;
        let resized = Resized {
            table: previous,
            clock,
        };
        reconcile(&resized, &ours, now).map_err(failed())
    }
}

pub(super) fn wait_for_readers() -> Result<(), DatapathError> {
    grace::wait_for_readers().map_err(kernel("waiting for a grace period"))
}

fn kernel(call: &'static str) -> impl FnOnce(std::io::Error) -> DatapathError {
    move |source| DatapathError::Handover(TableError::Kernel { call, source })
}
