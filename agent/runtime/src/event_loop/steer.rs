//! An operator's changes of endpoints, and those that end by themselves.

use std::time::{Duration, Instant, SystemTime};

use tracing::{error, info};

use crate::{
    event_loop::{EventLoop, TRY_AGAIN},
    outcome::{Acceptance, ControlError},
    request::Steer,
    steering::{Steered, Steering},
};

impl EventLoop {
    /// Does what an operator has asked for.
    pub(super) fn steer(&mut self, steer: Steer) -> Result<Acceptance, ControlError> {
        let (steering, what) = match steer {
            Steer::Set(change, until) => {
                let what = format!("override: {change}");
                (self.steering.with(Steered { change, until }), what)
            }
            Steer::Remove(change) => {
                let steering = self.steering.without(&change);
                let steering = steering.ok_or(ControlError::NoSuchOverride)?;
                (steering, format!("override taken back: {change}"))
            }
        };
        self.follow_steering(steering, &what)
    }

    /// Takes back what has come to its end.
    pub(super) fn end_overrides(&mut self) {
        let now = SystemTime::now();
        let Some(steering) = self.steering.without_ended(now) else {
            return;
        };
        let ended = self
            .steering
            .iter()
            .filter(|Steered { until, .. }| until.is_some_and(|until| until <= now));
        let ended: Vec<String> = ended.map(|steered| steered.change.to_string()).collect();
        let what = format!("override ended: {}", ended.join(", "));
        // What a service would be without it may have no room: then it stays as it is, and stays in the list.
        match self.follow_steering(steering, &what) {
            Ok(_) => self.end_again = None,
            Err(error) => {
                let again = self.end_again.replace(Instant::now() + TRY_AGAIN);
                if again.is_none() {
                    error!(
                        "{what}: {error}: tried again every {} s",
                        TRY_AGAIN.as_secs()
                    );
                }
            }
        }
    }

    /// Returns the time until overrides have to be taken back; `None` if none ends.
    pub(super) fn next_end(&self) -> Option<Duration> {
        let end = self.steering.next_end(SystemTime::now())?;
        let again = self
            .end_again
            .map(|again| again.saturating_duration_since(Instant::now()));
        Some(again.map_or(end, |again| again.max(end)))
    }

    /// Makes these hold, and keeps them.
    fn follow_steering(
        &mut self,
        steering: Steering,
        what: &str,
    ) -> Result<Acceptance, ControlError> {
        let overrides = steering.overrides();
        let before = self.reports.health_checks().borrow().services.clone();
        let checks = self.agent.health_checks_with(&overrides, &before);
        let announced = self.reports.announce(&checks);
        let outcome = match self.agent.steer(overrides) {
            Ok(outcome) => outcome,
            Err(error) => {
                self.reports.take_back(announced);
                return Err(error.into());
            }
        };
        self.reports.apply(checks);
        self.steering = steering;
        match &outcome {
            Some(outcome) => info!("{what}: {outcome}"),
            None => info!("{what}: it holds from the first Resync on"),
        }
        self.steering.save()?;
        Ok(outcome.map_or(Acceptance::Held, Acceptance::Applied))
    }
}
