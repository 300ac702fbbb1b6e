//! The checks that run are those that are registered.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    task::AbortHandle,
    time::{sleep, sleep_until},
};
use tracing::info;

use crate::local::{
    checks::run::run,
    registrar::Registrar,
    state::{check::Check, register::Change},
};

/// Interval of the search for services that have been critical for too long, as Consul does.
const REAP: Duration = Duration::from_secs(30);

/// Runs the registered checks, for ever: each check in a task of its own.
pub(in crate::local) async fn keep_asking(registrar: Registrar) -> Infallible {
    let mut asking = HashMap::<String, (Arc<Check>, AbortHandle)>::new();
    loop {
        let wanted = wanted(&registrar);
        asking.retain(|id, (check, task)| {
            let stays = wanted.get(id).is_some_and(|wanted| wanted == check);
            if !stays {
                task.abort();
            }
            stays
        });
        for (id, check) in wanted {
            asking.entry(id).or_insert_with(|| {
                let task = tokio::spawn(run(registrar.clone(), Arc::clone(&check)));
                (check, task.abort_handle())
            });
        }
        registrar.has_checks().await;
    }
}

/// The checks that are to be asked, by id.
fn wanted(registrar: &Registrar) -> HashMap<String, Arc<Check>> {
    let registry = registrar.look();
    let checks = registry.known().checks();
    let asked =
        checks.filter(|check| check.probe.pace().is_some() && registrar.forbids(check).is_none());
    asked
        .map(|check| (check.id.clone(), Arc::clone(check)))
        .collect()
}

/// Makes checks critical on which no report comes in time, for ever.
pub(in crate::local) async fn keep_time(registrar: Registrar) -> Infallible {
    loop {
        let Some(next) = registrar.expire() else {
            registrar.has_expiry().await;
            continue;
        };
        tokio::select! {
            () = sleep_until(next) => {}
            () = registrar.has_expiry() => {}
        }
    }
}

/// Deregisters services that have been critical for as long as they allow, for ever.
pub(in crate::local) async fn reap(registrar: Registrar) -> Infallible {
    loop {
        sleep(REAP).await;
        let overdue = registrar.overdue();
        for id in overdue {
            info!("service {id} has been critical for too long: it is deregistered");
            // A change that cannot be written is tried again, and the log has it.
            drop(registrar.change(Change::Deregister(id)).await);
        }
    }
}
