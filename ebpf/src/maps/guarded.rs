//! Addresses of services, and their owners: a filter that excludes nearly every other address, and
//! an exact table behind it.

use shunt_common::{Address as _, FilterPlace, Guarded, ServiceCidrs};

use crate::maps::{constants::GUARD, tables::Tables};

/// The bits of [`GUARD`].
const GUARDS: u32 = 1;
const ANSWERS_ECHO: u32 = 2;

/// Returns whether packets for services' addresses are looked after that are for no frontend.
#[inline(always)]
pub(crate) fn guards() -> bool {
    GUARD.load() & GUARDS != 0
}

/// Returns whether echo requests for services' addresses are answered.
#[inline(always)]
pub(crate) fn answers_echo() -> bool {
    GUARD.load() & ANSWERS_ECHO != 0
}

/// Word of the filter for an address.
#[derive(Clone, Copy)]
pub(crate) struct Filtered {
    place: FilterPlace,
    word: u64,
}

impl Filtered {
    /// Of `address`.
    #[inline(always)]
    pub(crate) fn of<F: Tables>(address: &F::Address) -> Self {
        let place = FilterPlace::of(address);
        // All bits: a word that is not there excludes nothing.
        let word = F::addresses().get(place.word).copied().unwrap_or(u64::MAX);
        Self { place, word }
    }

    /// Returns whether frontends may have it.
    #[inline(always)]
    pub(crate) const fn has_frontends(self) -> bool {
        self.place.has_frontends(self.word)
    }

    /// Returns whether SNAT may give connections the address.
    #[inline(always)]
    pub(crate) const fn is_source(self) -> bool {
        self.place.is_source(self.word)
    }

    /// Returns whether it may be a service's.
    #[inline(always)]
    pub(crate) const fn is_guarded(self) -> bool {
        self.place.is_guarded(self.word)
    }
}

/// Owner of an address for the guard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A service, in the cluster.
    ClusterIp,
    /// A service, and perhaps a machine.
    External,
    /// None, but it is in a range of ClusterIPs.
    Nobody,
    /// Another owner.
    Other,
}

/// Returns the owner of the address.
#[inline(always)]
pub(crate) fn owner_of<F: Tables>(address: &F::Address) -> Owner {
    // SAFETY: a word, written and replaced whole.
    let number = unsafe { F::guarded().get(address) }.copied();
    match number.and_then(Guarded::from_number) {
        Some(Guarded::ClusterIp) => Owner::ClusterIp,
        Some(Guarded::External) => Owner::External,
        None if is_cluster_range::<F>(address) => Owner::Nobody,
        Some(Guarded::Host | Guarded::Node) | None => Owner::Other,
    }
}

/// Returns whether the address is in a range of ClusterIPs.
#[inline(always)]
pub(crate) fn is_cluster_range<F: Tables>(address: &F::Address) -> bool {
    let Some(ranges) = F::service_cidrs().get(0) else {
        return false;
    };
    for place in 0..ServiceCidrs::<F>::CAPACITY {
        if place as u32 >= ranges.count {
            break;
        }
        let range = &ranges.cidrs[place];
        if address.matches(&range.address, &range.mask) {
            return true;
        }
    }
    false
}
