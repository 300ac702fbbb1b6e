//! Take-over from kube-proxy.

use serde::Serialize;

use crate::proto;

/// Take-over: packets that begin no connection, and are of none that is known, are left to the host's
/// stack, where kube-proxy's rules have translated theirs. The order of the fields is the order in
/// JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TakeOver {
    /// True if they are.
    pub active: bool,
    /// The agent's setting: `auto`, `on` or `off`.
    pub mode: String,
    /// Why they are, or are not.
    pub reason: String,
    /// kube-proxy's rules on the host, if there are any.
    pub rules: Option<String>,
    /// Number of connections that netfilter translates and that have not ended, as far as that is known.
    pub connections: Option<u64>,
}

impl From<TakeOver> for proto::TakeOver {
    fn from(take_over: TakeOver) -> Self {
        let TakeOver {
            active,
            mode,
            reason,
            rules,
            connections,
        } = take_over;
        Self {
            active,
            mode,
            reason,
            rules,
            connections,
        }
    }
}

impl From<proto::TakeOver> for TakeOver {
    fn from(message: proto::TakeOver) -> Self {
        let proto::TakeOver {
            active,
            mode,
            reason,
            rules,
            connections,
        } = message;
        Self {
            active,
            mode,
            reason,
            rules,
            connections,
        }
    }
}
