//! The options of the registrations.

use std::path::PathBuf;

use crate::local::{limits::HttpChecks, registrar::LocalNode};

/// Options of the registrations.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// This host.
    pub node: LocalNode,
    /// The file in which they outlive the agent.
    pub state: PathBuf,
    /// A file, or a folder of files, that defines services beside what is registered.
    pub services: Option<PathBuf>,
    /// The HTTP checks that may be registered by API.
    pub http_checks: HttpChecks,
}
