//! UDP clients. They repeat a request that gets no answer, as resolvers do.

use std::time::{Duration, Instant};

use shunt_tests::{Failure, Flow, Random, Target};

use super::{Client, Done, PATIENCE, of_a_backend};

/// Number of times that a request is sent, if no answer comes.
const TIMES: u32 = 4;

/// The length of a request at most: it goes in one packet.
const LONGEST: u32 = 1400;

/// A flow each: one request, one answer.
pub(super) struct ShortUdp(Target);

impl ShortUdp {
    pub(super) fn new(target: Target) -> Self {
        Self(target.within(PATIENCE / TIMES))
    }
}

impl Client for ShortUdp {
    fn ask(&mut self, random: &mut Random) -> Result<Done, String> {
        ask(&flow(&self.0)?, random)
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(2)
    }
}

/// A flow that goes on, with a request from time to time.
pub(super) struct LongUdp {
    target: Target,
    pause: Duration,
    open: Option<Flow>,
}

impl LongUdp {
    pub(super) fn new(target: Target, pause: Duration) -> Self {
        Self {
            target: target.within(PATIENCE / TIMES),
            pause,
            open: None,
        }
    }
}

impl Client for LongUdp {
    fn ask(&mut self, random: &mut Random) -> Result<Done, String> {
        let open = match self.open.take() {
            Some(open) => open,
            None => flow(&self.target)?,
        };
        ask(self.open.insert(open), random)
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    fn has_last_word(&self) -> bool {
        true
    }
}

fn flow(target: &Target) -> Result<Flow, String> {
    target
        .flow()
        .map_err(|failure| format!("socket: {failure}"))
}

fn ask(flow: &Flow, random: &mut Random) -> Result<Done, String> {
    let begin = Instant::now();
    let length = 1 + random.below(LONGEST) as usize;
    for repeats in 0..TIMES {
        match flow.ask(length) {
            Err(Failure::TimedOut) => {}
            answer => {
                of_a_backend(answer, "answer")?;
                return Ok(Done {
                    latency: begin.elapsed(),
                    repeats,
                });
            }
        }
    }
    Err(format!("no answer to {TIMES} requests"))
}
