//! The source: what is registered becomes events, one at a time of each service.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt, fs,
    future::pending,
    io,
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use shunt_model::ServiceId;
use shunt_runtime::{
    Circumstances, Contact, Ending, EventQueue, Fate, Here, HereWatch, Origin, fate,
};
use shunt_source::{EventSource, Retries};
use thiserror::Error;
use tokio::sync::watch;
use tracing::error;

use crate::{
    instances::{
        configuration::parse::parse,
        engine::{About, Engine, Work},
        frontend::{Frontend, Vip},
        kept::{keep, read},
        place::Place,
        query::{Query, QueryKind},
        tier::{Datacenter, Via},
    },
    local::{
        federation::{shared::Federation, states::States},
        instances::instances,
        registrar::Registrar,
    },
};

/// The source's name in reports, and the namespace of its services.
const SOURCE: &str = "local";

/// The exit status of a process that has panicked, as Rust has it.
const EXIT_PANICKED: i32 = 101;

/// The frontends of registered services cannot be read.
#[derive(Debug, Error)]
pub enum FrontendsError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something in it is wrong.
    #[error("{}: {reason}", path.display())]
    Wrong {
        /// Path of the file.
        path: PathBuf,
        /// The error, with its place.
        reason: String,
    },
}

/// State of the source, to be shown.
#[derive(Debug, Clone, Default)]
pub struct Shown(Arc<Mutex<Progress>>);

/// Progress of the source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// The frontends that there are to be.
    pub(crate) frontends: usize,
    /// Number of those whose last state the renderer does not have.
    pub(crate) pending: usize,
    /// Parts that are left out of each, and why.
    pub(crate) problems: BTreeMap<String, Vec<String>>,
    /// The frontends whose new connections go to another datacenter, and to which.
    pub(crate) failed_over: BTreeMap<String, String>,
}

impl Shown {
    /// As it is now.
    pub(crate) fn progress(&self) -> Progress {
        let progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.clone()
    }

    fn show(&self, frontends: usize, engine: &Engine) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.frontends = frontends;
        progress.pending = engine.waiting();
        if progress.problems != *engine.problems() {
            progress.problems.clone_from(engine.problems());
        }
        let failed_over = engine.failed_over();
        progress.failed_over = failed_over
            .map(|(id, datacenter)| (id.to_string(), datacenter.to_owned()))
            .collect();
    }
}

/// Frontends that are offered to other datacenters.
#[derive(Debug, Clone, Default)]
pub struct OfferedFrontends(pub(crate) Vec<Frontend>);

/// Services that are registered with this agent.
#[derive(Debug)]
pub struct LocalSource {
    registrar: Registrar,
    federation: Option<Federation>,
    frontends: Vec<Frontend>,
    path: PathBuf,
    /// The file of addresses that instances agreed on.
    kept: PathBuf,
    shown: Shown,
    here: Option<HereWatch>,
}

impl LocalSource {
    /// Returns a source of the instances of `registrar`, and of the gateways of other datacenters of `federation`,
    /// behind the frontends of the file at `path`. Addresses on which instances agree are kept in the file `kept`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or asks for what there is not without Consul.
    pub fn open(
        registrar: Registrar,
        federation: Option<Federation>,
        path: &Path,
        kept: PathBuf,
    ) -> Result<Self, FrontendsError> {
        let text = fs::read_to_string(path).map_err(|source| FrontendsError::Io {
            path: path.to_owned(),
            source,
        })?;
        let own = federation.as_ref();
        let own = own.map(|federation| federation.options().datacenter.clone());
        let frontends = frontends(&text, own.as_deref());
        Ok(Self {
            registrar,
            federation,
            frontends: frontends.map_err(|reason| FrontendsError::Wrong {
                path: path.to_owned(),
                reason,
            })?,
            path: path.to_owned(),
            kept,
            shown: Shown::default(),
            here: None,
        })
    }

    /// Has it know which addresses are on this host, whenever they change. Before they are known it delivers nothing.
    #[must_use]
    pub fn among(self, here: HereWatch) -> Self {
        Self {
            here: Some(here),
            ..self
        }
    }

    /// The frontends that are offered to other datacenters.
    pub fn offered(&self) -> OfferedFrontends {
        let offered = self.frontends.iter().filter(|it| it.export.is_some());
        OfferedFrontends(offered.cloned().collect())
    }

    /// Returns a handle that shows its current state.
    pub fn shown(&self) -> Shown {
        self.shown.clone()
    }
}

/// The frontends of a text, under names of their own, for a host of the datacenter `own` of a federation, or
/// of none.
fn frontends(text: &str, own: Option<&str>) -> Result<Vec<Frontend>, String> {
    let frontends = parse(text).map_err(|error| error.to_string())?;
    let frontends = frontends.into_iter().map(|mut frontend| {
        if matches!(frontend.vip, Vip::Claimed(_)) {
            let service = &frontend.service;
            return Err(format!(
                "frontend of service {service}: `vip_from_range` needs Consul, which keeps who has \
                 which address: give it a `vip`"
            ));
        }
        let service = &frontend.service;
        if !frontend.has_fixed_tiers() {
            return Err(format!(
                "frontend of service {service}: `resolver` and `failover_nearest` need Consul, which knows \
                 them: name the datacenters"
            ));
        }
        let has_others = frontend.configured_tiers().len() > 1;
        if own.is_none() && (has_others || frontend.export.is_some()) {
            return Err(format!(
                "frontend of service {service}: `failover` and `export` need Consul, or a federation, which \
                 knows other datacenters: give --federation-datacenter, or take it away"
            ));
        }
        if has_others && frontend.via == Via::Direct {
            return Err(format!(
                "frontend of service {service}: a federation knows the gateways of other datacenters and not \
                 their instances: set `via = \"gateway\"`"
            ));
        }
        frontend.settle_in(own.unwrap_or_default());
        frontend.trusts_gateways = true;
        frontend.id = Arc::new(ServiceId::new(SOURCE, &frontend.id.name));
        Ok(frontend)
    });
    frontends.collect()
}

impl fmt::Display for LocalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(
            f,
            "following registered services, by the frontends in {path}"
        )
    }
}

impl EventSource for LocalSource {
    type Handle = ();

    fn start(self, queue: EventQueue) -> io::Result<()> {
        queue.reports().set_source(
            SOURCE,
            Contact {
                connected: true,
                since: SystemTime::now(),
                problem: None,
            },
        );
        let delivered = tokio::spawn(deliver(self, queue));
        tokio::spawn(async move {
            if delivered.await.is_err_and(|error| error.is_panic()) {
                error!(
                    "following registered services has failed: the agent ends, to be started anew"
                );
                process::exit(EXIT_PANICKED);
            }
        });
        Ok(())
    }
}

/// Delivers events, each as soon as the one before of its service is answered.
async fn deliver(source: LocalSource, queue: EventQueue) -> Result<Infallible, Ending> {
    let LocalSource {
        registrar,
        federation,
        frontends,
        path: _,
        kept,
        shown,
        mut here,
    } = source;
    let mut known = federation.as_ref().map(Federation::changes);
    let count = frontends.len();
    let mut engine = Engine::new(frontends);
    let kept = engine.has_tagged().then(|| {
        engine.restore_addresses(&read(&kept));
        keep(kept)
    });
    let node = registrar.node().clone();
    let place = Place {
        node: node.name.as_str().into(),
        datacenter: "".into(),
        here: known_here(here.as_mut()).await,
    };
    let set_place = |engine: &mut Engine, place| {
        engine.set_place(place, node.address.into_iter().collect());
    };
    set_place(&mut engine, place.clone());
    look(&mut engine, &registrar, |_| true);
    look_around(&mut engine, federation.as_ref());
    let mut number = 0;
    let mut under_way = FuturesUnordered::new();
    let mut retries = Retries::default();
    loop {
        while let Some(Work { event, about, .. }) = engine.next(Instant::now()) {
            number += 1;
            let origin = Origin {
                unit: "registration",
                number,
            };
            let queue = queue.clone();
            under_way.push(async move {
                // What one service waits for is no other's affair.
                let answer = queue
                    .deliver_with(origin, Ok(event), Circumstances::default(), None)
                    .await?;

                Ok::<(About, Fate), Ending>((about, fate(answer)))
            });
        }
        shown.show(count, &engine);
        if let (Some(kept), Some(addresses)) = (&kept, engine.new_addresses()) {
            kept.send_replace(addresses);
        }
        tokio::select! {
            biased;
            Some(done) = under_way.next() => {
                let (about, fate) = done?;
                retries.note(&fate);
                engine.done(about, fate);
            }
            names = registrar.concerned() => {
                look(&mut engine, &registrar, |service| {
                    names.iter().any(|name| name.eq_ignore_ascii_case(service))
                });
            }
            Some(here) = other_here(here.as_mut()) => {
                let place = Place {
                    here: Some(here),
                    ..place.clone()
                };
                set_place(&mut engine, place);
            }
            () = changed(&mut known) => look_around(&mut engine, federation.as_ref()),
            () = retries.due() => engine.retry(),
        }
    }
}

/// Waits until it is known which addresses are on this host. `None`: it never will be.
async fn known_here(here: Option<&mut HereWatch>) -> Option<Arc<Here>> {
    let known = here?.wait_for(Option::is_some).await;
    known.ok()?.clone()
}

/// Waits until others are.
async fn other_here(here: Option<&mut HereWatch>) -> Option<Arc<Here>> {
    let Some(here) = here else {
        return pending().await;
    };
    if here.changed().await.is_err() {
        return pending().await;
    }
    here.borrow_and_update().clone()
}

/// Waits until other gateways are known.
async fn changed(known: &mut Option<watch::Receiver<Arc<States>>>) {
    if let Some(changes) = known
        && changes.changed().await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

/// Returns whether what a query gives is of this host.
fn is_of_here(query: &Query) -> bool {
    query.datacenter == Datacenter::Own && query.kind != QueryKind::MeshGateways
}

/// Has the engine know what there is in other datacenters.
fn look_around(engine: &mut Engine, federation: Option<&Federation>) {
    let queries = engine.queries().filter(|query| !is_of_here(query));
    let queries: Vec<_> = queries.cloned().collect();
    for query in queries {
        let found = federation.map(|federation| federation.instances(&query));
        engine.set_instances(&query, found.unwrap_or_default());
    }
}

/// Has the engine know the instances of those services of this host that `is_concerned`.
fn look(engine: &mut Engine, registrar: &Registrar, is_concerned: impl Fn(&str) -> bool) {
    let queries = engine.queries();
    let queries: Vec<_> = queries
        .filter(|query| is_of_here(query) && is_concerned(&query.service))
        .cloned()
        .collect();
    let registry = registrar.look();
    for query in queries {
        let found = instances(&query, &registry, registrar.node());
        engine.set_instances(&query, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frontends_are_of_this_host_and_need_no_consul() {
        let text = "[[frontend]]\nservice = \"web\"\nvip = \"10.96.0.1\"\nport = 80\n";
        let found = frontends(text, None).unwrap();
        assert_eq!(found[0].id.to_string(), "local/web");
        let text =
            "[[frontend]]\nservice = \"web\"\nvip_from_range = \"10.96.0.0/24\"\nport = 80\n";
        let refused = frontends(text, None).unwrap_err();
        assert!(refused.contains("needs Consul"), "{refused}");
        assert!(
            frontends("[[frontend]]\n", None)
                .unwrap_err()
                .starts_with("line 1: ")
        );
    }

    #[test]
    fn other_datacenters_are_a_federations() {
        let with = |more: &str| {
            format!("[[frontend]]\nservice = \"web\"\nvip = \"10.96.0.1\"\nport = 80\n{more}\n")
        };
        let failover = with("failover = [\"dc1\", \"dc2\"]\nvia = \"gateway\"");
        let found = frontends(&failover, Some("dc1")).unwrap();
        assert_eq!(
            found[0].configured_tiers().len(),
            2,
            "the own one is there once"
        );
        assert!(found[0].trusts_gateways);
        frontends(&with("export = true"), Some("dc1")).unwrap();
        for (more, own, word) in [
            (
                "failover = [\"dc2\"]\nvia = \"gateway\"",
                None,
                "--federation-datacenter",
            ),
            ("export = true", None, "--federation-datacenter"),
            ("failover = [\"dc2\"]", Some("dc1"), "via = \"gateway\""),
            (
                "failover = \"resolver\"\nvia = \"gateway\"",
                Some("dc1"),
                "need Consul",
            ),
            (
                "failover_nearest = 1\nvia = \"gateway\"",
                Some("dc1"),
                "need Consul",
            ),
        ] {
            let refused = frontends(&with(more), own).unwrap_err();
            assert!(refused.contains(word), "{more}: {refused}");
        }
    }
}
