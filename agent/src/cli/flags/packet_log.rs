//! What the kernel programs log.

use clap::{Args, ValueEnum};
use shunt_datapath::PacketLog;

/// What the kernel programs log of packets.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct PacketLogArgs {
    /// What the kernel programs log of packets
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
    /// What is logged.
    pub(crate) const fn packet_log(self) -> PacketLog {
        match self.level {
            Level::Off => PacketLog::Off,
            Level::Debug => PacketLog::Debug,
        }
    }
}
