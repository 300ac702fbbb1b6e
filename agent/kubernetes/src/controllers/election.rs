//! Election of the one of several controllers that writes.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseParams};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{interval, sleep, timeout},
};
use tracing::{info, warn};

use crate::{controllers::options::LeaseOptions, watch::backoff::Backoff};

/// Maximum time for giving the Lease back.
const RELEASE: Duration = Duration::from_secs(3);

/// A candidate, for as long as this is there.
pub(super) struct Election {
    /// True if it leads, as far as it knows: a moment later another one may.
    pub(super) leads: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

/// The Lease itself, for one who wants to be sure.
#[derive(Clone)]
pub(super) struct Ballot {
    leases: Api<Lease>,
    name: String,
    identity: String,
}

impl Ballot {
    /// That of the Lease of these options; its namespace is `namespace`.
    pub(super) fn new(client: Client, namespace: &str, options: &LeaseOptions) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: options.name.clone(),
            identity: options.identity.clone(),
        }
    }

    /// Asks the server whether this candidate leads now. What the candidate itself believes may be
    /// from before its server was away, or before it was stopped for a while.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub(super) async fn is_won(&self) -> Result<bool, kube::Error> {
        let lease = self.leases.get_opt(&self.name).await?;
        let spec = lease.and_then(|lease| lease.spec);
        Ok(spec.is_some_and(|spec| holds(&spec, &self.identity, SystemTime::now())))
    }

    /// Returns whether there is no such Lease. One that cannot be asked for may be there.
    async fn is_missing(&self) -> bool {
        matches!(self.leases.get_opt(&self.name).await, Ok(None))
    }
}

/// Returns whether a Lease is that of `identity`, and not over at `now`. Its times are this candidate's own
/// then, so no other host's clock counts.
fn holds(lease: &LeaseSpec, identity: &str, now: SystemTime) -> bool {
    let LeaseSpec {
        holder_identity,
        lease_duration_seconds,
        renew_time,
        ..
    } = lease;
    let seconds = lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let renewed = renew_time.as_ref().map(|time| SystemTime::from(time.0));
    let end = renewed.zip(seconds);
    let end = end.and_then(|(renewed, seconds)| renewed.checked_add(Duration::from_secs(seconds)));
    holder_identity.as_deref() == Some(identity) && end.is_some_and(|end| now < end)
}

impl Election {
    /// Stands for election.
    pub(super) fn start(client: Client, namespace: String, options: LeaseOptions) -> Self {
        let (told, leads) = watch::channel(false);
        let task = tokio::spawn(stand(client, namespace, options, told));
        Self { leads, task }
    }

    /// Gives up, and the Lease back if it has it, so that the next one does not wait for its end.
    pub(super) async fn withdraw(self) {
        let Self { leads, task } = self;
        drop(leads);
        if timeout(RELEASE, task).await.is_err() {
            warn!("the Lease is not given back within {RELEASE:?}: it lasts until its end");
        }
    }
}

/// Stands for election until there is no receiver any more.
async fn stand(
    client: Client,
    namespace: String,
    options: LeaseOptions,
    leads: watch::Sender<bool>,
) {
    let mut backoff = Backoff::new();
    let ballot = Ballot::new(client.clone(), &namespace, &options);
    while !leads.is_closed() {
        let pause = match candidate(client.clone(), &namespace, &options).await {
            Ok(manager) => {
                follow(manager, &ballot, options.duration, &leads).await;
                backoff.reset();
                backoff.pause()
            }
            Err(error) => {
                warn!(
                    "the Lease {namespace}/{} cannot be had: {error}",
                    options.name
                );
                backoff.pause_after_error(None)
            }
        };
        tell(&leads, false);
        tokio::select! {
            () = sleep(pause) => {}
            () = leads.closed() => {}
        }
    }
}

async fn candidate(
    client: Client,
    namespace: &str,
    options: &LeaseOptions,
) -> Result<LeaseManager, kube_lease_manager::LeaseManagerError> {
    let LeaseOptions {
        namespace: _,
        name,
        identity,
        duration,
        grace,
    } = options;
    let params = LeaseParams::new(identity, duration.as_secs(), grace.as_secs());
    LeaseManagerBuilder::new(client, name)
        .with_namespace(namespace)
        .with_parameters(params)
        .build()
        .await
}

/// Notifies `leads` whether the candidate leads, until it has no receiver any more, or it has to stand anew: a
/// manager does not come to terms with a Lease that was removed.
async fn follow(
    manager: LeaseManager,
    ballot: &Ballot,
    duration: Duration,
    leads: &watch::Sender<bool>,
) {
    let (mut state, task) = manager.watch().await;
    let mut looks = interval(duration);
    loop {
        tokio::select! {
            changed = state.changed() => match changed {
                Ok(()) => tell(leads, *state.borrow_and_update()),
                Err(_) => break,
            },
            () = leads.closed() => break,
            _ = looks.tick() => {
                if ballot.is_missing().await {
                    warn!("the Lease is gone: it is made anew");
                    break;
                }
            }
        }
    }
    // Which has it give the Lease back.
    drop(state);
    match timeout(RELEASE, task).await {
        Ok(Ok(Ok(_))) => {}
        Ok(Ok(Err(error))) => warn!("the Lease is not given back: {error}"),
        Ok(Err(error)) => warn!("whoever held the Lease has failed: {error}"),
        Err(_) => warn!("the Lease is not given back: no answer within {RELEASE:?}"),
    }
}

fn tell(leads: &watch::Sender<bool>, now: bool) {
    let is_new = leads.send_if_modified(|known| {
        let is_new = *known != now;
        *known = now;
        is_new
    });
    match (is_new, now) {
        (true, true) => info!("this controller is the one that writes"),
        (true, false) => info!("this controller does not write any more"),
        (false, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_held_until_its_end() {
        let at = |text: &str| humantime::parse_rfc3339(text).unwrap();
        let now = at("2026-01-01T00:00:10Z");
        let whole = json!({
            "holderIdentity": "me", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        });
        let lease = |field: &str, value| {
            let mut lease = whole.clone();
            lease[field] = value;
            serde_json::from_value::<LeaseSpec>(lease).unwrap()
        };
        for (field, value, expected) in [
            ("holderIdentity", json!("me"), true),
            ("holderIdentity", json!("other"), false),
            ("holderIdentity", json!(null), false),
            ("leaseDurationSeconds", json!(11), true),
            ("leaseDurationSeconds", json!(10), false),
            ("leaseDurationSeconds", json!(-1), false),
            ("leaseDurationSeconds", json!(null), false),
            ("renewTime", json!(null), false),
            ("renewTime", json!("2025-12-31T23:59:00.000000Z"), false),
        ] {
            let shown = format!("{field}: {value}");
            let lease = lease(field, value);
            assert_eq!(holds(&lease, "me", now), expected, "{shown}");
        }
    }
}
