//! Settings of the page.

use std::sync::Arc;

use shunt_runtime::ServiceChanges;

use crate::ui::token::UiToken;

/// The command line's settings of the page.
#[derive(Debug, Clone)]
pub struct UiSettings {
    /// Names that it is asked for under, besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// Token that clients have to know; `None`: nothing.
    pub token: Option<UiToken>,
    /// The agent's memory of each service's changes.
    pub changes: Arc<ServiceChanges>,
}
