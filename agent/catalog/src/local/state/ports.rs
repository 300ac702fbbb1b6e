//! The ports that sidecars get.

use std::ops::RangeInclusive;

use crate::local::{
    definition::service::ServiceDefinition,
    state::{definitions::Definitions, refusal::Refusal},
};

/// Ports of sidecars, as Consul has them.
const PORTS: RangeInclusive<i64> = 21000..=21255;

/// The port of the sidecar of `parent` that is going to have this id: the one that it has now, or else the lowest
/// that no service of this agent has.
///
/// # Errors
///
/// All of them are taken.
pub(crate) fn port_of(
    sidecar: &str,
    parent: &ServiceDefinition,
    known: &Definitions,
) -> Result<i64, Refusal> {
    if let Some(there) = known.service(sidecar)
        && PORTS.contains(&there.service.port)
    {
        return Ok(there.service.port);
    }
    let (first, last) = (*PORTS.start(), *PORTS.end());
    let mut taken = vec![false; (last - first + 1) as usize];
    // What the parent had is free, and what it is going to have is not.
    let others = known.services().map(|other| &other.service);
    let others = others.filter(|other| other.id != parent.own_id());
    for port in others.map(|other| other.port).chain([parent.port]) {
        let place = port.checked_sub(first);
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(taken) = place.and_then(|place| taken.get_mut(place)) {
            *taken = true;
        }
    }
    let free = taken.iter().position(|taken| !taken);
    free.map(|place| first + place as i64).ok_or_else(|| {
        Refusal::failed(format!(
            "Bad request: Invalid SidecarService: none left in the configured sidecar port range \
             {first}-{last}"
        ))
    })
}
