//! Addresses that instances have agreed on, over agents.

use crate::instances::{
    engine::Engine,
    frontend::Vip,
    kept::{Kept, KeptAddresses},
    vip::{Address, Agreed},
};

impl Engine {
    /// Returns whether the address of any frontend comes from its instances.
    pub(crate) fn has_tagged(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| matches!(entry.frontend.vip, Vip::Tagged(_)))
    }

    /// Knows what instances had agreed on, for frontends that ask for the same tag.
    pub(crate) fn restore_addresses(&mut self, kept: &KeptAddresses) {
        for entry in &mut self.entries {
            let Some(kept) = kept.get(&entry.frontend.id.to_string()) else {
                continue;
            };
            let Kept {
                tag,
                ip,
                port,
                is_of_first,
            } = kept;
            if matches!(&entry.frontend.vip, Vip::Tagged(wanted) if **wanted == **tag) {
                entry.agreed = Some(Agreed {
                    address: Address {
                        ips: vec![*ip],
                        port: entry.frontend.port.unwrap_or(*port),
                    },
                    is_of_first: *is_of_first,
                });
            }
        }
    }

    /// Returns the addresses on which instances have agreed, if they are other than at the last call.
    pub(crate) fn new_addresses(&mut self) -> Option<KeptAddresses> {
        if !std::mem::take(&mut self.has_agreed) {
            return None;
        }
        let kept = self.entries.iter().filter_map(|entry| {
            let Vip::Tagged(tag) = &entry.frontend.vip else {
                return None;
            };
            let Agreed {
                address,
                is_of_first,
            } = entry.agreed.as_ref()?;
            let kept = Kept {
                tag: tag.to_string(),
                ip: *address.ips.first()?,
                port: address.port,
                is_of_first: *is_of_first,
            };
            Some((entry.frontend.id.to_string(), kept))
        });
        Some(kept.collect())
    }
}
