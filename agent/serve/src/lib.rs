//! Servers of the agent: its socket, and the requests there; health and metrics over
//! HTTP; a page for a browser.

#![forbid(unsafe_code)]

mod calls;
mod controller;
mod grpc;
mod health;
mod http_server;
mod linkerd;
mod local_api;
mod metrics;
mod ui;

pub use self::{
    calls::limits::CallLimits,
    controller::serve_controller,
    grpc::server::Server,
    http_server::{HttpError, HttpListeners, HttpOptions, HttpServer},
    linkerd::{
        server::LinkerdServer,
        settings::{LinkerdSettings, MeshSettings, OpaquePorts},
    },
    local_api::{primary::FederationServer, server::LocalApiServer},
    ui::{
        server::UiServer,
        settings::UiSettings,
        token::{UiToken, UiTokenError},
    },
};
