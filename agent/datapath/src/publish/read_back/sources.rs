//! The source ranges of frontends, as a table has them.

use std::collections::HashMap;

use ipnet::IpNet;
use shunt_common::{FrontendKey, SourceRange, V4, V6};

use crate::maps::family::FromIp;

/// The source ranges of one family by frontend, the scope showing which list it is, each list sorted.
pub(crate) type Sources<F> = HashMap<FrontendKey<F>, Vec<IpNet>>;

/// The source ranges of all frontends, as they were listed.
#[derive(Debug, Clone, Default)]
pub struct SourceRanges {
    pub(crate) v4: Sources<V4>,
    pub(crate) v6: Sources<V6>,
}

/// Sorts entries of the table, each with its prefix length in bits. What is no range is left out.
pub(crate) fn source_ranges<F: FromIp>(
    entries: impl IntoIterator<Item = (u32, SourceRange<F>)>,
) -> Sources<F> {
    let mut sources: HashMap<_, Vec<IpNet>> = HashMap::new();
    for (bits, range) in entries {
        let length = bits.checked_sub(SourceRange::<F>::FRONTEND_BITS);
        let length = length.and_then(|length| u8::try_from(length).ok());
        let network = length.map(|length| IpNet::new(F::ip(range.client), length));
        if let Some(Ok(network)) = network {
            sources.entry(range.frontend).or_default().push(network);
        }
    }
    for list in sources.values_mut() {
        list.sort();
    }
    sources
}
