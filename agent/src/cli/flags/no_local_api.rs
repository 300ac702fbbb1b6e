//! No local API: a build without the feature `local-api` has neither its flags nor its API.

use anyhow::Result;
use clap::Args;
use shunt::EventQueue;

/// No flags.
#[derive(Debug, Clone, Args)]
pub(crate) struct LocalApiArgs {}

impl LocalApiArgs {
    /// There is nothing to listen for.
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(crate) fn listen(self) -> Result<LocalPlace> {
        let Self {} = self;
        Ok(LocalPlace)
    }
}

/// Nowhere.
#[derive(Debug)]
pub(crate) struct LocalPlace;

/// Nothing.
pub(crate) type LocalKept = LocalPlace;

impl LocalPlace {
    /// Keeps nothing.
    #[expect(clippy::unused_async, reason = "as with the feature")]
    pub(crate) async fn keep(self) -> Result<Self> {
        Ok(self)
    }

    /// Serves nothing.
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(crate) fn serve(self, _: &EventQueue) -> Result<()> {
        let Self = self;
        Ok(())
    }
}
