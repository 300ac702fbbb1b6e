//! Events as lines of JSON.

pub(crate) mod decode;
pub(crate) mod event;
pub(crate) mod line_error;
pub(crate) mod lines;
pub(crate) mod locate;
pub(crate) mod object;
pub(crate) mod shape;
pub(crate) mod text;
pub(crate) mod workload;
