//! The hooks at which the programs see what processes do with sockets.

/// Hook for a program in a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SocketHook {
    /// A process reads the address of the other end.
    GetPeerName4,
    /// The same for IPv6.
    GetPeerName6,
    /// A datagram came, and the process gets its sender.
    RecvMsg4,
    /// The same for IPv6.
    RecvMsg6,
    /// A datagram goes out of a socket that is not connected.
    SendMsg4,
    /// The same for IPv6.
    SendMsg6,
    /// A socket is connected.
    Connect4,
    /// The same for IPv6.
    Connect6,
    /// A socket gets an address of its own.
    Bind4,
    /// The same for IPv6.
    Bind6,
}

impl SocketHook {
    /// The way back first: no request is translated whose reply would not be.
    const ALL: [Self; 10] = [
        Self::GetPeerName4,
        Self::GetPeerName6,
        Self::RecvMsg4,
        Self::RecvMsg6,
        Self::SendMsg4,
        Self::SendMsg6,
        Self::Connect4,
        Self::Connect6,
        Self::Bind4,
        Self::Bind6,
    ];

    /// Each of them, in the order in which they are attached.
    pub(crate) fn all() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.into_iter()
    }

    /// Returns whether it is of use only where NodePorts are protected.
    pub(crate) const fn is_bind(self) -> bool {
        matches!(self, Self::Bind4 | Self::Bind6)
    }

    /// The name, as it is shown and in pins.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::GetPeerName4 => "getpeername4",
            Self::GetPeerName6 => "getpeername6",
            Self::RecvMsg4 => "recvmsg4",
            Self::RecvMsg6 => "recvmsg6",
            Self::SendMsg4 => "sendmsg4",
            Self::SendMsg6 => "sendmsg6",
            Self::Connect4 => "connect4",
            Self::Connect6 => "connect6",
            Self::Bind4 => "bind4",
            Self::Bind6 => "bind6",
        }
    }

    /// The hook of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::all().find(|hook| hook.name() == name)
    }

    /// The name of its program.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::GetPeerName4 => "sock_getpeername4",
            Self::GetPeerName6 => "sock_getpeername6",
            Self::RecvMsg4 => "sock_recvmsg4",
            Self::RecvMsg6 => "sock_recvmsg6",
            Self::SendMsg4 => "sock_sendmsg4",
            Self::SendMsg6 => "sock_sendmsg6",
            Self::Connect4 => "sock_connect4",
            Self::Connect6 => "sock_connect6",
            Self::Bind4 => "sock_bind4",
            Self::Bind6 => "sock_bind6",
        }
    }
}
