//! The command line: a module for each subcommand, and what they share.

mod agent;
mod apply;
mod cleanup;
mod client;
mod config;
mod conntrack;
mod dispatch;
mod flags;
mod frontend_table;
mod init;
mod kube_proxy;
mod log;
mod lookup;
mod output;
mod render;
mod service_table;
mod services;
mod socket_lb;
mod status;
mod table;
mod take_over;

pub(crate) use self::dispatch::main;
