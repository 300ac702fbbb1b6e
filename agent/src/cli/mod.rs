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
mod elapsed;
mod flags;
mod frontend_filter;
mod frontend_table;
mod init;
mod kube_proxy;
mod log;
mod lookup;
mod monitor;
mod output;
mod render;
mod service_table;
mod services;
mod socket_lb;
mod split_table;
mod status;
mod steer;
mod steered;
mod stop;
mod table;
mod take_over;
mod watch;

pub(crate) use self::dispatch::main;
