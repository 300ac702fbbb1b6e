//! The events of the agent, as they come.

use anyhow::{Result, anyhow};
use shunt_api::{
    proto::{MonitorRequest, MonitorResponse},
    view::FlowEvent,
};
use tonic::{Streaming, transport::Channel};

use crate::cli::client::{inspection, refused, understood};

/// Events from an agent.
pub(crate) struct Events(Streaming<MonitorResponse>);

impl Events {
    /// Requests them; events from now on come.
    ///
    /// # Errors
    ///
    /// The agent refuses.
    pub(crate) async fn ask(channel: Channel, request: MonitorRequest) -> Result<Self> {
        let answer = inspection(channel).monitor(request).await;
        let answer = answer.map_err(|status| refused(&status))?;
        Ok(Self(answer.into_inner()))
    }

    /// Returns the next events, which may be none, and the number of lost ones since the begin.
    ///
    /// # Errors
    ///
    /// The agent has ended, or its answer makes no sense.
    pub(crate) async fn next(&mut self) -> Result<(Vec<FlowEvent>, u64)> {
        let message = self.0.message().await.map_err(|status| refused(&status))?;
        let MonitorResponse { events, lost } =
            message.ok_or_else(|| anyhow!("the agent has ended"))?;
        let events = events.into_iter().map(TryInto::try_into);
        Ok((understood(events.collect())?, lost))
    }
}
