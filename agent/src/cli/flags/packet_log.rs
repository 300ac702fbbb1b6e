//! The log of the kernel programs.

use clap::{Args, ValueEnum};
use shunt_datapath::PacketLog;

/// Log of the kernel programs about packets.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct PacketLogArgs {
    /// Level of the kernel programs' log about packets
    #[arg(long = "packet-log", value_name = "LEVEL", value_enum, default_value_t)]
    level: Level,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Level {
    /// Nothing
    #[default]
    Off,
    /// Each connection that is opened and each packet that is dropped
    Debug,
}

impl PacketLogArgs {
    /// Returns the log's level.
    pub(crate) const fn packet_log(self) -> PacketLog {
        match self.level {
            Level::Off => PacketLog::Off,
            Level::Debug => PacketLog::Debug,
        }
    }
}
