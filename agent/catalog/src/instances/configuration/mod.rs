//! Configuration of services' frontends: the text of a file, in TOML, becomes [frontends].
//!
//! [frontends]: crate::instances::frontend::Frontend

mod check;
mod elsewhere;
pub(crate) mod error;
mod fault;
pub(crate) mod parse;
mod written;
