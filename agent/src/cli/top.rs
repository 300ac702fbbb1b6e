//! `shunt top`: what the services do, on a screen that follows it.

mod ask;
mod events;
mod model;
mod numbers;
mod rates;
mod sample;
mod screen;
mod view;

#[cfg(test)]
mod tests;

use std::{
    env,
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::mpsc,
    time::Duration,
};

use anyhow::{Result, bail};
use clap::Args;

use self::view::Colours;
use shunt_print::duration::Seconds;

use crate::cli::{client::with_agent, flags::paths::SocketArgs};

/// Watch services, their backends and the connection table, on a screen that follows them
///
/// Services by new connections a second, with errors and active connections; Enter shows the backends of one
/// and their shares, Tab the tables and what the programs count, `e` events as they come. The keys are at the bottom. It needs a
/// terminal of any size; NO_COLOR leaves the colours out. Exit status: 0; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Interval at which the agent is queried
    #[arg(short, long, value_name = "DURATION", default_value = "1s")]
    interval: Seconds,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Shows it until its user has seen enough.
///
/// # Errors
///
/// There is no terminal.
pub(crate) fn run(args: TopArgs) -> Result<ExitCode> {
    let TopArgs {
        interval: Seconds(seconds),
        socket: SocketArgs { socket },
    } = args;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!("`shunt top` needs a terminal: `shunt services --watch` writes to a file or a pipe");
    }
    // A socket that is not the agent's is reported before the screen is taken.
    let there = with_agent(&socket, async |_| Ok(ExitCode::SUCCESS))?;
    if there != ExitCode::SUCCESS {
        return Ok(there);
    }
    let colours = if env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        Colours::Off
    } else {
        Colours::On
    };
    let (send, inputs) = mpsc::channel();
    let watched = ask::start(
        socket,
        Duration::from_secs(seconds.max(1).into()),
        send.clone(),
    )?;
    screen::read_keys(send)?;
    screen::run(&inputs, &watched, colours)?;
    Ok(ExitCode::SUCCESS)
}
