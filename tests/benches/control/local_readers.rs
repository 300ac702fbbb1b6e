//! Time from a change of a registered service to the last client that waits for it.

use std::{
    cell::RefCell,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use shunt_tests::{SocketPath, http_ask};

use super::agent::{Subject, milliseconds};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "control/local_readers";

/// Number of clients that wait.
const READERS: usize = 1000;

/// Limit of the last one's time until its answer, in milliseconds.
const LAST: f64 = 100.0;

/// Time without any answer that counts as an error.
const SILENCE: Duration = Duration::from_mins(1);

/// The socket where services are registered, and the version of the one that clients wait for.
struct Local {
    socket: SocketPath,
    port: u32,
}

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let (socket, state) = (SocketPath::new(), SocketPath::new());
    let place = format!("unix:{}", socket.path().display());
    let state = state.path().display().to_string();
    let flags = ["--local-api", &place, "--local-state", &state];
    let _subject = Subject::start(&bench.options().agent, &flags)?;
    let local = RefCell::new(Local { socket, port: 1 });
    let local = &local;
    bench.study(
        Study::new(NAME, "1,000 clients wait for one service", Better::Lower)
            .rounds(bench.rounds(9, 5))
            .subject("to the last answer", move || {
                let taken = local.borrow_mut().change()?;
                Ok(sample([("ms", milliseconds(taken))]))
            })
            .bound(Bound::figure(
                "the last answer, ms",
                "to the last answer",
                "ms",
                Limit::AtMost(LAST),
            )),
    )
}

impl Local {
    fn connect(&self) -> Result<UnixStream> {
        let stream = UnixStream::connect(self.socket.path())?;
        stream.set_read_timeout(Some(SILENCE))?;
        Ok(stream)
    }

    /// Registers the service with another port.
    fn register(&mut self) -> Result<()> {
        self.port += 1;
        let body = format!("{{\"Name\":\"web\",\"Port\":{}}}", self.port);
        let path = "/v1/agent/service/register";
        let answer = http_ask(self.connect()?, "PUT", path, &[], &body)?;
        ensure!(answer.status == 200, "not registered: {}", answer.body);
        Ok(())
    }

    /// Has all wait, and changes the service; returns how long that took to the last of them.
    fn change(&mut self) -> Result<Duration> {
        self.register()?;
        let path = "/v1/agent/service/web";
        let answer = http_ask(self.connect()?, "GET", path, &[], "")?;
        let hash = answer.header("x-consul-contenthash").context("no hash")?;
        let request =
            format!("GET {path}?hash={hash}&wait=10m HTTP/1.1\r\nConnection: close\r\n\r\n");
        let mut readers = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let mut reader = self.connect()?;
            reader.write_all(request.as_bytes())?;
            readers.push(reader);
        }
        // The agent has read what was sent before by the time that it answers this.
        http_ask(self.connect()?, "GET", path, &[], "")?;
        let begin = Instant::now();
        self.register()?;
        for mut reader in readers {
            let mut answer = String::new();
            reader.read_to_string(&mut answer)?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        Ok(begin.elapsed())
    }
}
