//! The same programs, but that of two at one hook the first one handles a packet: for the moment in which a hook has both a
//! TCX link and a filter.

use bytemuck::bytes_of;
use shunt_common::registry;

use crate::{
    error::DatapathError,
    object::{
        programs::OBJECT,
        stand_in::{Original, StandIn},
    },
};

/// The tables that these programs do not share with the others.
const OWN: [&str; 1] = [registry::IPV6_PROGRAMS.name];

/// Loads them.
///
/// # Errors
///
/// If the kernel does not take them.
pub(crate) fn load(original: &Original<'_>) -> Result<StandIn, DatapathError> {
    original.load(&OBJECT, &OWN, |loader| {
        loader.override_global(registry::ONCE.name, bytes_of(&1u32), true);
        Ok(())
    })
}
