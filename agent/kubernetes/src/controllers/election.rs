//! Election of the one of several controllers that writes.

mod candidate;
mod leases;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tracing::{debug, info, warn};

use self::{candidate::Candidate, leases::Leases};
use crate::controllers::options::LeaseOptions;

/// Maximum time for giving the Lease back.
const RELEASE: Duration = Duration::from_secs(3);

/// The term of a controller that leads: it ends at this time, unless the Lease is renewed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Term(Option<Instant>);

impl Term {
    /// Returns whether it leads now, as far as it knows: a moment later another one may.
    pub(super) fn is_now(self) -> bool {
        self.0.is_some_and(|end| Instant::now() < end)
    }

    /// Returns a term that ends so much later.
    #[cfg(test)]
    pub(super) fn of(duration: Duration) -> Self {
        Self(Some(Instant::now() + duration))
    }
}

/// A candidate, for as long as this is there.
pub(super) struct Election {
    /// The candidate's term. Its beginning and its end are changes, and its renewal is none.
    pub(super) term: watch::Receiver<Term>,
    stop: oneshot::Sender<Infallible>,
    task: JoinHandle<()>,
}

/// The Lease itself, for one who wants to be sure.
#[derive(Clone)]
pub(super) struct Ballot {
    leases: Leases,
    identity: String,
    term: watch::Receiver<Term>,
}

impl Ballot {
    /// That of the Lease of these options, in `namespace`, for a candidate with this term.
    pub(super) fn new(
        client: Client,
        namespace: &str,
        options: &LeaseOptions,
        term: watch::Receiver<Term>,
    ) -> Self {
        Self {
            leases: Leases::new(client, namespace, &options.name),
            identity: options.identity.clone(),
            term,
        }
    }

    /// Asks the server whether this candidate leads now. What the candidate itself believes may be
    /// from before it was stopped for a while.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub(super) async fn is_won(&self) -> Result<bool, kube::Error> {
        let record = self.leases.get().await?;
        let holder = record.and_then(|record| record.spec.holder_identity);
        Ok(holder.as_ref() == Some(&self.identity) && self.term.borrow().is_now())
    }
}

impl Election {
    /// Stands for election.
    pub(super) fn start(client: Client, namespace: &str, options: &LeaseOptions) -> Self {
        let (told, term) = watch::channel(Term::default());
        let (stop, stopped) = oneshot::channel();
        let candidacy = Candidacy {
            leases: Leases::new(client, namespace, &options.name),
            name: format!("{namespace}/{}", options.name),
            candidate: Candidate::new(options),
            term: told,
            is_failing: false,
        };
        let task = tokio::spawn(candidacy.stand(stopped));
        Self { term, stop, task }
    }

    /// Gives up, and the Lease back if it has it, so that the next one does not wait for its end. What it leads has
    /// to have ended before.
    pub(super) async fn withdraw(self) {
        let Self {
            term: _,
            stop,
            task,
        } = self;
        drop(stop);
        if let Err(failed) = task.await {
            warn!("the election has failed: {failed}");
        }
    }
}

/// A candidate and its Lease.
struct Candidacy {
    leases: Leases,
    /// Namespace and name of the Lease.
    name: String,
    candidate: Candidate,
    term: watch::Sender<Term>,
    /// True if the last look at the Lease has failed.
    is_failing: bool,
}

impl Candidacy {
    /// Stands for election until the sender is dropped; then it gives the Lease back.
    async fn stand(mut self, mut stopped: oneshot::Receiver<Infallible>) {
        let random = RandomState::new();
        for number in 0_u64.. {
            let until = self.candidate.look_until(Instant::now());
            tokio::select! {
                looked = timeout_at(until, self.look()) => {
                    let failure = match looked {
                        Ok(Ok(())) => None,
                        Ok(Err(error)) => Some(error.to_string()),
                        Err(_) => Some("no answer in time".to_owned()),
                    };
                    self.log(failure);
                }
                _ = &mut stopped => break,
            }
            self.announce();
            let random = random.hash_one(number);
            let next = self.candidate.next_look(random, Instant::now());
            tokio::select! {
                () = sleep_until(next) => {}
                _ = &mut stopped => break,
            }
            // The term may have ended meanwhile.
            self.announce();
        }
        match timeout(RELEASE, self.give_back()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!("the Lease {} is not given back: {error}", self.name),
            Err(_) => warn!(
                "the Lease {} is not given back within {RELEASE:?}: it lasts until its end",
                self.name
            ),
        }
    }

    /// Looks at the Lease, and takes or renews it if it can.
    async fn look(&mut self) -> Result<(), kube::Error> {
        let record = self.leases.get().await?;
        let asked = Instant::now();
        self.candidate.observe(record, asked);
        let Some(bid) = self.candidate.bid(Timestamp::now(), asked) else {
            return Ok(());
        };
        match self.leases.write(&bid).await? {
            Some(record) => self.candidate.won(record, asked, Instant::now()),
            None => debug!("another one has written the Lease {} first", self.name),
        }
        Ok(())
    }

    /// Gives the Lease back, if this candidate has it. Its own last renewal may come between.
    async fn give_back(&mut self) -> Result<(), kube::Error> {
        loop {
            let record = self.leases.get().await?;
            self.candidate.observe(record, Instant::now());
            let Some(bid) = self.candidate.give_back(Timestamp::now()) else {
                return Ok(());
            };
            if self.leases.write(&bid).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Notifies those who write of the beginning and the end of a term.
    fn announce(&self) {
        let term = Term(self.candidate.end(Instant::now()));
        let is_new = self.term.send_if_modified(|known| {
            let is_new = known.0.is_some() != term.0.is_some();
            *known = term;
            is_new
        });
        match (is_new, term.0) {
            (true, Some(_)) => info!("this controller is the one that writes"),
            (true, None) => info!("this controller does not write any more"),
            (false, _) => {}
        }
    }

    /// Logs the first failure of several in a row.
    fn log(&mut self, failure: Option<String>) {
        let was_failing = std::mem::replace(&mut self.is_failing, failure.is_some());
        match failure {
            Some(error) if was_failing => {
                debug!("the Lease {} cannot be had: {error}", self.name);
            }
            Some(error) => warn!("the Lease {} cannot be had: {error}", self.name),
            None if was_failing => info!("the Lease {} can be had again", self.name),
            None => {}
        }
    }
}
