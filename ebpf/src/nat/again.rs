//! A connection that has begun again with its tuple and its backend, which a SYN-ACK has shown
//! ([`shunt_common::connections`], the module `proof`): it counts as a new one.

use shunt_common::{Counter, V4, V6};

use crate::maps::{
    backends::{self, count_connection},
    counters::count,
    services::count_opened,
    tables::Tables,
};

/// Counts the connection whose reply half is at `index`.
#[inline(always)]
fn begun_again<F: Tables>(index: u32) {
    let Some((facts, generation)) = F::connections().begun(index) else {
        return;
    };
    count(Counter::Connection);
    count_opened(facts.service());
    if backends::is_current::<F>(facts.backend(), generation) {
        count_connection::<F>(facts.backend());
    }
}

/// Makes a family's subprogram, which the verifier looks at by itself.
macro_rules! again {
    ($family:ty: $again:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $again(index: u32) -> u64 {
            begun_again::<$family>(index);
            0
        }
    };
}

again!(V4: again_v4);
again!(V6: again_v6);
