//! `shunt proxy`: standard input and output, joined to the agent's socket.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    process::ExitCode,
    thread,
};

use anyhow::{Context as _, Result};
use clap::Args;
use shunt_print::output::{causes, complain};

use crate::cli::{client::NO_ANSWER, flags::paths::SocketArgs};

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Join standard input and output to the agent's socket
///
/// For a program elsewhere that speaks the agent's gRPC interface: `kubectl shunt` runs it in the agent's pod. After
/// the end of the input, the answers that are still to come are passed on. It ends when the agent or the reader of
/// the output does. Exit status: 0; 2 without an agent, or if the connection to it breaks.
#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    socket: SocketArgs,
}

/// Joins them, until one side ends.
pub(crate) fn run(args: &ProxyArgs) -> ExitCode {
    let ProxyArgs {
        socket: SocketArgs { socket },
    } = args;
    let joined = UnixStream::connect(socket)
        .with_context(|| format!("no agent answers at {}", socket.display()))
        .and_then(|agent| join(io::stdin(), io::stdout().lock(), &agent));
    match joined {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("error: {}", causes(&error)));
            ExitCode::from(NO_ANSWER)
        }
    }
}

/// Passes on `input` to the agent, and the agent's bytes to `output`. Returns when there are no more of these, or if
/// the output is closed, whatever the input does.
fn join(input: impl Read + Send + 'static, output: impl Write, agent: &UnixStream) -> Result<()> {
    let requests = agent.try_clone().context("cannot share the connection")?;
    // A thread that waits for its input does not end by itself. It ends with the process.
    thread::Builder::new()
        .spawn(move || {
            if let Err(Broken::Reading(error)) = pass_on(input, &requests) {
                complain(format_args!("error: cannot read standard input: {error}"));
            }
            // Half of the connection: the agent may still have something to answer.
            drop(requests.shutdown(Shutdown::Write));
        })
        .context("there is no room for a thread")?;
    match pass_on(agent, output) {
        Ok(()) => Ok(()),
        Err(Broken::Reading(error)) => Err(error).context("the connection to the agent is broken"),
        Err(Broken::Writing(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(Broken::Writing(error)) => Err(error).context("cannot write to standard output"),
    }
}

/// The side that has failed.
#[derive(Debug)]
enum Broken {
    Reading(io::Error),
    Writing(io::Error),
}

/// Passes on all bytes at once, until there are no more.
fn pass_on(mut from: impl Read, mut to: impl Write) -> Result<(), Broken> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Broken::Reading(error)),
        };
        to.write_all(&piece[..length])
            .and_then(|()| to.flush())
            .map_err(Broken::Writing)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that is closed.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Has an agent that reads its input to the end, and then answers.
    fn answering(answer: &'static [u8]) -> (UnixStream, thread::JoinHandle<Vec<u8>>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let agent = thread::spawn(move || {
            let mut heard = Vec::new();
            theirs.read_to_end(&mut heard).unwrap();
            theirs.write_all(answer).unwrap();
            heard
        });
        (ours, agent)
    }

    #[test]
    fn an_answer_that_comes_after_the_end_of_the_input_is_passed_on() {
        let (socket, agent) = answering(b"answer");
        let mut output = Vec::new();
        join(&b"question"[..], &mut output, &socket).unwrap();
        assert_eq!(agent.join().unwrap(), b"question");
        assert_eq!(output, b"answer");
    }

    #[test]
    fn it_ends_with_the_agent_though_the_input_goes_on() {
        let (socket, agent) = UnixStream::pair().unwrap();
        let (input, _open) = UnixStream::pair().unwrap();
        drop(agent);
        let mut output = Vec::new();
        join(input, &mut output, &socket).unwrap();
        assert_eq!(output, b"");
    }

    #[test]
    fn it_ends_with_the_reader_of_the_output() {
        let (socket, mut agent) = UnixStream::pair().unwrap();
        let (input, _open) = UnixStream::pair().unwrap();
        agent.write_all(b"answer").unwrap();
        join(input, Closed, &socket).unwrap();
    }
}
