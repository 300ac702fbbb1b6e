//! The command line: a module for each subcommand, and what they share.

mod agent;
mod apply;
mod cleanup;
mod client;
mod config;
mod config_command;
mod conntrack;
mod consul_lines;
mod controller;
mod decide;
mod dispatch;
mod documents;
mod dump;
mod flags;
mod frontend_filter;
mod init;
mod kube_proxy;
mod listing;
mod log;
mod lookup;
mod monitor;
mod proxy;
mod render;
mod retired;
mod services;
mod socket_lb;
mod status;
mod steer;
mod steered;
mod stop;
mod take_over;
mod top;
mod trace;
mod watch;

pub(crate) use self::dispatch::main;
