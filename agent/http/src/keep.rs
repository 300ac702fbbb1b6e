//! A listener that is tried until it can be had.

use std::{
    fmt, io, mem,
    net::{SocketAddr, TcpListener},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use shunt_runtime::{Listener, ListenerState, Reports};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{accept::accept, http1::Answers, listen::listen};

/// Time to wait before an address is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The connections of one address, taken and answered for ever.
type Accepting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Result of an attempt to listen at an address.
#[derive(Debug)]
pub struct Try {
    /// Address that was tried.
    pub address: SocketAddr,
    /// The listener, or the reason that there is none.
    pub outcome: io::Result<TcpListener>,
}

impl Try {
    /// Tries.
    pub fn at(address: SocketAddr) -> Self {
        let outcome = listen(address);
        Self { address, outcome }
    }
}

/// A listener, its addresses, and its answers. Dropped, it listens no longer.
pub struct Door<A> {
    listener: Listener,
    addresses: Vec<SocketAddr>,
    /// Addresses at which it does not listen yet.
    missing: Vec<SocketAddr>,
    answers: Arc<A>,
    reports: Arc<Reports>,
    accepting: FuturesUnordered<Accepting>,
    problem: Option<String>,
}

impl<A: Answers> Door<A> {
    /// With what came of each address at the first try.
    pub fn new(listener: Listener, tries: Vec<Try>, answers: A, reports: Arc<Reports>) -> Self {
        let mut door = Self {
            listener,
            addresses: tries.iter().map(|tried| tried.address).collect(),
            missing: Vec::new(),
            answers: Arc::new(answers),
            reports,
            accepting: FuturesUnordered::new(),
            problem: None,
        };
        door.take(tries);
        door
    }

    /// Takes connections where that is possible, and reports where it is not.
    fn take(&mut self, tries: Vec<Try>) {
        let mut problems = Vec::new();
        for Try { address, outcome } in tries {
            match outcome {
                Ok(listener) => {
                    let answers = Arc::clone(&self.answers);
                    self.accepting.push(Box::pin(accept(listener, answers)));
                }
                Err(error) => {
                    self.missing.push(address);
                    problems.push(format!("cannot listen at {address}: {error}"));
                }
            }
        }
        self.tell((!problems.is_empty()).then(|| problems.join("; ")));
    }

    /// Reports its state, to the log once.
    fn tell(&mut self, problem: Option<String>) {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let address = addresses.join(", ");
        let listener = &self.listener;
        match &problem {
            Some(problem) if self.problem.as_ref() != Some(problem) => {
                let again = RETRY.as_secs();
                warn!("{listener}: {problem}; it is tried again every {again} s");
            }
            None => info!("{listener}: listening at {address}"),
            Some(_) => {}
        }
        let state = ListenerState {
            address,
            problem: problem.clone(),
        };
        self.reports.set_listener(listener, Some(state));
        self.problem = problem;
    }

    /// Keeps it open, for ever, and tries again what could not be had.
    pub async fn keep(mut self) {
        loop {
            tokio::select! {
                Some(()) = self.accepting.next() => {}
                () = sleep(RETRY), if !self.missing.is_empty() => {
                    let missing = mem::take(&mut self.missing);
                    self.take(missing.into_iter().map(Try::at).collect());
                }
                else => return,
            }
        }
    }
}

impl<A> fmt::Debug for Door<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("listener", &self.listener)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl<A> Drop for Door<A> {
    fn drop(&mut self) {
        self.reports.set_listener(&self.listener, None);
    }
}
