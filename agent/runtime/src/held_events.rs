//! Events that came before the first Resync.

use std::mem;

use shunt_model::RendererEvent;

use crate::{circumstances::Circumstances, origin::Origin};

/// Events that wait for the first Resync, in their order.
#[derive(Debug, Default)]
pub struct HeldEvents {
    events: Vec<(Origin, RendererEvent, Circumstances)>,
}

impl HeldEvents {
    /// Returns the event if it can be applied now: it is a Resync, or one was applied before
    /// (`synced`). Otherwise the event is held, with its origin and what comes with it.
    pub fn admit(
        &mut self,
        synced: bool,
        origin: Origin,
        event: RendererEvent,
        circumstances: Circumstances,
    ) -> Option<(RendererEvent, Circumstances)> {
        if synced || matches!(event, RendererEvent::Resync(_)) {
            return Some((event, circumstances));
        }
        self.events.push((origin, event, circumstances));
        None
    }

    /// The events that were held, to be applied one by one after a Resync.
    pub fn release(&mut self) -> Vec<(Origin, RendererEvent, Circumstances)> {
        mem::take(&mut self.events)
    }

    /// Returns the number of events that are held.
    pub const fn count(&self) -> usize {
        self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use shunt_model::Snapshot;

    use super::*;

    const fn line(number: u64) -> Origin {
        Origin {
            unit: "line",
            number,
        }
    }

    fn none() -> Circumstances {
        Circumstances::default()
    }

    #[test]
    fn events_before_the_first_resync_come_after_it_in_their_order() {
        let mut held = HeldEvents::default();
        let interfaces =
            |name: &str| RendererEvent::UpdateLocalFrontendIfs([name.parse().unwrap()].into());
        for (number, name) in [(1, "eth0"), (2, "eth1")] {
            let admitted = held.admit(false, line(number), interfaces(name), none());
            assert_eq!(admitted, None);
        }
        assert_eq!(held.count(), 2);
        let resync = RendererEvent::Resync(Snapshot::default());
        let admitted = held.admit(false, line(3), resync.clone(), none());
        assert_eq!(admitted, Some((resync, none())));
        let expected = [
            (line(1), interfaces("eth0"), none()),
            (line(2), interfaces("eth1"), none()),
        ];
        assert_eq!(held.release(), expected);
        assert_eq!(held.release(), []);
        let after = interfaces("eth2");
        let admitted = held.admit(true, line(4), after.clone(), none());
        assert_eq!(admitted, Some((after, none())));
    }
}
