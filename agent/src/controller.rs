//! The agent's loop, as far as it does not wait: each request is done and answered, and every
//! event acknowledged in the log.

use std::{fmt, mem, path::PathBuf, time::Instant};

use tokio::sync::oneshot;
use tracing::{error, info, warn};

use shunt_model::{Line, Origin, RendererEvent};

use crate::{
    agent::Agent,
    request::{Answer, Health, Refusal, Request},
};

/// An agent and what it has been through.
pub struct Controller {
    agent: Agent,
    pin_dir: Option<PathBuf>,
    /// How many events came through the socket.
    calls: u64,
    started: Instant,
    applied: u64,
    refused: u64,
    last_error: Option<(String, Instant)>,
    /// Whether a Resync has left memory that is of no more use.
    has_slack: bool,
}

impl Controller {
    /// With `agent`, which starts now, and is pinned at `pin_dir`.
    pub fn new(agent: Agent, pin_dir: Option<PathBuf>) -> Self {
        Self {
            agent,
            pin_dir,
            calls: 0,
            started: Instant::now(),
            applied: 0,
            refused: 0,
            last_error: None,
            has_slack: false,
        }
    }

    /// The agent.
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The agent, for what comes from elsewhere: interfaces, time to reclaim.
    pub const fn agent_mut(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// Whether [`Self::tidy`] has anything to do.
    pub const fn has_to_tidy(&self) -> bool {
        self.has_slack || self.agent.datapath().has_retired()
    }

    /// Frees what was replaced, in the tables and here. Takes milliseconds, so it is for when
    /// nothing else is to be done.
    pub fn tidy(&mut self) {
        if let Err(error) = self.agent.datapath_mut().reclaim() {
            warn!(%error, "replaced table space stays in use");
        }
        if mem::take(&mut self.has_slack) {
            shunt_datapath::release_memory();
        }
    }

    /// The agent, at the end.
    pub fn into_agent(self) -> Agent {
        self.agent
    }

    /// Does what is asked, and answers.
    pub fn handle(&mut self, request: Request) {
        match request {
            Request::Line(Some(Ok(Line { number, event }))) => {
                // The log has said what became of it.
                let _answer = self.event(Origin::Line(number), event);
            }
            Request::Line(Some(Err(error))) => self.refuse(&error),
            Request::Line(None) => info!("end of the events: translating until a signal comes"),
            Request::Event { event, answer } => {
                self.calls += 1;
                let origin = Origin::Call(self.calls);
                let result = match event {
                    Ok(event) => self.event(origin, event),
                    Err(error) => {
                        self.refuse(&format_args!("{origin}: {error}"));
                        Err(error.into())
                    }
                };
                reply(answer, result);
            }
            Request::Frontends(answer) => reply(answer, self.agent.frontends()),
            Request::Health(answer) => {
                let health = self.agent.status().map(|status| Health {
                    status,
                    pin_dir: self.pin_dir.clone(),
                    uptime: self.started.elapsed(),
                    applied: self.applied,
                    refused: self.refused,
                    last_error: self
                        .last_error
                        .as_ref()
                        .map(|(text, when)| (text.clone(), when.elapsed())),
                });
                reply(answer, health);
            }
        }
    }

    /// Applies an event and those that waited for it.
    fn event(&mut self, origin: Origin, event: RendererEvent) -> Result<Answer, Refusal> {
        let answer = self.apply(origin, event);
        for (origin, event) in self.agent.take_held() {
            // Whoever brought it was told that it is held.
            let _answer = self.apply(origin, event);
        }
        answer
    }

    /// Applies one event and logs what it changed, or why it did not.
    fn apply(&mut self, origin: Origin, event: RendererEvent) -> Result<Answer, Refusal> {
        let subject = event.subject();
        self.has_slack |= matches!(event, RendererEvent::Resync(_));
        match self.agent.apply(origin, event) {
            Ok(None) => {
                info!("{origin}: {subject}: held until the first Resync");
                Ok(Answer::Held)
            }
            Ok(Some(outcome)) => {
                self.applied += 1;
                info!("{origin}: {subject}: {outcome}");
                for conflict in &outcome.conflicts {
                    warn!("{origin}: conflict: {conflict}");
                }
                let untranslated = outcome.untranslated;
                if untranslated > 0 {
                    warn!(
                        "{origin}: {untranslated} frontends are not translated: their address \
                         family is not among --ip-families"
                    );
                }
                Ok(Answer::Applied(outcome))
            }
            Err(error) => {
                self.refuse(&format_args!("{origin}: {subject}: {error}"));
                Err(error.into())
            }
        }
    }

    fn refuse(&mut self, error: &dyn fmt::Display) {
        error!("{error}");
        self.refused += 1;
        self.last_error = Some((error.to_string(), Instant::now()));
    }
}

/// Answers; it is no error if nobody waits any more.
fn reply<T>(answer: oneshot::Sender<T>, value: T) {
    drop(answer.send(value));
}
