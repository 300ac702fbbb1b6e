//! Events, one after the other.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use shunt_model::{ServiceId, unusable};
use shunt_runtime::{
    Circumstances, Ending, EventQueue, Fate, Here, HereWatch, Origin, come, fate, until,
};
use shunt_source::Retries;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval},
};

use crate::{
    consul::{identity::Identity, source::news::Listener, tiers::Tiered, watch::told::Told},
    instances::{
        engine::{About, Engine, Work},
        kept::KeptAddresses,
        place::Place,
        query::Query,
    },
};

/// Pause before Consul is asked again for an answer that it did not give.
pub(super) const RETRY: Duration = Duration::from_secs(5);

/// Number of news that may wait for the engine before their senders wait.
pub(super) const AHEAD: usize = 256;

/// An address that was claimed for a service, or why none is.
pub(super) type Claimed = (Arc<ServiceId>, Result<IpAddr, String>);

/// Interval of the checks for what has waited long enough.
const TICK: Duration = Duration::from_secs(1);

/// Input of events.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) news: mpsc::Receiver<Told>,
    pub(super) claims: mpsc::Receiver<Claimed>,
    pub(super) here: HereWatch,
    pub(super) identity: Identity,
    pub(super) tiers: mpsc::UnboundedReceiver<Tiered>,
    /// Takes all queries that are to be followed, when they are others than before.
    pub(super) wanted: mpsc::UnboundedSender<BTreeSet<Query>>,
    /// Takes the addresses on which instances agree, for the next agent.
    pub(super) kept: Option<watch::Sender<KeptAddresses>>,
}

/// Delivers one event after the other. What changes before the turn of one has come waits, and what
/// changes twice meanwhile is one event.
pub(super) async fn deliver(
    mut engine: Engine,
    input: Input,
    mut listener: Listener,
    queue: EventQueue,
) -> Result<Infallible, Ending> {
    let Input {
        mut news,
        mut claims,
        mut here,
        identity,
        mut tiers,
        wanted,
        kept,
    } = input;
    listener.is_known();
    set_place(&mut engine, &identity, here.borrow_and_update().clone());
    let mut number = 0;
    let mut under_way = FuturesUnordered::new();
    let mut turn: Option<oneshot::Receiver<Infallible>> = None;
    let mut retries = Retries::default();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut here_is_followed = true;
    loop {
        if turn.is_none()
            && let Some(Work {
                event,
                about,
                undecided,
            }) = engine.next(Instant::now())
        {
            number += 1;
            let origin = Origin {
                unit: "change",
                number,
            };
            let (its_turn, awaited) = oneshot::channel();
            turn = Some(awaited);
            let queue = queue.clone();
            let circumstances = Circumstances {
                routine: !matches!(about, About::All { .. }),
                undecided,
                ..Circumstances::default()
            };
            under_way.push(async move {
                let answer = queue
                    .deliver_with(origin, Ok(event), circumstances, Some(its_turn))
                    .await?;

                Ok::<(About, Fate), Ending>((about, fate(answer)))
            });
        } else {
            listener.show(&engine);
        }
        if let (Some(kept), Some(addresses)) = (&kept, engine.new_addresses()) {
            kept.send_replace(addresses);
        }
        let settled_at = listener.settled_at();
        tokio::select! {
            biased;
            Some(done) = under_way.next() => {
                let (about, result) = done?;
                retries.note(&result);
                engine.done(about, result);
            }
            () = come(&mut turn) => turn = None,
            Some(told) = news.recv() => {
                listener.take(&mut engine, told, Instant::now());
                for _ in 0..AHEAD {
                    let Ok(told) = news.try_recv() else { break };
                    listener.take(&mut engine, told, Instant::now());
                }
            }
            Some(Tiered { id, tiers, skipped }) = tiers.recv() => {
                engine.set_notes(&id, skipped);
                if engine.set_tiers(&id, tiers, Instant::now()) {
                    let queries: BTreeSet<Query> = engine.queries().cloned().collect();
                    listener.wanted(&queries);
                    // The receiver ends with us.
                    drop(wanted.send(queries));
                }
            }
            Some((id, claim)) = claims.recv() => engine.set_claim(&id, claim),
            changed = here.changed(), if here_is_followed => match changed {
                Ok(()) => set_place(&mut engine, &identity, here.borrow_and_update().clone()),
                Err(_) => here_is_followed = false,
            },
            () = until(settled_at) => listener.settle(&mut engine, Instant::now()),
            () = retries.due() => engine.retry(),
            // What is waited for is skipped after a while.
            _ = tick.tick(), if engine.is_waiting() => {}
        }
    }
}

/// Has the engine know where the agent is, and its node's address.
fn set_place(engine: &mut Engine, identity: &Identity, here: Option<Arc<Here>>) {
    // A loopback address is no node's source address.
    let own = identity.address.filter(|ip| unusable(*ip).is_none());
    let is_host = |ip: &IpAddr| here.as_ref().is_some_and(|here| here.is_host(*ip));
    let own: BTreeSet<IpAddr> = own.into_iter().filter(is_host).collect();
    let place = Place {
        here,
        ..identity.place.clone()
    };
    engine.set_place(place, own);
}
