//! `shunt confirm` and `discard`: what becomes of an event that would remove too many frontends.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use shunt_api::proto::DecideRemovalRequest;

use crate::cli::{
    client::{control, with_agent},
    flags::paths::SocketArgs,
    output::complain,
    steer::failed,
    steered::write_applied,
};

/// Have the event take effect that waits because it removes more frontends than --max-removal lets it
///
/// `shunt status` shows it. What waits behind it follows. Exit status: 0; 1 if none waits; 2 without an
/// agent.
#[derive(Debug, Args)]
pub(crate) struct ConfirmArgs {
    #[command(flatten)]
    socket: SocketArgs,
}

/// Forget the event that waits because it removes more frontends than --max-removal lets it
///
/// What waits behind it follows. The next Resync brings what the event has said, and may wait in its place.
/// Exit status: 0; 1 if none waits; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    socket: SocketArgs,
}

/// Confirms.
pub(crate) fn confirm(args: &ConfirmArgs) -> Result<ExitCode> {
    decide(&args.socket, true)
}

/// Discards.
pub(crate) fn discard(args: &DiscardArgs) -> Result<ExitCode> {
    decide(&args.socket, false)
}

fn decide(socket: &SocketArgs, confirm: bool) -> Result<ExitCode> {
    with_agent(&socket.socket, async |channel| {
        let request = DecideRemovalRequest { confirm };
        match control(channel).decide_removal(request).await {
            Ok(applied) if confirm => {
                write_applied("confirmed", &applied.into_inner())?;
                Ok(ExitCode::SUCCESS)
            }
            Ok(_) => {
                complain("discarded: the next Resync brings what it said");
                Ok(ExitCode::SUCCESS)
            }
            Err(status) => failed(&status),
        }
    })
}
