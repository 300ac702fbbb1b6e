//! The time at which events that were refused are tried again.

use std::time::Duration;

use shunt_runtime::{Consequences, Fate, until};
use tokio::time::Instant;

/// Pause before the next try, unless only room can help.
const PAUSE: Duration = Duration::from_secs(5);

/// Pause before the next try of an event that finds no room, while no event of this source makes any: another one may
/// have made some.
const WITHOUT_ROOM: Duration = Duration::from_mins(1);

/// The next try of the events that a source's queue has refused.
#[derive(Debug, Default)]
pub struct Retries {
    at: Option<Instant>,
    /// True if an event waits for room.
    wants_room: bool,
}

impl Retries {
    /// Takes note of the outcome of an event, which may be one that is tried again.
    pub fn note(&mut self, fate: &Fate) {
        match fate {
            Err(refusal) if !refusal.wants_room => self.try_within(PAUSE),
            Err(_) => self.wait_for_room(),
            Ok(Consequences {
                refused,
                may_have_made_room,
                conflicts: _,
            }) => {
                if !refused.is_empty() {
                    self.wait_for_room();
                } else if *may_have_made_room && self.wants_room {
                    self.try_within(PAUSE);
                }
            }
        }
    }

    /// Waits for the time of the next try; without end if there is none.
    pub async fn due(&mut self) {
        until(self.at).await;
        *self = Self::default();
    }

    fn wait_for_room(&mut self) {
        self.wants_room = true;
        self.try_within(WITHOUT_ROOM);
    }

    fn try_within(&mut self, pause: Duration) {
        let at = Instant::now() + pause;
        self.at = Some(self.at.map_or(at, |known| known.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use shunt_model::ServiceId;
    use shunt_runtime::Refusal;

    use super::*;

    fn refused(wants_room: bool) -> Fate {
        Err(Refusal {
            reason: "a reason".to_owned(),
            wants_room,
        })
    }

    fn applied(may_have_made_room: bool) -> Consequences {
        Consequences {
            may_have_made_room,
            ..Consequences::default()
        }
    }

    fn without_one() -> Consequences {
        Consequences {
            refused: [(ServiceId::new("default", "web"), "full".to_owned())].into(),
            ..Consequences::default()
        }
    }

    #[test]
    fn an_event_without_room_waits_for_an_event_that_may_make_some() {
        for (outcomes, pause) in [
            (vec![], None),
            (vec![Ok(applied(true))], None),
            (vec![refused(false)], Some(PAUSE)),
            (vec![refused(true)], Some(WITHOUT_ROOM)),
            (vec![Ok(without_one())], Some(WITHOUT_ROOM)),
            (vec![refused(true), Ok(applied(false))], Some(WITHOUT_ROOM)),
            (vec![refused(true), Ok(applied(true))], Some(PAUSE)),
            (vec![Ok(without_one()), Ok(applied(true))], Some(PAUSE)),
            (vec![refused(true), refused(false)], Some(PAUSE)),
        ] {
            let mut retries = Retries::default();
            let begin = Instant::now();
            for fate in &outcomes {
                retries.note(fate);
            }
            let end = Instant::now();
            let is_right = match (retries.at, pause) {
                (Some(at), Some(pause)) => (begin + pause..=end + pause).contains(&at),
                (at, pause) => at.is_none() && pause.is_none(),
            };
            assert!(is_right, "{outcomes:?}: {:?}", retries.at);
        }
    }
}
