//! The watch of kinds that a cluster may define at any time, or cease to.

use std::collections::BTreeSet;

use tokio::sync::{mpsc, watch};

use crate::{
    objects::custom::CustomKind,
    watch::{
        client::Access,
        kind::{Kind, Selectors},
        step::Step,
        watcher::Watcher,
    },
};

/// Watches the objects of `kind` whenever it is among those that are `defined`, until the receiver is gone.
pub(crate) async fn watch_while_defined<K: Kind, M: Send>(
    kind: CustomKind,
    access: Access,
    steps: mpsc::Sender<M>,
    message: fn(Step<K::Object>) -> M,
    mut defined: watch::Receiver<BTreeSet<CustomKind>>,
) {
    while defined
        .wait_for(|kinds| kinds.contains(&kind))
        .await
        .is_ok()
    {
        let (access, steps) = (access.clone(), steps.clone());
        let watcher = Watcher::<K, M>::new(access, Selectors::default(), steps, message);
        tokio::select! {
            () = watcher.run() => return,
            is_over = async { defined.wait_for(|kinds| !kinds.contains(&kind)).await.is_err() } => {
                if is_over {
                    return;
                }
            }
        }
    }
}
