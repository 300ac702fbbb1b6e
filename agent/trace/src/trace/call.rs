//! System calls of processes, which are translated at the socket.

use std::net::SocketAddr;

use shunt_common::registry;
use shunt_programs::{Action, Call, CallOutcome};

use crate::trace::{
    explain::Seen,
    journey::Journey,
    step::{End, Hook, Step},
};

impl Journey<'_> {
    /// Follows a system call of a process: of the node itself, or of a pod. Returns how it ends, and the address
    /// that the socket goes on with.
    pub(crate) fn call(&mut self, call: &Call, is_of_pod: bool) -> (End, Option<SocketAddr>) {
        // No question is about the other calls: what they do depends on these.
        let hook = if call.action == Action::Connect {
            Hook::Connect
        } else {
            Hook::Sendmsg
        };
        self.steps.push(Step::Hook {
            interface: None,
            hook,
        });
        let own = self.dump.constants.get(registry::HOST_NETNS.name);
        let own = own.and_then(|bytes| bytes.as_slice().try_into().ok());
        let own = own.map_or(0, u64::from_ne_bytes);
        // Another one's is any other number.
        let namespace = if is_of_pod { !own } else { own };
        let told = Box::new(self.told(namespace));
        let CallOutcome {
            to,
            error,
            remembered: _,
            deeds,
        } = self.programs.call(call, told);
        self.explain(&Seen {
            deeds: &deeds,
            from: SocketAddr::new(call.socket.bound, 0),
            to: call.to,
            protocol: call.socket.protocol,
            before: None,
            after: None,
            interface: None,
            is_leaving: false,
        });
        let Some(to) = to else {
            let text = match error {
                Some(-111) => {
                    "the call fails at once: connection refused (ECONNREFUSED)".to_owned()
                }
                Some(number) => format!("the call fails at once, with error {}", -number),
                None => "the call fails at once: not permitted (EPERM)".to_owned(),
            };
            self.steps.push(Step::Verdict { verdict: text });
            return (End::Fails, None);
        };
        if to == call.to {
            let verdict = "the call goes on as it is".to_owned();
            self.steps.push(Step::Verdict { verdict });
        } else {
            self.backend = Some(to);
            self.steps.push(Step::Socket { to });
        }
        (End::GoesOn, Some(to))
    }
}
