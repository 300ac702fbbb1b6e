//! The numbers of a family's service ports, by which their backends and the clients of these are
//! distinguished. Only the backend table keeps them, where the next agent finds them.

use std::collections::HashSet;

use shunt_common::{Backend, V4};

use crate::publish::group::GroupKey;

/// The bits of a number; those below are the backend's own.
const BITS: u32 = Backend::<V4>::OWNER;

/// The numbers that are not free.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// Numbers of service ports.
    taken: HashSet<u32>,
    /// Numbers that were found in the table: a client may be remembered with one.
    found: HashSet<u32>,
}

impl Owners {
    /// None is taken, and the table has these.
    pub(crate) fn new(found: HashSet<u32>) -> Self {
        Self {
            taken: HashSet::new(),
            found,
        }
    }

    /// A number for the service port, which no other one has: this one, if it was its number
    /// `before` and no other one has taken it meanwhile.
    pub(crate) fn take(&mut self, key: &GroupKey, before: Option<u32>) -> u32 {
        let owner = before
            .filter(|owner| !self.taken.contains(owner))
            .unwrap_or_else(|| self.new_number(key));
        self.taken.insert(owner);
        owner
    }

    /// The number has no owner any more. A client that is remembered with it is remembered with a
    /// backend that is gone.
    pub(crate) fn release(&mut self, owner: u32) {
        self.taken.remove(&owner);
    }

    /// The fingerprint, or the next number that is free. There are more of them than backends.
    fn new_number(&self, key: &GroupKey) -> u32 {
        let step = BITS & BITS.wrapping_neg();
        let first = key.fingerprint() & BITS;
        (0..=BITS / step)
            .map(|number| first.wrapping_add(number.wrapping_mul(step)))
            .find(|owner| !self.taken.contains(owner) && !self.found.contains(owner))
            .unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shunt_model::{BackendSet, PortPart, ServiceId};

    use super::*;

    fn key(name: &str) -> GroupKey {
        GroupKey::of(&BackendSet {
            service: Arc::new(ServiceId::new("default", name)),
            port: "http".into(),
            affinity_timeout: 0,
            maglev: None,
            part: PortPart::Main,
            split: None,
            backends: Vec::new(),
        })
    }

    #[test]
    fn a_service_port_gets_its_number_again_unless_another_has_it() {
        let (web, api) = (key("web"), key("api"));
        let mut owners = Owners::default();
        let first = owners.take(&web, None);
        assert_eq!(first, web.fingerprint() & BITS);
        let second = owners.take(&web, None);
        assert_eq!(second, first.wrapping_add(0x100), "a fingerprint twice");
        assert_eq!(owners.take(&api, Some(0x4200)), 0x4200);
        assert_ne!(owners.take(&api, Some(0x4200)), 0x4200);
        owners.release(0x4200);
        assert_eq!(owners.take(&web, Some(0x4200)), 0x4200);
    }

    #[test]
    fn a_number_that_stands_in_the_table_is_no_new_one() {
        let web = key("web");
        let there = web.fingerprint() & BITS;
        let mut owners = Owners::new([there].into());
        assert_ne!(owners.take(&web, None), there);
        assert_eq!(owners.take(&web, Some(there)), there, "its own");
    }
}
