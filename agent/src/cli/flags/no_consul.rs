//! No Consul: a build without the feature `consul` has neither its flags nor its source.

use std::{collections::BTreeSet, net::IpAddr};

use anyhow::Result;
use clap::Args;
use shunt::EventQueue;
use tokio::sync::watch;

/// No flags.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConsulArgs {}

/// No source.
#[derive(Debug)]
pub(crate) struct Consul;

impl ConsulArgs {
    /// There is nothing to open.
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(crate) fn open(self, _: watch::Receiver<BTreeSet<IpAddr>>) -> Result<Consul> {
        let Self {} = self;
        Ok(Consul)
    }
}

impl Consul {
    /// Starts nothing.
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(crate) fn start(self, _: &EventQueue) -> Result<Option<String>> {
        let Self = self;
        Ok(None)
    }
}
