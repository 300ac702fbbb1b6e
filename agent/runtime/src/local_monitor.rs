//! Services that are registered with the agent itself, for display.

use std::{fmt, sync::Arc};

use shunt_api::view::LocalApi;

/// A way to see what is registered with the agent itself, at any time.
#[derive(Clone)]
pub struct LocalMonitor(Arc<dyn Fn() -> LocalApi + Send + Sync>);

impl LocalMonitor {
    /// Creates a monitor of what `look` sees.
    pub fn new(look: impl Fn() -> LocalApi + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// As it is now.
    pub fn look(&self) -> LocalApi {
        (self.0)()
    }
}

impl fmt::Debug for LocalMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalMonitor")
    }
}
