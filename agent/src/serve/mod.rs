//! Servers of the agent: its socket, and the requests there; health and metrics over
//! HTTP; a page for a browser.

pub(crate) mod controller;
pub(crate) mod grpc;
pub(crate) mod health;
pub(crate) mod http_server;
pub(crate) mod linkerd;
pub(crate) mod local_api;
pub(crate) mod metrics;
pub(crate) mod ui;
