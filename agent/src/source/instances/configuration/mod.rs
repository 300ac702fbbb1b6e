//! Which services have which frontends: the text of a file, in TOML, becomes [frontends].
//!
//! [frontends]: crate::source::instances::frontend::Frontend

mod check;
pub(crate) mod error;
pub(crate) mod parse;
mod written;
