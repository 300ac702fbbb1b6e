//! Translation at the socket.

use serde::Serialize;

use crate::{
    proto::{self, socket_lb},
    view::error::Malformed,
};

/// Translation where a process opens a connection, before there is a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SocketLb {
    /// For whom.
    pub mode: SocketLbMode,
    /// The directory of the cgroup whose processes it is for, if there is one.
    pub cgroup: Option<String>,
    /// True if this cgroup has every process of the machine.
    pub root: bool,
    /// The hooks that have programs, by name: all that are wanted, or none.
    pub hooks: Vec<String>,
    /// Why there are none.
    pub problem: Option<String>,
}

/// Processes whose connections are translated at the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketLbMode {
    /// None.
    Off,
    /// Processes in the agent's own network namespace, the node's.
    Host,
    /// Processes of pods too.
    All,
}

impl SocketLbMode {
    /// As the agent's flag has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Host => "host",
            Self::All => "all",
        }
    }
}

impl From<SocketLb> for proto::SocketLb {
    fn from(sockets: SocketLb) -> Self {
        let SocketLb {
            mode,
            cgroup,
            root,
            hooks,
            problem,
        } = sockets;
        let mode = match mode {
            SocketLbMode::Off => socket_lb::Mode::Off,
            SocketLbMode::Host => socket_lb::Mode::Host,
            SocketLbMode::All => socket_lb::Mode::All,
        };
        Self {
            mode: mode.into(),
            cgroup,
            root,
            hooks,
            problem,
        }
    }
}

impl TryFrom<proto::SocketLb> for SocketLb {
    type Error = Malformed;

    fn try_from(message: proto::SocketLb) -> Result<Self, Malformed> {
        let proto::SocketLb {
            mode,
            cgroup,
            root,
            hooks,
            problem,
        } = message;
        let mode = match socket_lb::Mode::try_from(mode) {
            // An agent without this field does not do it.
            Ok(socket_lb::Mode::Unspecified | socket_lb::Mode::Off) => SocketLbMode::Off,
            Ok(socket_lb::Mode::Host) => SocketLbMode::Host,
            Ok(socket_lb::Mode::All) => SocketLbMode::All,
            Err(_) => return Err(Malformed::Value(mode, "mode of socket_lb")),
        };
        Ok(Self {
            mode,
            cgroup,
            root,
            hooks,
            problem,
        })
    }
}
