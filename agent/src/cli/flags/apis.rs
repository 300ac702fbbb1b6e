//! What the agent serves besides its own socket: the APIs of others.

use anyhow::Result;
use clap::Args;
use shunt::{EventQueue, Inspector};

use crate::cli::flags::{
    linkerd::{LinkerdArgs, LinkerdPlace},
    local_api::{LocalApiArgs, LocalKept},
};

/// The APIs of others.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApiArgs {
    #[command(flatten)]
    linkerd: LinkerdArgs,

    #[command(flatten)]
    local_api: LocalApiArgs,
}

impl ApiArgs {
    /// Listens where that is asked for, and reads what is to be served.
    ///
    /// # Errors
    ///
    /// An address cannot be had, or a file cannot be read.
    pub(crate) async fn listen(self) -> Result<ApiPlaces> {
        let Self { linkerd, local_api } = self;
        Ok(ApiPlaces {
            linkerd: linkerd.listen()?,
            local_api: local_api.listen()?.keep().await?,
        })
    }
}

/// Where they are going to be served, if anywhere.
#[derive(Debug)]
pub(crate) struct ApiPlaces {
    linkerd: LinkerdPlace,
    local_api: LocalKept,
}

impl ApiPlaces {
    /// Begins to serve what the inspector finds, and to tell `queue` of what is registered. What it gives
    /// ends that when it is dropped.
    ///
    /// # Errors
    ///
    /// There is no room for a thread.
    pub(crate) fn serve(
        self,
        inspector: &Inspector,
        queue: &EventQueue,
    ) -> Result<impl Sized + use<>> {
        let Self { linkerd, local_api } = self;
        Ok((linkerd.serve(inspector)?, local_api.serve(queue)?))
    }
}
