//! The ways to addresses elsewhere, as the kernel's routes give them: see [`shunt_common::Path`].

use aya_ebpf::btf_maps::lpm_trie::Key as LpmKey;
use shunt_common::{Address as _, variables::NARROW};

use crate::maps::{tables::Tables, variables::VARIABLES};

/// The address that connections to `destination` go on from if they need SNAT. `None` if this node knows none.
#[inline(always)]
pub(crate) fn source_to<F: Tables>(destination: &F::Address) -> Option<F::Address> {
    let preferred = F::paths()
        .get(&key::<F>(destination))
        .map(|path| path.source);
    preferred
        .filter(|source| !source.is_unspecified())
        .or_else(|| F::node().get(0).map(|node| node.snat))
        .filter(|source| !source.is_unspecified())
}

/// The MTU of the route to `destination`; 0: it has none.
#[inline(always)]
pub(crate) fn mtu_to<F: Tables>(destination: &F::Address) -> u32 {
    if VARIABLES.get(NARROW).is_none_or(|narrow| *narrow == 0) {
        return 0;
    }
    F::paths()
        .get(&key::<F>(destination))
        .map_or(0, |path| path.mtu)
}

#[inline(always)]
fn key<F: Tables>(destination: &F::Address) -> LpmKey<F::Address> {
    LpmKey::new(size_of::<F::Address>() as u32 * 8, *destination)
}
