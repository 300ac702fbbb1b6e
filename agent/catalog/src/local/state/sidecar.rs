//! `sidecar_service`: a second service, made of the first.

use std::time::Duration;

use crate::local::{
    definition::{check::CheckDefinition, service::ServiceDefinition},
    state::{definitions::Definitions, ports::port_of, refusal::Refusal, service::PROXY},
};

/// Address on which a service listens for its sidecar by default.
const LOCAL: &str = "127.0.0.1";

/// Interval of the tries of a sidecar's port.
const LISTENS: Duration = Duration::from_secs(10);

/// The id that the sidecar of this service always has.
pub(crate) fn sidecar_id(service: &str) -> String {
    format!("{service}-sidecar-proxy")
}

/// Returns the sidecar of `parent` as a definition of its own, if it is to have one. Fields that it does not
/// have itself are the parent's: tags and meta, each of them whole, and the address; weights, tagged addresses
/// and the override of tags are not.
///
/// # Errors
///
/// It has a field that it must not have, or no port is left.
pub(crate) fn sidecar_of(
    parent: &ServiceDefinition,
    known: &Definitions,
) -> Result<Option<ServiceDefinition>, Refusal> {
    let Some(own) = &parent.sidecar else {
        return Ok(None);
    };
    let mut sidecar = (**own).clone();
    sidecar.id = sidecar_id(parent.own_id());
    if sidecar.name.is_empty() {
        sidecar.name = sidecar_id(&parent.name);
    }
    if sidecar.kind.is_empty() {
        PROXY.clone_into(&mut sidecar.kind);
    }
    if sidecar.tags.is_empty() {
        sidecar.tags.clone_from(&parent.tags);
    }
    if sidecar.meta.is_empty() {
        sidecar.meta.clone_from(&parent.meta);
    }
    if sidecar.address.is_empty() {
        sidecar.address.clone_from(&parent.address);
    }
    if sidecar.port < 1 {
        sidecar.port = port_of(&sidecar.id, parent, known)?;
    }
    let port = sidecar.port;
    let proxy = sidecar.proxy.get_or_insert_default();
    if proxy.destination_service_name.is_empty() {
        proxy.destination_service_name.clone_from(&parent.name);
    }
    if proxy.destination_service_id.is_empty() {
        parent
            .own_id()
            .clone_into(&mut proxy.destination_service_id);
    }
    if proxy.local_service_address.is_empty() {
        LOCAL.clone_into(&mut proxy.local_service_address);
    }
    if proxy.local_service_port < 1 {
        proxy.local_service_port = parent.port;
    }
    if sidecar.checks.is_empty() {
        let listens = format!("{}:{port}", proxy.local_service_address);
        let name = "Connect Sidecar Listening".to_owned();
        let alias = format!("Connect Sidecar Aliasing {}", parent.own_id());
        sidecar.checks = vec![
            CheckDefinition::tcp(name, listens, LISTENS),
            CheckDefinition::alias(alias, parent.own_id().to_owned()),
        ];
    }
    Ok(Some(sidecar))
}
