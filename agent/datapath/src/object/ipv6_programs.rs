//! The programs of IPv6, which the attached ones hand packets over to.
//!
//! The kernel empties a table of programs when no process has it open and no pin holds it. So it is pinned as long as a
//! hook may have a program that looks there.

use aya::{
    Ebpf,
    maps::{Map, MapData, ProgramArray},
};
use shunt_common::{Ipv6Program, registry::IPV6_PROGRAMS};

use crate::{
    error::DatapathError,
    object::programs::{
        EGRESS, EGRESS_L3, EGRESS_V6, EGRESS_V6_L3, INGRESS, INGRESS_L3, INGRESS_V6, INGRESS_V6_L3,
    },
};

/// Enters the program that `name` hands packets over to, if there is one and it is loaded.
pub(crate) fn enter(ebpf: &mut Ebpf, name: &'static str) -> Result<(), DatapathError> {
    let Some((name, place)) = successor(name) else {
        return Ok(());
    };
    let failed = |source| DatapathError::Program { name, source };
    let program = ebpf.program(name).ok_or(DatapathError::Missing(name))?;
    let Ok(program) = program.fd() else {
        return Ok(());
    };
    let program = program.try_clone().map_err(|error| failed(error.into()))?;
    let name = IPV6_PROGRAMS.name;
    let table = ebpf.map_mut(name).ok_or(DatapathError::Missing(name))?;
    ProgramArray::try_from(table)
        .and_then(|mut table| table.set(place as u32, &program, 0))
        .map_err(|source| DatapathError::Map { name, source })
}

/// The object's table of these programs.
pub(crate) fn table(ebpf: &Ebpf) -> Result<&MapData, DatapathError> {
    let name = IPV6_PROGRAMS.name;
    match ebpf.map(name) {
        Some(Map::ProgramArray(data)) => Ok(data),
        _ => Err(DatapathError::Missing(name)),
    }
}

/// The program of IPv6 that this one hands packets over to, and its place.
fn successor(name: &str) -> Option<(&'static str, Ipv6Program)> {
    Some(match name {
        INGRESS => (INGRESS_V6, Ipv6Program::Ingress),
        EGRESS => (EGRESS_V6, Ipv6Program::Egress),
        INGRESS_L3 => (INGRESS_V6_L3, Ipv6Program::IngressL3),
        EGRESS_L3 => (EGRESS_V6_L3, Ipv6Program::EgressL3),
        _ => return None,
    })
}
