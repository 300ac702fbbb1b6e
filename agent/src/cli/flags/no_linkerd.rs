//! No linkerd: a build without the feature `linkerd-api` has neither its flags nor its API.

use anyhow::Result;
use clap::Args;
use shunt::Inspector;

/// No flags.
#[derive(Debug, Clone, Args)]
pub(crate) struct LinkerdArgs {}

impl LinkerdArgs {
    /// There is nothing to listen for.
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(crate) fn listen(self) -> Result<LinkerdPlace> {
        let Self {} = self;
        Ok(LinkerdPlace)
    }
}

/// Nowhere.
#[derive(Debug)]
pub(crate) struct LinkerdPlace;

impl LinkerdPlace {
    /// Serves nothing.
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(crate) fn serve(self, _: &Inspector) -> Result<()> {
        let Self = self;
        Ok(())
    }
}
