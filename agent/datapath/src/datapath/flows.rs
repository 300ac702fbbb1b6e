//! Reports of connections and packets: other programs in the place of those that run.

use std::{sync::Arc, time::Instant};

use tracing::{info, warn};

use super::Datapath;
use crate::{
    object::flow_programs::{FlowLoader, FlowPrograms},
    pins::directory::Pins,
};

impl Datapath {
    /// Returns the loader of the programs that report, which is to be run beside everything else.
    pub fn flow_loader(&self) -> FlowLoader {
        FlowLoader {
            tables: Arc::clone(&self.tables),
            folder: self.object.pins().map(Pins::handed_over),
            copies: Arc::clone(&self.copies),
            programs: self.object.packet_programs(),
        }
    }

    /// Has these programs run at all hooks of interfaces. Each is replaced in one step, and they share their tables: no
    /// packet and no connection notices. Interfaces that come get them, too, but the next agent does not find them.
    pub fn tell_flows(&mut self, programs: FlowPrograms) {
        let before = self.object.replace(Some(programs));
        self.replace_programs();
        drop(before);
    }

    /// Has the programs run again that report nothing, if others do.
    pub fn stop_flows(&mut self) {
        if self.object.is_replaced() {
            let before = self.object.replace(None);
            self.replace_programs();
            drop(before);
        }
    }

    /// The way back first, as where programs are attached.
    pub(super) fn replace_programs(&mut self) {
        let start = Instant::now();
        // Links are found by their pins.
        self.check_pins();
        let (hooks, failures) = self.attachments.replace(&mut self.object);
        let uplinks = self.uplinks.replace(&mut self.object);
        // A program that is still at its hook hands packets over by its table.
        if failures == 0
            && let Err(error) = self.object.unpin_unused()
        {
            warn!(%error, "programs that no hook has stay pinned");
        }
        let took = start.elapsed();
        info!(hooks, uplinks, ?took, "programs replaced");
    }
}
