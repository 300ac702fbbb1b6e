//! A list of backends becomes endpoints.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use crate::{
    endpoint::{Endpoint, Hints, Scope, Scopes},
    error::{EventError, Fault},
    service::Service,
    unchecked::{choice::Choice, service::Backend, text::Text},
    validate::address::{address, family},
};

/// The endpoints of one port of `service`, listed at `path`, sorted by address and port. One that
/// is listed twice counts once, unless the two differ: which to believe is not ours to guess.
pub(super) fn endpoints(
    list: Vec<Backend<'_>>,
    path: &str,
    service: &Service,
) -> Result<Vec<Endpoint>, EventError> {
    let mut names = Names::default();
    let mut found = Vec::with_capacity(list.len());
    for (index, backend) in list.into_iter().enumerate() {
        let endpoint = endpoint(backend, service, &mut names)
            .map_err(|error| error.within(format_args!("{path}[{index}]")))?;
        found.push((endpoint, index));
    }
    found.sort_by_key(|(endpoint, _)| (endpoint.ip, endpoint.port));
    let same = |a: &Endpoint, b: &Endpoint| (a.ip, a.port) == (b.ip, b.port);
    let contradiction = found
        .windows(2)
        .find(|pair| same(&pair[0].0, &pair[1].0) && pair[0].0 != pair[1].0);
    if let Some([(_, first), (_, second)]) = contradiction {
        let fault = Fault::ContradictoryBackend {
            first: format!("{path}[{first}]"),
        };
        return Err(EventError::new(fault).within(format_args!("{path}[{second}]")));
    }
    found.dedup_by(|(b, _), (a, _)| same(a, b));
    Ok(found.into_iter().map(|(endpoint, _)| endpoint).collect())
}

/// Names of nodes and zones of one port, each kept once: many backends share few of them.
#[derive(Default)]
struct Names(HashMap<Box<str>, Arc<str>>);

impl Names {
    fn share(&mut self, text: Option<Text<'_>>) -> Option<Arc<str>> {
        let text = text?;
        if let Some(name) = self.0.get(&*text) {
            return Some(Arc::clone(name));
        }
        let name = Arc::<str>::from(&*text);
        self.0.insert((&*text).into(), Arc::clone(&name));
        Some(name)
    }
}

fn endpoint(
    backend: Backend<'_>,
    service: &Service,
    names: &mut Names,
) -> Result<Endpoint, EventError> {
    let Backend {
        ip,
        port,
        weight,
        local,
        state,
        serving,
        node,
        zone,
        scopes,
    } = backend;
    let ip = backend_address(&ip, service).map_err(|fault| EventError::new(fault).within("ip"))?;
    if port == 0 {
        return Err(EventError::new(Fault::ZeroPort).within("port"));
    }
    Ok(Endpoint {
        ip,
        port,
        weight: weight.unwrap_or(1),
        local,
        state: state
            .map_or_else(|| Ok(<_>::default()), Choice::known)
            .map_err(|fault| EventError::new(fault).within("state"))?,
        serving,
        scopes: scopes.map_or_else(
            || Ok(Scopes::default_of(local)),
            |list| endpoint_scopes(list, local),
        )?,
        hints: Hints::default(),
        node: names.share(node),
        zone: names.share(zone),
    })
}

/// The address in `text`, if a backend of `service` can have it.
pub(super) fn backend_address(text: &str, service: &Service) -> Result<IpAddr, Fault> {
    let ip = address(text)?;
    match service.addresses().next() {
        Some(own) if !service.has_family_of(ip) => Err(Fault::ForeignFamily {
            backend: family(ip),
            service: family(own),
        }),
        _ => Ok(ip),
    }
}

fn endpoint_scopes(list: Vec<Choice<'_, Scope>>, local: bool) -> Result<Scopes, EventError> {
    let mut scopes = Scopes {
        cluster: false,
        local: false,
    };
    for (index, scope) in list.into_iter().enumerate() {
        let fault = match scope.known() {
            Ok(Scope::Cluster) => {
                scopes.cluster = true;
                continue;
            }
            Ok(Scope::Local) if local => {
                scopes.local = true;
                continue;
            }
            Ok(Scope::Local) => Fault::RemoteInLocalScope,
            Err(fault) => fault,
        };
        return Err(EventError::new(fault).within(format_args!("scopes[{index}]")));
    }
    Ok(scopes)
}
