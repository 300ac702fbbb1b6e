//! The frontends of an agent, in the pieces in which it sends them.

use anyhow::Result;
use shunt_api::{
    message::join_services,
    proto::{ServicesRequest, ServicesResponse},
    view::{self, Frontend, FrontendKey},
};
use tonic::transport::Channel;

use crate::cli::client::{inspection, refused, understood};

/// The frontends that match a filter.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Frontends in the kernel.
    pub(crate) live: Vec<Frontend>,
    /// Frontends that are not in the kernel, although events lead to them.
    pub(crate) missing: Vec<FrontendKey>,
}

/// Lists the frontends that match.
///
/// # Errors
///
/// If the agent refuses, or sends what this version does not know.
pub(crate) async fn list(channel: Channel, filter: view::FrontendFilter) -> Result<Listed> {
    let request = ServicesRequest {
        filter: Some(filter.clone().into()),
    };
    let mut pieces = inspection(channel)
        .services(request)
        .await
        .map_err(|status| refused(&status))?
        .into_inner();
    let mut joined = ServicesResponse::default();
    while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
        join_services(&mut joined, piece);
    }
    let ServicesResponse { frontends, missing } = joined;
    let mut listed = Listed::default();
    for frontend in frontends {
        let frontend = understood(frontend.try_into())?;
        // An agent of an earlier version sends all of them.
        if filter.takes(&frontend) {
            listed.live.push(frontend);
        }
    }
    for key in missing {
        let key = understood(key.try_into())?;
        if filter.takes_missing(&key) {
            listed.missing.push(key);
        }
    }
    Ok(listed)
}
