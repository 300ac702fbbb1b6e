//! How the page is served.

use std::sync::Arc;

use crate::{runtime::service_changes::ServiceChanges, serve::ui::token::UiToken};

/// What the command line says of the page.
#[derive(Debug, Clone)]
pub struct UiSettings {
    /// Names that it is asked for under, besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// What whoever asks has to know; `None`: nothing.
    pub token: Option<UiToken>,
    /// Where the agent remembers what has changed of each service.
    pub changes: Arc<ServiceChanges>,
}
