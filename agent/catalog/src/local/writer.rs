//! Changes are written before they take effect.

use std::{sync::Arc, time::Duration};

use shunt_runtime::until;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::Instant,
};
use tracing::warn;

use crate::local::{
    registrar::{Asked, Registrar},
    state::{definitions::Definitions, refusal::Refusal},
    store::{Store, content},
};

/// Largest number of changes that are written together.
const TOGETHER: usize = 1024;

/// Time after a change of a status by which the file has it.
const LATER: Duration = Duration::from_secs(1);

/// Writes the requested changes and has them take effect, until all senders are gone. Requests that come while
/// the file is written share the next write.
pub(super) async fn write_changes(
    registrar: Registrar,
    store: Arc<Store>,
    mut changes: mpsc::Receiver<Asked>,
) {
    // Further requests do not move it.
    let mut due: Option<Instant> = None;
    loop {
        let mut asked = Vec::new();
        tokio::select! {
            biased;
            () = until(due) => due = None,
            () = registrar.has_status(), if due.is_none() => {
                due = Some(Instant::now() + LATER);
                continue;
            }
            count = changes.recv_many(&mut asked, TOGETHER) => {
                if count == 0 {
                    return;
                }
                take(&registrar, &store, asked).await;
                continue;
            }
        }
        if registrar.is_behind() {
            let had_trouble = registrar.troubles().file.is_some();
            let known = registrar.look().known().clone();
            if let Err(error) = written(&registrar, &store, &known).await {
                if !had_trouble {
                    warn!("the state of checks is not kept: {error}");
                }
                due = Some(Instant::now() + LATER);
            }
        }
    }
}

/// Writes the statuses that the file lacks, when all senders are gone.
pub(super) fn write_last(registrar: &Registrar, store: &Store) {
    if !registrar.is_behind() {
        return;
    }
    let known = registrar.look().known().clone();
    let content = content(&known, registrar.statuses_to_write());
    let content = content.map_err(|error| error.to_string());
    let written = content.and_then(|text| store.write(&text).map_err(|error| error.to_string()));
    if let Err(error) = written {
        warn!("the state of checks is not kept: {error}");
    }
}

/// Does what is asked together.
async fn take(registrar: &Registrar, store: &Arc<Store>, asked: Vec<Asked>) {
    let before = registrar.look().known().clone();
    let mut next = before.clone();
    let node = registrar.node().name.as_str();
    let mut accepted: Vec<oneshot::Sender<_>> = Vec::new();
    for (change, reply) in asked {
        match next.change(&change, node) {
            Ok(()) => accepted.push(reply),
            // The client may be gone, here and below.
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }
    if accepted.is_empty() {
        return;
    }
    let outcome = if next == before {
        Ok(())
    } else {
        written(registrar, store, &next).await
    };
    let outcome = outcome.map_err(|error| {
        warn!("nothing can be registered: {error}");
        Refusal::Failed(format!("this cannot be kept, so it is not done: {error}"))
    });
    if outcome.is_ok() {
        registrar.install(next);
    }
    for reply in accepted {
        drop(reply.send(outcome.clone()));
    }
}

async fn written(
    registrar: &Registrar,
    store: &Arc<Store>,
    known: &Definitions,
) -> Result<(), String> {
    let statuses = registrar.statuses_to_write();
    let outcome = match content(known, statuses) {
        Ok(content) => {
            let store = Arc::clone(store);
            let written = spawn_blocking(move || store.write(&content)).await;
            match written {
                Ok(outcome) => outcome.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        }
        Err(error) => Err(error.to_string()),
    };
    registrar.was_written(outcome.clone().err());
    outcome
}
