//! The agent's servers besides its own socket: the APIs of others, and the page.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use shunt_runtime::{EventQueue, HereWatch, Inspector, ServiceChanges};

use crate::cli::flags::{
    linkerd::{LinkerdArgs, LinkerdPlace},
    local_api::{LocalApiArgs, LocalKept},
    ui::{UiArgs, UiPlace},
};

/// The APIs of others, and the page.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApiArgs {
    #[command(flatten)]
    linkerd: LinkerdArgs,

    #[command(flatten)]
    local_api: LocalApiArgs,

    #[command(flatten)]
    ui: UiArgs,
}

impl ApiArgs {
    /// Returns the suffix of the names of the cluster's services.
    pub(crate) fn cluster_domain(&self) -> &str {
        self.linkerd.cluster_domain()
    }

    /// Listens at the addresses that are given, and reads what is to be served.
    ///
    /// # Errors
    ///
    /// An address cannot be had, or a file cannot be read.
    pub(crate) async fn listen(self) -> Result<ApiPlaces> {
        let Self {
            linkerd,
            local_api,
            ui,
        } = self;
        Ok(ApiPlaces {
            linkerd: linkerd.listen().await?,
            local_api: local_api.listen().await?.keep().await?,
            ui: ui.listen().await?,
        })
    }
}

/// Places where they are going to be served, if anywhere.
#[derive(Debug)]
pub(crate) struct ApiPlaces {
    linkerd: LinkerdPlace,
    local_api: LocalKept,
    ui: UiPlace,
}

impl ApiPlaces {
    /// Returns the place for the agent's memory of each service's changes, if the page is going to be served.
    pub(crate) fn changes(&self) -> Option<Arc<ServiceChanges>> {
        self.ui.changes()
    }

    /// The source that follows what is registered, as it names itself, if there is one.
    pub(crate) fn source_name(&self) -> Option<String> {
        self.local_api.source_name()
    }

    /// Begins to serve what the inspector finds, and to send `queue` what is registered. Dropping the result ends that.
    ///
    /// # Errors
    ///
    /// There is no room for a thread.
    pub(crate) fn serve(
        self,
        inspector: &Inspector,
        queue: &EventQueue,
        here: HereWatch,
    ) -> Result<impl Sized + use<>> {
        let Self {
            linkerd,
            local_api,
            ui,
        } = self;
        Ok((
            linkerd.serve(inspector)?,
            local_api.serve(queue, here)?,
            ui.serve(inspector)?,
        ))
    }
}
