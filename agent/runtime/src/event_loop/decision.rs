//! An event that would remove too many frontends waits for a decision, and what comes after it waits
//! behind it.

use std::{
    mem,
    time::{SystemTime, UNIX_EPOCH},
};

use shunt_model::EventKind;
use tracing::{info, warn};

use crate::{
    event_loop::{EventLoop, Preparation, reply},
    held_removal::HeldRemoval,
    outcome::{Acceptance, ApplyError, ControlError},
    request::{Decision, Request, Submission},
};

impl EventLoop {
    /// Returns the request, unless it has to wait behind an event that waits for a decision. A Resync
    /// comes in place of all that waits.
    pub(super) fn behind_removal(&mut self, request: Request) -> Option<Request> {
        let Some(held) = &mut self.held_removal else {
            return Some(request);
        };
        match &request {
            Request::Event(Submission {
                event: Ok(event), ..
            }) => {
                if event.kind() != EventKind::Resync {
                    held.behind.push_back(request.set_aside());
                    return None;
                }
                if let Some(replaced) = self.held_removal.take() {
                    replace(replaced);
                }
                Some(request)
            }
            _ => Some(request),
        }
    }

    /// Returns the number of the next event that has to wait: the time in milliseconds, so that the next agent gives
    /// no number again, or the number after the last one.
    pub(super) fn next_held(&mut self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        self.last_held = now.max(self.last_held + 1);
        self.last_held
    }

    /// The event of this number, which waits, takes effect or is forgotten; and then what waits behind it, which may
    /// have to wait again.
    pub(super) fn decide(
        &mut self,
        number: u64,
        decision: Decision,
    ) -> Result<Acceptance, ControlError> {
        let held = self.held_removal.take().ok_or(ControlError::NothingHeld)?;
        if held.number != number {
            let error = ControlError::AnotherHeld {
                asked: number,
                held: held.number,
            };
            self.held_removal = Some(held);
            return Err(error);
        }
        let HeldRemoval {
            number: _,
            origin,
            event,
            circumstances,
            answer,
            removal: _,
            since: _,
            mut behind,
            reports,
        } = held;
        let subject = event.subject();
        let decided = match decision {
            Decision::Confirm => {
                info!("{origin}: {subject}: confirmed");
                let confirmed = Preparation {
                    is_confirmed: true,
                    ..Preparation::default()
                };
                self.event(&reports, origin, Ok(event), circumstances, &confirmed)
            }
            Decision::Discard => {
                warn!("{origin}: {subject}: discarded: the next Resync brings what it said");
                Err(ApplyError::Discarded)
            }
        };
        let outcome = match &decided {
            Ok(accepted) => Ok(accepted.clone()),
            Err(_) if decision == Decision::Discard => Ok(Acceptance::Held),
            Err(error) => Err(ControlError::Confirmed(error.to_string())),
        };
        if let Some(answer) = answer {
            reply(answer, decided);
        }
        while let Some(request) = behind.pop_front() {
            self.accept(request);
            if let Some(held) = &mut self.held_removal {
                held.behind.append(&mut behind);
            }
        }
        outcome
    }
}

/// Notifies everyone who waits that a Resync has come in place of what they brought.
fn replace(mut held: HeldRemoval) {
    let HeldRemoval {
        origin,
        event,
        answer,
        behind,
        ..
    } = &mut held;
    warn!(
        "{origin}: {}: a Resync has come in its place, and in that of {} events behind it",
        event.subject(),
        behind.len()
    );
    let waiting = mem::take(behind)
        .into_iter()
        .filter_map(|request| match request {
            Request::Event(Submission { answer, .. }) => answer,
            _ => None,
        });
    for answer in answer.take().into_iter().chain(waiting) {
        reply(answer, Err(ApplyError::Replaced));
    }
}
