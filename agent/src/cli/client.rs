//! The other end of the agent's socket.

use std::{path::Path, process::ExitCode};

use anyhow::{Context as _, Result, anyhow};
use shunt_api::{
    MESSAGE_LIMIT,
    proto::{
        control_client::ControlClient, events_client::EventsClient,
        inspection_client::InspectionClient,
    },
    view::Malformed,
};
use shunt_print::output::{causes, complain};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

/// No agent, or none that answers.
pub(crate) const NO_ANSWER: u8 = 2;

/// Does `work` with a connection to the agent at `socket`. If that fails, the exit status is
/// [`NO_ANSWER`].
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn with_agent(
    socket: &Path,
    work: impl AsyncFnOnce(Channel) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let done = runtime.block_on(async { work(connect(socket).await?).await });
    Ok(done.unwrap_or_else(|error| {
        complain(format_args!("error: {}", causes(&error)));
        ExitCode::from(NO_ANSWER)
    }))
}

/// A connection to the agent at `socket`.
///
/// # Errors
///
/// None answers there.
pub(crate) async fn connect(socket: &Path) -> Result<Channel> {
    let path = socket
        .to_str()
        .with_context(|| format!("{} is not valid UTF-8", socket.display()))?;
    let connected = Endpoint::from_shared(format!("unix:{path}"))?
        .connect()
        .await;
    connected.map_err(|error| {
        // The errors above it have only that it could not be connected.
        let cause = anyhow::Error::from(error);
        anyhow!("no agent answers at {path}: {}", cause.root_cause())
    })
}

/// For events.
pub(crate) fn events(channel: Channel) -> EventsClient<Channel> {
    EventsClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT)
}

/// For questions.
pub(crate) fn inspection(channel: Channel) -> InspectionClient<Channel> {
    InspectionClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT)
}

/// For what an operator does.
pub(crate) fn control(channel: Channel) -> ControlClient<Channel> {
    ControlClient::new(channel)
}

/// Returns the error that the agent reports.
pub(crate) fn refused(status: &Status) -> anyhow::Error {
    anyhow!("the agent answers: {}", status.message())
}

/// Returns the agent's answer, if it makes sense.
pub(crate) fn understood<T>(answer: Result<T, Malformed>) -> Result<T> {
    answer.context("the agent's answer makes no sense (is it of this version?)")
}
