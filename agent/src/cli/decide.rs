//! `shunt confirm` and `discard`: what becomes of an event that would remove too many frontends.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, value_parser};
use shunt_api::proto::{DecideRemovalRequest, RemovalDecision};
use shunt_print::output::complain;

use crate::cli::{
    client::{control, with_agent},
    flags::paths::SocketArgs,
    steer::failed,
    steered::write_applied,
};

/// Have the event take effect that waits because it removes more frontends than --max-removal lets it
///
/// `shunt status` shows it. What waits behind it follows. Exit status: 0; 1 if it does not wait, or no longer;
/// 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// The number of the event, as `shunt status` shows it: a newer one may have come in its place
    #[arg(value_name = "NUMBER", value_parser = value_parser!(u64).range(1..))]
    number: u64,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Forget the event that waits because it removes more frontends than --max-removal lets it
///
/// The events behind it follow. The next Resync brings its content, and may wait in its place. Exit status: 0; 1 if it
/// does not wait, or no longer; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    /// The number of the event, as `shunt status` shows it: a newer one may have come in its place
    #[arg(value_name = "NUMBER", value_parser = value_parser!(u64).range(1..))]
    number: u64,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Confirms.
pub(crate) fn confirm(args: &ConfirmArgs) -> Result<ExitCode> {
    let ConfirmArgs { number, socket } = args;
    with_agent(&socket.socket, async |channel| {
        let request = request(*number, RemovalDecision::Confirm);
        match control(channel).decide_removal(request).await {
            Ok(applied) => {
                write_applied("confirmed", &applied.into_inner())?;
                Ok(ExitCode::SUCCESS)
            }
            Err(status) => failed(&status),
        }
    })
}

/// Discards.
pub(crate) fn discard(args: &DiscardArgs) -> Result<ExitCode> {
    let DiscardArgs { number, socket } = args;
    with_agent(&socket.socket, async |channel| {
        let request = request(*number, RemovalDecision::Discard);
        match control(channel).decide_removal(request).await {
            Ok(_) => {
                complain("discarded: the next Resync brings what it said");
                Ok(ExitCode::SUCCESS)
            }
            Err(status) => failed(&status),
        }
    })
}

fn request(number: u64, decision: RemovalDecision) -> DecideRemovalRequest {
    DecideRemovalRequest {
        // An agent of an earlier version reads nothing else.
        confirm: decision == RemovalDecision::Confirm,
        decision: decision.into(),
        number,
    }
}
