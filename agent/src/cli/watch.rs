//! A query that is repeated.

use std::{
    io::{self, BufWriter, IsTerminal as _, StdoutLock, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use clap::Args;
use shunt_print::{duration::Seconds, output::print_while_read};
use tokio::time::sleep;

/// Control sequences of a terminal: the cursor to the upper left corner, and nothing on the screen.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// Repetition of a query.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WatchArgs {
    /// Repeat the query, every two seconds or at the given interval
    #[arg(
        short,
        long,
        value_name = "INTERVAL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s"
    )]
    watch: Option<Seconds>,
}

impl WatchArgs {
    /// Queries by `ask`, and writes the result; repeatedly if a flag requests that, until the output is closed. Each
    /// answer is the state at its time: a terminal shows the last one, any other reader gets all of them, those for
    /// people with an empty line between two.
    ///
    /// # Errors
    ///
    /// An error of `ask`, or the output cannot be written.
    pub(crate) async fn follow<W>(
        self,
        is_for_people: bool,
        mut ask: impl AsyncFnMut() -> Result<(W, ExitCode)>,
    ) -> Result<ExitCode>
    where
        W: FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
    {
        let Self { watch } = self;
        let is_terminal = io::stdout().is_terminal();
        let mut is_first = true;
        loop {
            let (write, status) = ask().await?;
            let is_read = print_while_read(|output| {
                match (watch.is_some() && is_for_people, is_terminal) {
                    (true, true) => output.write_all(CLEAR)?,
                    (true, false) if !is_first => writeln!(output)?,
                    _ => {}
                }
                write(output)
            })?;
            let Some(Seconds(interval)) = watch.filter(|_| is_read) else {
                return Ok(status);
            };
            is_first = false;
            // None at all would keep the agent from its work.
            sleep(Duration::from_secs(interval.max(1).into())).await;
        }
    }
}
