//! The command line: a module for each subcommand, and what they share.

mod conntrack;
mod dispatch;
mod exit;
mod lookup;
mod monitor;
mod resolve;
mod services;
mod status;
mod steer;

pub(crate) use self::dispatch::main;
