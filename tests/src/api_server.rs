//! A Kubernetes API server, as far as Shunt sees one.
//!
//! It speaks HTTPS, asks for a token, and has Services, EndpointSlices, Nodes and ServiceCIDRs, and
//! routes and what goes with them where they are defined: lists in pages, and watches with bookmarks, by
//! label and field selectors. It takes Events, the status of routes, and Leases, and runs commands in
//! containers. And it can be all that a real
//! one is on a bad day: away, slow, busy, forgetful, cut off in the middle of an answer.

mod cluster;
mod defaults;
mod events;
mod exec;
mod faults;
mod http;
mod kind;
mod kubeconfig;
mod leases;
mod marks;
mod merge;
mod object;
mod query;
mod selector;
mod target;
mod tls;

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::{
    net::TcpListener as TokioListener,
    runtime::Builder,
    sync::{oneshot, watch},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use self::{
    cluster::Cluster,
    events::Events,
    exec::Container,
    kubeconfig::Kubeconfig,
    leases::Leases,
    marks::{Marked, Marks},
    selector::Selector,
    tls::Identity,
};
pub use self::{
    faults::Faults,
    http::{HTTP1, HTTP2},
    kind::Kind,
};
use crate::namespace::Namespace;

/// State that requests share.
struct Shared {
    cluster: Mutex<Cluster>,
    faults: Mutex<Faults>,
    /// Counts what was changed, for those who watch.
    changed: watch::Sender<u64>,
    /// Counts how often all connections were cut.
    cut: watch::Sender<u64>,
    /// Counts how often all connections were to end.
    goaway: watch::Sender<u64>,
    /// Number of connections.
    connections: AtomicUsize,
    token: Mutex<String>,
    /// Methods and URIs.
    requests: Mutex<Vec<(String, String)>>,
    events: Mutex<Events>,
    leases: Mutex<Leases>,
    marks: Arc<Marks>,
    /// Containers by namespace, pod and name.
    containers: Mutex<BTreeMap<String, Container>>,
    /// Number of processes that had to be killed after their clients.
    stuck: Mutex<usize>,
}

impl Shared {
    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self) -> MutexGuard<'_, String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requests(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn containers(&self) -> MutexGuard<'_, BTreeMap<String, Container>> {
        let containers = self.containers.lock();
        containers.unwrap_or_else(PoisonError::into_inner)
    }

    fn stuck(&self) -> MutexGuard<'_, usize> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running API server. Dropping it stops it.
pub struct ApiServer {
    shared: Arc<Shared>,
    kubeconfig: Kubeconfig,
    running: Option<Running>,
    at: SocketAddr,
    identity: Identity,
    protocols: &'static [&'static [u8]],
}

/// The thread that serves; it ends when this is dropped.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Listens at a free port of 127.0.0.1 in the namespace. There is no object yet.
    ///
    /// # Errors
    ///
    /// When it cannot listen, or its certificate cannot be made.
    pub fn start(namespace: &Namespace) -> Result<Self> {
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let listener = listen(namespace, any)?;
        let at = listener.local_addr()?;
        let identity = Identity::new(at.ip())?;
        let token = "token-1".to_owned();
        let mut server = Self {
            kubeconfig: Kubeconfig::write(at, &identity.authority(), &token)?,
            shared: Arc::new(Shared {
                cluster: Mutex::default(),
                faults: Mutex::default(),
                changed: watch::Sender::new(0),
                cut: watch::Sender::new(0),
                goaway: watch::Sender::new(0),
                connections: AtomicUsize::new(0),
                token: Mutex::new(token),
                requests: Mutex::default(),
                events: Mutex::default(),
                leases: Mutex::default(),
                marks: Arc::default(),
                containers: Mutex::default(),
                stuck: Mutex::default(),
            }),
            running: None,
            at,
            identity,
            protocols: &[HTTP2, HTTP1],
        };
        server.serve(listener)?;
        Ok(server)
    }

    /// The path of a kubeconfig that leads here.
    pub fn kubeconfig(&self) -> &str {
        self.kubeconfig.path()
    }

    /// Returns the address that it listens on, in its namespace.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// The folder of a service account: certificate, token and namespace, as a pod finds them.
    pub fn service_account(&self) -> &Path {
        self.kubeconfig.service_account()
    }

    /// Adds or replaces an object.
    ///
    /// # Panics
    ///
    /// If it has no kind that there is, or no name.
    pub fn put(&self, object: Value) {
        self.shared.cluster().put(object);
        self.shared.changed.send_modify(|count| *count += 1);
    }

    /// Has the status of an object be this.
    ///
    /// # Panics
    ///
    /// If it has no kind that there is, or no name.
    pub fn set_status(&self, object: &Value, status: Value) {
        self.shared.cluster().set_status(object, status);
        self.shared.changed.send_modify(|count| *count += 1);
    }

    /// The objects of a kind, by their names.
    pub fn objects(&self, kind: Kind) -> Vec<Value> {
        let objects = self.shared.cluster().list(kind, &Selector::default(), 0);
        objects.iter().map(|object| object.value()).collect()
    }

    /// Returns the changes of the objects of a kind since the last time that they were forgotten, in
    /// order: each object as it was before and after a change.
    pub fn history(&self, kind: Kind) -> Vec<(Option<Value>, Option<Value>)> {
        self.shared.cluster().history(kind)
    }

    /// Removes an object, of which kind, namespace and name count.
    ///
    /// # Panics
    ///
    /// If it has no kind that there is, or no name.
    pub fn delete(&self, object: &Value) {
        self.shared.cluster().delete(object);
        self.shared.changed.send_modify(|count| *count += 1);
    }

    /// Forgets the history up to the present state: a client that requests it has to list anew.
    pub fn compact(&self) {
        self.shared.cluster().compact();
    }

    /// Forgets how it came to what there is now, as [`Self::compact`], but for those who know it
    /// already: their watches go on.
    pub fn forget_known(&self) {
        self.shared.cluster().forget_known();
    }

    /// Cuts all connections, whatever they are in the middle of.
    pub fn cut(&self) {
        self.shared.cut.send_modify(|count| *count += 1);
    }

    /// Asks for other connections: what goes on in those that there are may end, and nothing may begin (GOAWAY of
    /// HTTP/2).
    pub fn send_goaway(&self) {
        self.shared.goaway.send_modify(|count| *count += 1);
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Takes these protocols when it [comes back](Self::come_back), the best one first.
    pub const fn set_protocols(&mut self, protocols: &'static [&'static [u8]]) {
        self.protocols = protocols;
    }

    /// Has these faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        *self.shared.faults() = faults;
        self.shared.changed.send_modify(|count| *count += 1);
    }

    /// Takes another token from now on, and none of those before; clients are notified, or not.
    ///
    /// # Errors
    ///
    /// When the token's file cannot be written.
    pub fn rotate_token(&self, token: &str, tell: bool) -> Result<()> {
        if tell {
            self.kubeconfig.set_token(token)?;
        }
        token.clone_into(&mut self.shared.token());
        Ok(())
    }

    /// The requests so far: path and query.
    pub fn requests(&self) -> Vec<String> {
        let requests = self.asked().into_iter();
        requests.map(|(_, uri)| uri).collect()
    }

    /// The requests so far: method, and path with query.
    pub fn asked(&self) -> Vec<(String, String)> {
        self.shared.requests().clone()
    }

    /// The Events (`events.k8s.io/v1`) that clients have made, as they are now.
    pub fn events(&self) -> Vec<Value> {
        self.shared.events().all()
    }

    /// The object as it is now, of which kind, namespace and name count.
    ///
    /// # Panics
    ///
    /// If it has no kind that there is, or no name.
    pub fn get(&self, object: &Value) -> Option<Value> {
        self.shared.cluster().find(object)
    }

    /// The Lease as it is now.
    pub fn lease(&self, namespace: &str, name: &str) -> Option<Value> {
        self.shared.leases().get(namespace, name).cloned()
    }

    /// Has the Lease be this; without one, it is removed.
    pub fn set_lease(&self, namespace: &str, name: &str, lease: Option<Value>) {
        self.shared.leases().set(namespace, name, lease);
    }

    /// Has commands in this container be the processes that `make` makes of the command lines.
    pub fn set_container(
        &self,
        namespace: &str,
        pod: &str,
        name: &str,
        make: impl Fn(&[String]) -> Command + Send + Sync + 'static,
    ) {
        let key = [namespace, pod, name].join("/");
        self.shared.containers().insert(key, Arc::new(make));
    }

    /// Has the kubelet of this container be away.
    pub fn remove_container(&self, namespace: &str, pod: &str, name: &str) {
        let key = [namespace, pod, name].join("/");
        self.shared.containers().remove(&key);
    }

    /// Returns the number of processes that had to be killed, because they went on without their clients.
    pub fn stuck_processes(&self) -> usize {
        *self.shared.stuck()
    }

    /// Returns the times at which the answers to requests for lists began: just before their first byte.
    pub fn list_times(&self) -> Vec<Instant> {
        self.shared.marks.lists()
    }

    /// Returns the times at which clients have written slices: just after each counted.
    pub fn write_times(&self) -> Vec<Instant> {
        self.shared.marks.writes()
    }

    /// Returns the time at which it last gave the kernel any bytes to be sent. By itself it sends
    /// bookmarks alone ([`Faults::no_bookmarks`]).
    pub fn last_sent(&self) -> Option<Instant> {
        self.shared.marks.last_sent()
    }

    /// Is away until it comes back: all connections are cut, and new ones are refused.
    pub fn go_away(&mut self) {
        self.running = None;
    }

    /// Serves again, at the same address of the same namespace.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn come_back(&mut self, namespace: &Namespace) -> Result<()> {
        let listener = listen(namespace, self.at)?;
        self.serve(listener)
    }

    fn serve(&mut self, listener: TcpListener) -> Result<()> {
        let acceptor = self.identity.acceptor(self.protocols)?;
        let shared = Arc::clone(&self.shared);
        let (stop, stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, acceptor, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        self.running = Some(Running {
            stop: Some(stop),
            thread: Some(thread),
        });
        Ok(())
    }
}

fn listen(namespace: &Namespace, at: SocketAddr) -> Result<TcpListener> {
    let listener = namespace.enter(|| TcpListener::bind(at));
    let listener = listener.with_context(|| format!("the API server cannot listen at {at}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A connection that counts for as long as this is there.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(connections: &'a AtomicUsize) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(connections)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes connections for ever.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(listener) = TokioListener::from_std(listener) else {
        return;
    };
    let mut connections = JoinSet::new();
    let mut cut = shared.cut.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                // As servers written in Go do.
                drop(stream.set_nodelay(true));
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
                connections.spawn(async move {
                    let stream = Marked::new(stream, Arc::clone(&shared.marks));
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let _counted = Counted::new(&shared.connections);
                    // The client sees what goes wrong.
                    drop(http::answer(stream, Arc::clone(&shared)).await);
                });
            }
            Ok(()) = cut.changed() => connections.abort_all(),
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}
