//! Interfaces whose packets in transit are forwarded past TC.

use serde::Serialize;

use crate::{
    proto::{self, uplink},
    view::error::Malformed,
};

/// An interface that is to have the XDP program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Uplink {
    /// Its name; that of a pattern that means no interface is the pattern.
    pub name: String,
    /// State of the uplink.
    #[serde(flatten)]
    pub state: UplinkState,
}

/// State of an uplink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum UplinkState {
    /// The program runs in its driver.
    Native {
        /// The kernel's index of it.
        index: u32,
    },
    /// The program runs before the stack.
    Generic {
        /// The kernel's index of it.
        index: u32,
        /// Why not in the driver, if it was to.
        reason: Option<String>,
    },
    /// The kernel verifies the program.
    Loading,
    /// There is none of this name, or that the pattern means: it is waited for.
    Absent,
    /// It has no program: TC does all.
    Failed {
        /// Why.
        reason: String,
    },
}

impl From<Uplink> for proto::Uplink {
    fn from(uplink: Uplink) -> Self {
        let Uplink { name, state } = uplink;
        let (state, index, reason) = match state {
            UplinkState::Native { index } => (uplink::State::Native, index, String::new()),
            UplinkState::Generic { index, reason } => {
                (uplink::State::Generic, index, reason.unwrap_or_default())
            }
            UplinkState::Loading => (uplink::State::Loading, 0, String::new()),
            UplinkState::Absent => (uplink::State::Absent, 0, String::new()),
            UplinkState::Failed { reason } => (uplink::State::Failed, 0, reason),
        };
        Self {
            name,
            state: state.into(),
            index,
            reason,
        }
    }
}

impl TryFrom<proto::Uplink> for Uplink {
    type Error = Malformed;

    fn try_from(message: proto::Uplink) -> Result<Self, Malformed> {
        let proto::Uplink {
            name,
            state,
            index,
            reason,
        } = message;
        let state = match uplink::State::try_from(state) {
            Ok(uplink::State::Native) => UplinkState::Native { index },
            Ok(uplink::State::Generic) => UplinkState::Generic {
                index,
                reason: (!reason.is_empty()).then_some(reason),
            },
            Ok(uplink::State::Loading) => UplinkState::Loading,
            Ok(uplink::State::Absent) => UplinkState::Absent,
            Ok(uplink::State::Failed) => UplinkState::Failed { reason },
            Ok(uplink::State::Unspecified) | Err(_) => {
                return Err(Malformed::Value(state, "state of an uplink"));
            }
        };
        Ok(Self { name, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uplink_is_the_same_behind_its_message() {
        let reason = "none".to_owned();
        for state in [
            UplinkState::Native { index: 3 },
            UplinkState::Generic {
                index: 4,
                reason: Some(reason.clone()),
            },
            UplinkState::Generic {
                index: 4,
                reason: None,
            },
            UplinkState::Loading,
            UplinkState::Absent,
            UplinkState::Failed { reason },
        ] {
            let uplink = Uplink {
                name: "eth0".to_owned(),
                state,
            };
            let message = proto::Uplink::from(uplink.clone());
            assert_eq!(Uplink::try_from(message).unwrap(), uplink);
        }
        Uplink::try_from(proto::Uplink::default()).unwrap_err();
    }
}
