//! Checks that are asked: by a connection or a request, again and again.

mod answer;
mod http;
pub(in crate::source::local) mod keep;
mod run;
mod tcp;
