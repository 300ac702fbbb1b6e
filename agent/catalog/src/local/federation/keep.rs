//! The federation, on a thread of its own.

use shunt_runtime::give_way;
use tokio::runtime::{self, Runtime};
use tracing::info;

use crate::local::{
    federation::{
        options::{FederationError, FederationOptions},
        shared::Federation,
        sync::{pull, push},
    },
    registrar::Registrar,
    source::OfferedFrontends,
};

/// The part of the agent that takes part in the federation. Dropping it ends that.
#[derive(Debug)]
pub struct FederationKeeper {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl FederationKeeper {
    /// Begins to publish the gateways of `registrar`, with those that `frontends` are, and to copy those of
    /// others.
    ///
    /// # Errors
    ///
    /// There is no thread for it.
    pub fn start(
        federation: &Federation,
        registrar: &Registrar,
        frontends: OfferedFrontends,
    ) -> Result<Self, FederationError> {
        let OfferedFrontends(frontends) = frontends;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("federation")
            .on_thread_start(give_way)
            .enable_all()
            .build()
            .map_err(FederationError::Threads)?;
        let FederationOptions {
            datacenter,
            primary,
            only_reads,
            ..
        } = federation.options();
        info!("federation: datacenter {datacenter}, primary {primary}");
        if !only_reads {
            runtime.spawn(push(federation.clone(), registrar.clone(), frontends));
        }
        if !federation.is_primary() {
            runtime.spawn(pull(federation.clone()));
        }
        Ok(Self {
            runtime: Some(runtime),
        })
    }
}

impl Drop for FederationKeeper {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A file that is being written has its old content or its new one.
            runtime.shutdown_background();
        }
    }
}
