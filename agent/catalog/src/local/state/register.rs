//! Requests: registrations and their end.

use std::{collections::BTreeSet, iter, net::IpAddr, sync::Arc};

use crate::{
    instances::tier::GATEWAYS,
    local::{
        definition::{
            check::{CheckDefinition, Probe},
            file::Defined,
            service::{ServiceDefinition, Weights},
        },
        state::{
            check::{Check, NODE_MAINTENANCE, maintenance_id},
            definitions::Definitions,
            refusal::Refusal,
            service::{Origin, PROXY, Registered, Service},
            sidecar::{sidecar_id, sidecar_of},
        },
    },
};

/// Largest number of services.
pub(crate) const MAX_SERVICES: usize = 8192;

/// Largest number of checks.
const MAX_CHECKS: usize = 4 * MAX_SERVICES;

/// Longest id or name, in bytes.
const MAX_NAME: usize = 1024;

/// Weights are 16 bits wide.
const MAX_WEIGHT: i64 = 65_535;

/// Prefix that a key of a meta must not have.
const RESERVED: &str = "consul-";

/// Something that is asked for, and that lasts once it is done.
#[derive(Debug, Clone)]
pub enum Change {
    /// A service is registered, or replaced.
    Register {
        /// Its definition.
        definition: Box<ServiceDefinition>,
        /// True if checks of it go that are not in the definition.
        replaces_checks: bool,
    },
    /// A service goes; it may be unknown.
    Deregister(String),
    /// A service goes into maintenance, for this reason, or comes out of it.
    Maintenance {
        /// Id of the service.
        service: String,
        /// `None`: it comes out of it.
        reason: Option<String>,
    },
    /// Likewise the node.
    NodeMaintenance(Option<String>),
    /// A check is registered, or replaced.
    RegisterCheck(Box<CheckDefinition>),
    /// A check goes; it may be unknown.
    DeregisterCheck(String),
    /// The definitions of files are these now.
    Define(Defined),
}

/// Checks of a service that go when it is registered again.
#[derive(Debug, Clone, Copy)]
enum Replaced {
    /// None, as Consul has it if nothing else is asked for.
    None,
    /// All but what has it in maintenance.
    All,
    /// Checks that files have defined.
    OfFiles,
}

impl Definitions {
    /// Does what is asked on a node of this name, all of it or nothing.
    ///
    /// # Errors
    ///
    /// It is not done, and why.
    pub(crate) fn change(&mut self, change: &Change, node: &str) -> Result<(), Refusal> {
        match change {
            Change::Register {
                definition,
                replaces_checks,
            } => {
                if definition.name.eq_ignore_ascii_case(GATEWAYS) {
                    return Err(Refusal::bad(format!(
                        "Invalid service name: \"{GATEWAYS}\" is for gateways, which the agent offers to other \
                         datacenters by itself"
                    )));
                }
                let replaced = if *replaces_checks {
                    Replaced::All
                } else {
                    Replaced::None
                };
                self.register(definition, replaced, Origin::Api, node)
            }
            Change::Deregister(id) => self.deregister(id),
            Change::Maintenance { service, reason } => {
                if self.service(service).is_none() {
                    return Err(Refusal::Missing(format!(
                        "No service registered with ID \"{service}\""
                    )));
                }
                match reason {
                    Some(reason) => self.put_check(Check::maintenance(service, reason)),
                    None => self.remove_check(&maintenance_id(service)),
                }
                Ok(())
            }
            Change::NodeMaintenance(reason) => {
                match reason {
                    Some(reason) => self.put_check(Check::node_maintenance(reason)),
                    None => self.remove_check(NODE_MAINTENANCE),
                }
                Ok(())
            }
            Change::RegisterCheck(definition) => self.register_check(definition, Origin::Api, node),
            Change::DeregisterCheck(id) => {
                self.remove_check(id);
                Ok(())
            }
            Change::Define(defined) => self.define(defined, node),
        }
    }

    /// Registers a service and its sidecar.
    fn register(
        &mut self,
        definition: &ServiceDefinition,
        replaced: Replaced,
        origin: Origin,
        node: &str,
    ) -> Result<(), Refusal> {
        check_service(definition)?;
        let own = Registered::new(Service::of(definition), origin, false);
        let own_checks = checks(definition, &own.service, origin, node)?;
        if let Some(sidecar) = &definition.sidecar {
            if !sidecar.id.is_empty() {
                return Err(Refusal::listed(&[
                    "A SidecarService cannot specify an ID as this is managed by the agent",
                ]));
            }
            if sidecar.sidecar.is_some() {
                return Err(Refusal::listed(&[
                    "A SidecarService cannot have a nested SidecarService",
                ]));
            }
        }
        let mut all = vec![(own, own_checks)];
        if let Some(definition) = sidecar_of(definition, self)? {
            check_service(&definition).map_err(|refusal| of_sidecar(&refusal))?;
            let sidecar = Registered::new(Service::of(&definition), origin, true);
            let checks = checks(&definition, &sidecar.service, origin, node);
            all.push((sidecar, checks.map_err(|refusal| of_sidecar(&refusal))?));
        }
        self.has_room(
            all.iter().map(|(it, _)| it.service.id.as_str()),
            all.iter().flat_map(|(_, checks)| checks),
        )?;
        for (registered, checks) in all {
            self.put(registered, checks, replaced);
        }
        Ok(())
    }

    /// Puts a service and its checks in their place.
    fn put(&mut self, registered: Registered, checks: Vec<Check>, replaced: Replaced) {
        let goes = |check: &Check| match replaced {
            Replaced::None => false,
            Replaced::All => !matches!(check.probe, Probe::Maintenance),
            Replaced::OfFiles => check.origin == Origin::File,
        };
        let own = self.own_checks(&registered.service.id);
        let old = own
            .filter(|check| goes(check))
            .map(|check| check.id.clone());
        let old: Vec<String> = old.collect();
        old.iter().for_each(|id| self.remove_check(id));
        self.put_service(registered);
        checks.into_iter().for_each(|check| self.put_check(check));
    }

    /// Refuses what is new and too much.
    fn has_room<'a>(
        &self,
        mut services: impl Iterator<Item = &'a str>,
        mut checks: impl Iterator<Item = &'a Check>,
    ) -> Result<(), Refusal> {
        let adds_service = services.any(|id| self.service(id).is_none());
        let adds_check = checks.any(|check| self.check(&check.id).is_none());
        let full = match () {
            () if adds_service && self.services().len() >= MAX_SERVICES => {
                format!("{MAX_SERVICES} services")
            }
            () if adds_check && self.checks().len() >= MAX_CHECKS => {
                format!("{MAX_CHECKS} checks")
            }
            () => return Ok(()),
        };
        let text = format!("there is no room for more than {full}: deregister some");
        Err(Refusal::Full(text))
    }

    /// Takes a service away, and the sidecar that came with it.
    fn deregister(&mut self, id: &str) -> Result<(), Refusal> {
        if id.is_empty() {
            return Err(Refusal::failed("ServiceID missing"));
        }
        if self.remove_service(id).is_some() {
            let sidecar = sidecar_id(id);
            if self.service(&sidecar).is_some_and(|it| it.is_sidecar) {
                self.remove_service(&sidecar);
            }
        }
        Ok(())
    }

    fn register_check(
        &mut self,
        definition: &CheckDefinition,
        origin: Origin,
        node: &str,
    ) -> Result<(), Refusal> {
        let check = Check::alone(definition, origin, node)?;
        if !check.service.is_empty() && self.service(&check.service).is_none() {
            let service = &check.service;
            return Err(Refusal::failed(format!(
                "ServiceID \"{service}\" does not exist"
            )));
        }
        self.has_room(iter::empty(), iter::once(&check))?;
        self.put_check(check);
        Ok(())
    }

    /// Puts the definitions of files in the place of those before. One that is the same stays as it is.
    fn define(&mut self, defined: &Defined, node: &str) -> Result<(), Refusal> {
        let Defined { services, checks } = defined;
        let mut next = self.clone();
        let mut stays = BTreeSet::new();
        for definition in services {
            let id = definition.own_id();
            let named = |refusal: Refusal| Refusal::Bad(format!("service {id}: {refusal}"));
            next.register(definition, Replaced::OfFiles, Origin::File, node)
                .map_err(named)?;
            stays.insert(id.to_owned());
            if definition.sidecar.is_some() {
                stays.insert(sidecar_id(id));
            }
        }
        let of_files = |it: &&Arc<Registered>| it.origin == Origin::File;
        let services = next.services().filter(of_files);
        let ids = services.map(|it| it.service.id.clone());
        let gone: Vec<String> = ids.filter(|id| !stays.contains(id)).collect();
        gone.iter().for_each(|id| drop(next.remove_service(id)));
        let mut alone = BTreeSet::new();
        for definition in checks {
            let named =
                |refusal: Refusal| Refusal::Bad(format!("check {}: {refusal}", definition.name));
            next.register_check(definition, Origin::File, node)
                .map_err(named)?;
            let own = [&definition.id, &definition.name].into_iter();
            alone.extend(own.filter(|id| !id.is_empty()).take(1).cloned());
        }
        // Those of a file's own services went with what these replaced.
        let is_of_files = |check: &Check| {
            let service = next.service(&check.service);
            service.is_some_and(|service| service.origin == Origin::File)
        };
        let checks = next
            .checks()
            .filter(|it| it.origin == Origin::File && !is_of_files(it));
        let ids = checks.map(|check| check.id.clone());
        let gone: Vec<String> = ids.filter(|id| !alone.contains(id)).collect();
        gone.iter().for_each(|id| next.remove_check(id));
        *self = next;
        Ok(())
    }
}

/// Returns the same of a sidecar, in Consul's words.
fn of_sidecar(refusal: &Refusal) -> Refusal {
    let text = refusal.to_string();
    let text = text.strip_prefix("Invalid Service Meta: ").unwrap_or(&text);
    Refusal::failed(match text.strip_prefix("Invalid check: ") {
        Some(text) => format!("Bad request: Invalid check in sidecar_service: {text}"),
        None => format!("Bad request: Invalid SidecarService: {text}"),
    })
}

/// Checks the definition of a service.
fn check_service(definition: &ServiceDefinition) -> Result<(), Refusal> {
    let ServiceDefinition {
        name,
        kind,
        meta,
        address,
        port,
        weights,
        proxy,
        ..
    } = definition;
    let proxy = proxy.as_ref();
    let names_destination = proxy.is_some_and(|it| !it.destination_service_name.is_empty());
    if name.is_empty() {
        return Err(Refusal::bad("Missing service name"));
    }
    if name.len().max(definition.own_id().len()) > MAX_NAME {
        return Err(Refusal::bad(format!(
            "Invalid service name: it is longer than {MAX_NAME} bytes"
        )));
    }
    if address.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified()) {
        return Err(Refusal::bad("Invalid service address"));
    }
    if let Some((key, value)) = meta.iter().find(|(key, _)| key.starts_with(RESERVED)) {
        return Err(Refusal::bad(format!(
            "Invalid Service Meta: Couldn't load metadata pair ('{key}', '{value}'): Key prefix \
             '{RESERVED}' is reserved for internal use"
        )));
    }
    if let Some(Weights { passing, warning }) = *weights {
        let reason = match () {
            () if passing < 1 => "Passing must be greater than 0",
            () if warning < 0 => "Warning must be greater or equal than 0",
            () if passing.max(warning) > MAX_WEIGHT => "DNS Weight must be between 0 and 65535",
            () => return check_proxy(kind, names_destination, *port),
        };
        return Err(Refusal::bad(format!("Invalid Weights: {reason}")));
    }
    check_proxy(kind, names_destination, *port)
}

/// Checks the fields of a proxy.
fn check_proxy(kind: &str, names_destination: bool, port: i64) -> Result<(), Refusal> {
    if kind != PROXY {
        return Ok(());
    }
    let mut complaints = Vec::new();
    if !names_destination {
        complaints
            .push("Proxy.DestinationServiceName must be non-empty for Connect proxy services");
    }
    if port == 0 {
        complaints.push("Port must be set for a Connect proxy");
    }
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(Refusal::listed(&complaints))
    }
}

/// The checks of a service, with the ids that those get which have none.
fn checks(
    definition: &ServiceDefinition,
    service: &Service,
    origin: Origin,
    node: &str,
) -> Result<Vec<Check>, Refusal> {
    let checks = definition.checks.iter().enumerate();
    checks
        .map(|(place, check)| {
            let id = if definition.checks.len() == 1 {
                format!("service:{}", service.id)
            } else {
                format!("service:{}:{}", service.id, place + 1)
            };
            Check::of_service(check, service, id, origin, node)
        })
        .collect()
}
