//! Sockets that the kernel does not list.

use thiserror::Error;

/// The reason why sockets of a protocol cannot be found when their backend is gone: the kernel lacks
/// something, or refuses it to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unlisted {
    /// UDP sockets.
    #[error(
        "this kernel does not list UDP sockets with what they remember, which takes its iterator \
         over UDP sockets (Linux 5.9), its BTF (/sys/kernel/btf/vmlinux) and CONFIG_INET_UDP_DIAG: \
         {0}"
    )]
    Udp(String),
    /// TCP sockets.
    #[error(
        "this kernel does not list TCP sockets with what they remember, which takes \
         INET_DIAG_REQ_SK_BPF_STORAGES (Linux 5.7) and CONFIG_INET_TCP_DIAG: {0}"
    )]
    Tcp(String),
}
