//! Changes are written before they take effect.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::sleep,
};
use tracing::warn;

use crate::source::local::{
    registrar::{Asked, Registrar},
    state::{definitions::Definitions, refusal::Refusal},
    store::{Store, content},
};

/// How many changes are written together at most.
const TOGETHER: usize = 1024;

/// How long after a status has changed the file has it.
const LATER: Duration = Duration::from_secs(1);

/// Writes what is asked for and has it take effect, until nobody can ask any more. Those who ask while
/// the file is written share the next write.
pub(super) async fn write_changes(
    registrar: Registrar,
    store: Store,
    mut changes: mpsc::Receiver<Asked>,
) {
    let store = Arc::new(store);
    let mut is_stale = false;
    loop {
        let mut asked = Vec::new();
        tokio::select! {
            count = changes.recv_many(&mut asked, TOGETHER) => {
                if count == 0 {
                    return;
                }
                if take(&registrar, &store, asked).await {
                    is_stale = false;
                }
            }
            () = registrar.has_status(), if !is_stale => is_stale = true,
            () = sleep(LATER), if is_stale => {
                is_stale = false;
                let known = registrar.look().known().clone();
                if let Err(error) = written(&registrar, &store, &known).await {
                    warn!("the state of checks is not kept: {error}");
                }
            }
        }
    }
}

/// Does what is asked together. Gives whether the file was written.
async fn take(registrar: &Registrar, store: &Arc<Store>, asked: Vec<Asked>) -> bool {
    let before = registrar.look().known().clone();
    let mut next = before.clone();
    let node = registrar.node().name.as_str();
    let mut accepted: Vec<oneshot::Sender<_>> = Vec::new();
    for (change, reply) in asked {
        match next.change(&change, node) {
            Ok(()) => accepted.push(reply),
            // Whoever asked may be gone, here and below.
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }
    if accepted.is_empty() {
        return false;
    }
    let is_new = next != before;
    let outcome = if is_new {
        written(registrar, store, &next).await
    } else {
        Ok(())
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
    is_new && outcome.is_ok()
}

async fn written(
    registrar: &Registrar,
    store: &Arc<Store>,
    known: &Definitions,
) -> Result<(), String> {
    let statuses = registrar.look().statuses();
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
