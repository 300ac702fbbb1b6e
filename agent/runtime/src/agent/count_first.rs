//! A service whose frontends find no room is refused by their number, before they are rendered: the author of a large
//! one who changes it again and again would keep the event loop from all other services.

use shunt_model::{RendererEvent, Service};

use crate::{agent::Agent, outcome::ApplyError, room::Entries};

impl Agent {
    /// Returns the refusal of an event of a service if its addresses and ports alone are more frontends than there is
    /// room for, and no other service gives way to it; `None` if it may fit.
    pub(super) fn refusal_by_number(&mut self, event: &RendererEvent) -> Option<ApplyError> {
        let (RendererEvent::AddService(service) | RendererEvent::UpdateService(service)) = event
        else {
            return None;
        };
        let needed = self.least_need(service);
        let capacity = self.capacity();
        let free = capacity.minus(&self.used());
        // Most events are of services that fit.
        needed.exceeds(&free)?;
        if !self.renderer.is_synced() {
            return None;
        }
        let shares = self.shares(&capacity);
        if shares.is_below(&service.id, &needed, &capacity) {
            return None;
        }
        let own = shares.needs().get(&service.id).copied();
        let more = needed.minus(&own.unwrap_or_default());
        let refusal = more.refusal_beside(&free, &capacity)?;
        Some(ApplyError::Tables(refusal))
    }

    /// Returns the frontends at the service's own addresses, which are fewer than all.
    fn least_need(&self, service: &Service) -> Entries {
        let families = self.datapath.families();
        let addresses = service.addresses().filter(|ip| families.has(*ip));
        let [mut v4, mut v6] = [0, 0];
        for address in addresses {
            *(if address.is_ipv4() { &mut v4 } else { &mut v6 }) += service.ports.len() as u64;
        }
        Entries::of_frontends([v4, v6])
    }

    /// Returns the entries of the published tables that are in use, in the order of [`crate::room`].
    fn used(&self) -> Entries {
        let tables = self.datapath.table_use();
        Entries::of_tables(tables.iter().map(|table| u64::from(table.used)), [0; 2])
    }
}
