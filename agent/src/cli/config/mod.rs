//! Configuration files: the agent's own, and what kube-proxy's operators have configured: its flags and its
//! configuration file, as far as they mean something here, and words about the rest.

pub(crate) mod agent_file;
pub(crate) mod file;
pub(crate) mod flags;
mod reading;
pub(crate) mod settings;
mod table;
mod v1alpha1;
mod validate;
