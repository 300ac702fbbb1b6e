//! The place where a watch begins.

use std::{
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use shunt_datapath::{Connections, FlowReader, Services};
use tokio::sync::{self, oneshot};
use tracing::info;

use crate::{
    error::{Ending, InspectError},
    monitor::{
        teller::{Newcomer, Teller},
        watching::{Wanted, Watching, watching},
    },
    priority::give_way,
    queue::EventQueue,
    request::Request,
};

/// Shows what becomes of connections and packets.
#[derive(Debug, Clone)]
pub(crate) struct Monitor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: EventQueue,
    connections: Connections,
    services: Arc<Services>,
    /// Held by the task that has the programs replaced.
    turn: sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// True if there is a thread.
    is_running: bool,
    /// Watchers that the thread does not know yet.
    new: Vec<Newcomer>,
}

impl Monitor {
    /// Of the agent whose loop reads `queue`.
    pub(crate) fn of(queue: EventQueue, connections: Connections, services: Arc<Services>) -> Self {
        Self(Arc::new(Inner {
            queue,
            connections,
            services,
            turn: sync::Mutex::default(),
            state: Mutex::default(),
        }))
    }

    /// Begins to watch; what happens from the answer on is reported.
    ///
    /// # Errors
    ///
    /// If the kernel does not take the programs, or the agent is ending.
    pub(crate) async fn watch(&self, wanted: Wanted) -> Result<Watching, InspectError> {
        let inner = Arc::clone(&self.0);
        // A task of its own: the caller may go away while programs are replaced.
        tokio::spawn(async move { inner.watch(wanted).await }).await?
    }
}

impl Inner {
    async fn watch(self: Arc<Self>, wanted: Wanted) -> Result<Watching, InspectError> {
        let turn = self.turn.lock().await;
        let (watcher, watching) = watching(wanted);
        let (welcome, welcomed) = oneshot::channel();
        let is_first = {
            let mut state = self.state();
            state.new.push(Newcomer { watcher, welcome });
            !state.is_running
        };
        if is_first && let Err(error) = self.begin().await {
            self.state().new.clear();
            return Err(error);
        }
        // The thread may just be about to end, and find that it is wanted.
        drop(turn);
        // What happens from here on is reported.
        welcomed.await.map_err(|_| Ending)?;
        if is_first {
            info!("the kernel programs tell of connections: somebody watches");
        }
        Ok(watching)
    }

    /// Has the programs replaced by ones that report, and starts the thread.
    async fn begin(self: &Arc<Self>) -> Result<(), InspectError> {
        let loaded = self.queue.ask(Request::LoadFlows).await?;
        let (programs, reader) = loaded.map_err(InspectError::Monitor)?;
        let replaced = self
            .queue
            .ask(|answer| Request::TellFlows(programs, answer));
        replaced.await?;
        if let Err(error) = self.start(reader) {
            self.queue.ask(Request::StopFlows).await?;
            return Err(InspectError::Follow(error));
        }
        Ok(())
    }

    /// Starts the thread.
    fn start(self: &Arc<Self>, reader: FlowReader) -> io::Result<()> {
        let teller = Teller::new(
            reader,
            self.connections.clone(),
            Arc::clone(&self.services),
            Arc::clone(self.queue.reports()),
        )?;
        let inner = Arc::clone(self);
        thread::Builder::new()
            .name("monitor".into())
            .spawn(move || {
                give_way();
                inner.run(teller);
            })?;
        self.state().is_running = true;
        Ok(())
    }

    /// Reports to the watchers, until there are none.
    fn run(&self, mut teller: Teller) {
        loop {
            let new = mem::take(&mut self.state().new);
            if teller.welcome(new) {
                teller.go_on();
                continue;
            }
            // No watch begins meanwhile.
            let _turn = self.turn.blocking_lock();
            if !self.state().new.is_empty() {
                continue;
            }
            // If the agent is ending, it sees to it.
            if self.queue.ask_blocking(Request::StopFlows).is_ok() {
                info!("the kernel programs tell of connections no longer: nobody watches");
            }
            self.state().is_running = false;
            return;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in it is half done when a thread panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
