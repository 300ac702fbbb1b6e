//! One check, asked again and again.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use crate::local::{
    checks::{answer::Answer, grpc, http, tcp},
    definition::check::{Pace, Probe},
    registrar::Registrar,
    state::{check::Check, status::Status},
};

/// A check that is new is asked within so much time, and within its interval: all of them at once would
/// be too many, and until then it is critical.
const FIRST: Duration = Duration::from_secs(1);

/// Runs a check, and reports its results, until it is aborted. The same result is not reported again.
pub(super) async fn run(registrar: Registrar, check: Arc<Check>) {
    let Some(pace) = check.probe.pace() else {
        return;
    };
    let mut verdict = Verdict::new(registrar.look().status(&check), pace);
    let mut told = None;
    tell(
        &registrar,
        &check,
        &mut verdict,
        &mut told,
        part_of(pace.interval.min(FIRST)),
    )
    .await;
    // From then on each at another time.
    let next = Instant::now() + part_of(pace.interval);
    let mut ticks = interval_at(next, pace.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        tell(&registrar, &check, &mut verdict, &mut told, Duration::ZERO).await;
    }
}

async fn tell(
    registrar: &Registrar,
    check: &Arc<Check>,
    verdict: &mut Verdict,
    told: &mut Option<Answer>,
    wait: Duration,
) {
    sleep(wait).await;
    let answer = ask(check).await;
    let answer = Answer {
        status: verdict.after(answer.status),
        ..answer
    };
    if told.as_ref() != Some(&answer) {
        registrar.tell_of(check, answer.status, &answer.output);
        *told = Some(answer);
    }
}

async fn ask(check: &Check) -> Answer {
    let (asked, limit) = match &check.probe {
        Probe::Tcp { address, pace } => (timeout(pace.timeout, tcp::ask(address)).await, pace),
        Probe::Http {
            url,
            method,
            headers,
            body,
            pace,
        } => {
            let asked = http::ask(url, method, headers, body);
            (timeout(pace.timeout, asked).await, pace)
        }
        Probe::Grpc { target, pace } => (timeout(pace.timeout, grpc::ask(target)).await, pace),
        Probe::Ttl(_) | Probe::Alias(_) | Probe::Maintenance => {
            return Answer::critical(String::new());
        }
    };
    asked.unwrap_or_else(|_| {
        let limit = limit.timeout;
        Answer::critical(format!("no answer within {limit:?}"))
    })
}

/// Status of a check by its last answers: so many in a row have to agree.
#[derive(Debug)]
struct Verdict {
    status: Status,
    successes: u32,
    failures: u32,
    pace: Pace,
}

impl Verdict {
    const fn new(status: Status, pace: Pace) -> Self {
        Self {
            status,
            successes: 0,
            failures: 0,
            pace,
        }
    }

    /// Returns its status after one more answer.
    fn after(&mut self, answer: Status) -> Status {
        if answer == Status::Critical {
            self.failures = self.failures.saturating_add(1);
            self.successes = 0;
            if self.failures > self.pace.failures_before_critical.saturating_sub(1) {
                self.status = answer;
            }
        } else {
            self.successes = self.successes.saturating_add(1);
            self.failures = 0;
            if self.successes > self.pace.success_before_passing.saturating_sub(1) {
                self.status = answer;
            }
        }
        self.status
    }
}

/// Some part of a time, another one each time.
fn part_of(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(());
    time.mul_f64(random as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_answers_in_a_row_have_to_agree() {
        use Status::{Critical, Passing, Warning};
        let pace = |success_before_passing, failures_before_critical| Pace {
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            success_before_passing,
            failures_before_critical,
        };
        for (pace, answers, statuses) in [
            (
                pace(0, 0),
                [Passing, Critical, Warning, Passing],
                [Passing, Critical, Warning, Passing],
            ),
            (
                pace(2, 3),
                [Passing, Passing, Critical, Critical],
                [Critical, Passing, Passing, Passing],
            ),
            (
                pace(1, 2),
                [Passing, Critical, Passing, Critical],
                [Passing, Passing, Passing, Passing],
            ),
        ] {
            let mut verdict = Verdict::new(Critical, pace);
            assert_eq!(answers.map(|answer| verdict.after(answer)), statuses);
        }
    }
}
