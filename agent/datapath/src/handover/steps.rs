//! The steps of a handover, in their order.
//!
//! `SHUNT_DIE_AFTER` ends the agent at once after the step of this name, as a crash would.

use std::{env, process, time::Instant};

use aya::Ebpf;
use shunt_common::{
    V4, V6,
    registry::handover::{FamilyMaps, Phase},
};
use tracing::info;

use crate::{
    error::{DatapathError, TableError},
    handover::{
        conntrack_pair::{self, Before, Ours},
        phases::Phases,
        reconcile::reconcile,
    },
    pins::{directory::Pins, layout::Layout},
    sys::grace,
};

/// A handover that has begun: our programs take the table of the version before for the one that
/// decides.
#[derive(Debug)]
pub(crate) struct Handover {
    phases: Phases,
    v4: (Before<V4>, Ours<V4>),
    v6: (Before<V6>, Ours<V6>),
}

impl Handover {
    /// Before a program of ours is on a hook.
    ///
    /// # Errors
    ///
    /// If a table cannot be opened.
    pub(crate) fn begin(ebpf: &mut Ebpf, pins: &Pins) -> Result<Self, DatapathError> {
        let mut phases = Phases::open(ebpf)?;
        phases.begin(Phase::Swapping);
        let handover = Self {
            phases,
            v4: conntrack_pair::open(ebpf, pins, FamilyMaps::V4)?,
            v6: conntrack_pair::open(ebpf, pins, FamilyMaps::V6)?,
        };
        info!("the pinned tables are of an earlier layout: they hand over");
        died_after("begin");
        Ok(handover)
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
            v4: (before_v4, mut ours_v4),
            v6: (before_v6, mut ours_v6),
        } = self;
        let start = Instant::now();
        died_after("swap");
        // The last packet that a program of the version before was at is through.
        wait_for_readers()?;
        let copied = reconcile(&before_v4, &mut ours_v4)
            .and_then(|v4| Ok(v4 + reconcile(&before_v6, &mut ours_v6)?))
            .map_err(kernel("copying the connections"))?;
        died_after("copy");
        phases.begin(Phase::Draining);
        // As is the last one at which a program took the other table for the one that decides.
        wait_for_readers()?;
        died_after("drain");
        // From here on our tables are what is pinned: an earlier version refuses them.
        layout.stamp(pins)?;
        died_after("stamp");
        phases.begin(Phase::None);
        info!(copied, took = ?start.elapsed(), "the tables of the earlier layout have handed over");
        Ok(())
    }
}

fn wait_for_readers() -> Result<(), DatapathError> {
    grace::wait_for_readers().map_err(kernel("waiting for a grace period"))
}

fn kernel(call: &'static str) -> impl FnOnce(std::io::Error) -> DatapathError {
    move |source| DatapathError::Handover(TableError::Kernel { call, source })
}

/// Ends the agent here if it is to be seen what the next one makes of that.
fn died_after(step: &str) {
    if env::var_os("SHUNT_DIE_AFTER").is_some_and(|last| last == step) {
        process::abort();
    }
}
