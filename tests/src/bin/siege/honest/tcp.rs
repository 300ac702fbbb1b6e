//! TCP clients.

use std::time::{Duration, Instant};

use shunt_tests::{Connection, Random, Target};

use super::{Client, Done, length, of_a_backend};
use crate::live::{Live, Tuple};

/// A connection each: connect, request, answer, close.
pub(super) struct ShortTcp(Target);

impl ShortTcp {
    pub(super) const fn new(target: Target) -> Self {
        Self(target)
    }
}

impl Client for ShortTcp {
    fn ask(&mut self, random: &mut Random) -> Result<Done, String> {
        let begin = Instant::now();
        let mut connection = connect(&self.0)?;
        of_a_backend(connection.echo(length(random)), "answer")?;
        let latency = begin.elapsed();
        connection
            .close()
            .map_err(|failure| format!("close: {failure}"))?;
        Ok(Done {
            latency,
            repeats: 0,
        })
    }

    /// So that the client's ports last: each of them is in TIME-WAIT for a minute.
    fn pause(&self) -> Duration {
        Duration::from_millis(10)
    }
}

/// Connections from a few ports, to one frontend and to another of the same backends in turn, which
/// end by a reset, or by the server's FIN.
pub(super) struct ReusedPort {
    targets: [Target; 2],
    next: u16,
}

impl ReusedPort {
    /// Below those that the kernel assigns to other clients of the pod.
    const FIRST: u16 = 20_000;
    const PORTS: u16 = 24;

    pub(super) const fn new(targets: [Target; 2]) -> Self {
        Self { targets, next: 0 }
    }
}

impl Client for ReusedPort {
    fn ask(&mut self, random: &mut Random) -> Result<Done, String> {
        let target = self.targets[random.below(2) as usize];
        let port = Self::FIRST + self.next;
        self.next = (self.next + 1) % Self::PORTS;
        let begin = Instant::now();
        let mut connection = connect(&target.from_port(port))?;
        of_a_backend(connection.echo(length(random)), "answer")?;
        let latency = begin.elapsed();
        if random.below(2) == 0 {
            connection
                .reset()
                .map_err(|failure| format!("reset: {failure}"))?;
        } else {
            of_a_backend(connection.part(), "end")?;
        }
        Ok(Done {
            latency,
            repeats: 0,
        })
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(10)
    }
}

/// A connection that stays open, with a request from time to time. One that fails is replaced.
pub(super) struct LongTcp {
    target: Target,
    live: Live,
    pause: Duration,
    open: Option<(Connection, Tuple)>,
}

impl LongTcp {
    pub(super) const fn new(target: Target, live: Live, pause: Duration) -> Self {
        Self {
            target,
            live,
            pause,
            open: None,
        }
    }
}

impl Client for LongTcp {
    fn ask(&mut self, random: &mut Random) -> Result<Done, String> {
        let begin = Instant::now();
        let (mut connection, tuple) = match self.open.take() {
            Some(open) => open,
            None => {
                let connection = connect(&self.target)?;
                let tuple = Tuple {
                    client: connection.client(),
                    frontend: self.target.address(),
                };
                self.live.add(tuple);
                (connection, tuple)
            }
        };
        match of_a_backend(connection.echo(length(random)), "answer") {
            Ok(_) => {
                self.open = Some((connection, tuple));
                Ok(Done {
                    latency: begin.elapsed(),
                    repeats: 0,
                })
            }
            Err(reason) => {
                self.live.remove(tuple);
                Err(format!("{reason} (after pauses of {:?})", self.pause))
            }
        }
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    fn has_last_word(&self) -> bool {
        true
    }
}

fn connect(target: &Target) -> Result<Connection, String> {
    target
        .connect()
        .map_err(|failure| format!("connect: {failure}"))
}
