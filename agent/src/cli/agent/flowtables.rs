//! Looking again and again for flowtables of nftables that forward packets past the programs.

use std::{collections::BTreeSet, io, time::Duration};

use shunt_datapath::stacked_devices;
use shunt_runtime::{HostPart, Inspector};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::warn;

use crate::host::flowtables::{Attached, Flowtable, complaint};

/// Interval of the looks.
const INTERVAL: Duration = Duration::from_mins(1);

/// Interval as long as interfaces get the programs or lose them.
const UNTIL_ATTACHED: Duration = Duration::from_secs(5);

/// Logs the flowtables with devices where packets pass the programs by, and has the status show them, now and each
/// minute. They are read beside the event loop.
pub(super) fn watch_flowtables(inspector: Inspector) {
    tokio::spawn(async move {
        let mut before = None;
        loop {
            let attached = look(&inspector).await;
            let interval = if attached == before {
                INTERVAL
            } else {
                UNTIL_ATTACHED
            };
            before = attached;
            sleep(interval).await;
        }
    });
}

/// Returns the interfaces with the programs, by index; `None` if they are not known.
async fn look(inspector: &Inspector) -> Option<BTreeSet<u32>> {
    let asked = inspector.clone();
    let found = spawn_blocking(move || find(&asked)).await;
    match found.map_err(io::Error::other).flatten() {
        Ok((attached, complaint)) => {
            let complaints = complaint.into_iter().collect();
            let part = HostPart::Flowtables;
            inspector.reports().set_host(part, complaints);
            Some(attached)
        }
        Err(error) => {
            warn!(%error, "it is not known whether flowtables forward packets past the programs");
            None
        }
    }
}

/// Returns the interfaces with the programs, by index, and a sentence about the flowtables that forward packets past
/// these, if there are any.
fn find(inspector: &Inspector) -> io::Result<(BTreeSet<u32>, Option<String>)> {
    let attached = inspector.attached()?;
    let flowtables = Flowtable::read_all()?;
    // Most hosts have none.
    if flowtables.is_empty() {
        return Ok((attached, None));
    }
    let devices = stacked_devices(&attached)?;
    let interfaces: Vec<Attached> = devices
        .into_iter()
        .map(|(name, below)| Attached { name, below })
        .collect();
    let complaint = complaint(&flowtables, &interfaces);
    Ok((attached, complaint))
}
