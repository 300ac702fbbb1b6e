//! The words of steps.

use std::fmt;

use crate::trace::step::{End, Hook, How, Set, SourceChange, Step};

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xdp => "XDP",
            Self::Ingress => "TC ingress",
            Self::Egress => "TC egress",
            Self::Connect => "connect",
            Self::Sendmsg => "sendmsg",
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaves => "leaves the node",
            Self::Delivered => "delivered to this node",
            Self::Dropped => "dropped",
            Self::Rejected => "not sent on; its sender is told",
            Self::GoesOn => "the system call goes on",
            Self::Fails => "the system call fails",
        })
    }
}

/// A share in percent.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0 * 100.0)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hook { interface, hook } => match interface {
                Some(interface) => write!(f, "{hook} of {interface}: the packet meets the program"),
                None => write!(f, "{hook}: the process's system call meets the program"),
            },
            Self::NoProgram { interface, hook } => {
                write!(f, "{hook} of {interface}: no program of Shunt's is there")
            }
            Self::Connection { .. } | Self::Replaced { .. } | Self::NoConnection => {
                connection(self, f)
            }
            Self::Frontend { .. }
            | Self::NoFrontend { .. }
            | Self::NotForClient
            | Self::SourceRanges { .. } => frontend(self, f),
            Self::Set { .. } | Self::Choice { .. } | Self::Affinity { .. } => choice(self, f),
            Self::Source { .. } | Self::Route { .. } | Self::Envelope { .. } => way(self, f),
            Self::Packet { packet } => write!(f, "the packet is now {packet}"),
            Self::Counter { name } => write!(f, "counted as {name}"),
            Self::Verdict { verdict } => f.write_str(verdict),
            Self::Stack { fate } => write!(f, "the kernel's stack: {fate}"),
            Self::Socket { to } => {
                write!(
                    f,
                    "the process's socket goes to {to}, and its packets are no service's"
                )
            }
        }
    }
}

/// Writes the connection.
fn connection(step: &Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match step {
        Step::Connection {
            client,
            frontend,
            source,
            backend,
            state,
            is_reply,
        } => {
            let side = if *is_reply { "backend" } else { "client" };
            write!(
                f,
                "the {side}'s packet of a connection that is known: {client} to {frontend}"
            )?;
            if source != client {
                write!(f, ", which goes on as {source}")?;
            }
            write!(f, ", at backend {backend}, {state}")
        }
        Step::Replaced { backend } => write!(
            f,
            "there was a connection to backend {backend}, which is over or whose backend is gone: it begins another"
        ),
        _ => f.write_str("of no connection that is known"),
    }
}

/// Writes the frontend.
fn frontend(step: &Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match step {
        Step::Frontend {
            address,
            service,
            service_port,
            kind,
            is_dsr,
            split,
        } => {
            write!(f, "frontend {address}: ")?;
            match (kind, service) {
                (Some(kind), Some(service)) => write!(f, "the {kind} of service {service}")?,
                _ => f.write_str("of a service that no event has named since the agent's start")?,
            }
            if let Some(port) = service_port.as_deref().filter(|port| !port.is_empty()) {
                write!(f, ", port {port}")?;
            }
            if *is_dsr {
                f.write_str(", with direct server return")?;
            }
            for (number, (target, weight)) in split.iter().enumerate() {
                let before = if number == 0 { "; split among " } else { ", " };
                write!(f, "{before}{target} with weight {weight}")?;
            }
            Ok(())
        }
        Step::NoFrontend { address } => write!(f, "{address} is no service's"),
        Step::SourceRanges { is_in: true } => {
            f.write_str("the client is in the service's source ranges")
        }
        Step::SourceRanges { is_in: false } => {
            f.write_str("the client is in none of the service's source ranges")
        }
        _ => f.write_str(
            "a NodePort of another node's address, which is for clients on this node alone",
        ),
    }
}

/// Writes the choice.
fn choice(step: &Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match step {
        Step::Set {
            set,
            why,
            backends,
            refused,
        } => {
            let name = match set {
                Set::Cluster => "all usable backends (Cluster)",
                Set::Local => "the backends of this node (Local)",
            };
            write!(f, "chosen from {name}, since {why}")?;
            if backends.is_empty() {
                f.write_str(": there is none")?;
            }
            for (number, member) in backends.iter().enumerate() {
                let before = if number == 0 { ": " } else { ", " };
                write!(f, "{before}{} {}", member.address, Percent(member.share))?;
            }
            if *refused > 0.0 {
                write!(f, ", refused {}", Percent(*refused))?;
            }
            Ok(())
        }
        Step::Choice {
            backend,
            how,
            is_local,
        } => {
            let place = if *is_local {
                "on this node"
            } else {
                "on another node"
            };
            let how = match how {
                How::Drawn => "one draw of many",
                How::ByPacket => "by the packet's addresses, ports and sequence number",
                How::Maglev => "by its Maglev table, as on every node",
                How::Affinity => "the client's last one",
            };
            write!(f, "backend {backend}, {place}: {how}")
        }
        Step::Affinity { seconds, is_known } => {
            let text = if *is_known {
                "and it has one"
            } else {
                "and it has none yet, or one that is gone"
            };
            write!(f, "clients stay with their backend for {seconds} s, {text}")
        }
        _ => Ok(()),
    }
}

/// Writes the destination and the source.
fn way(step: &Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match step {
        Step::Source {
            source,
            change,
            why,
        } => match change {
            SourceChange::Kept => write!(f, "no SNAT: it goes on from {source}, since {why}"),
            SourceChange::Snat => write!(f, "SNAT: it goes on from {source}, since {why}"),
            SourceChange::Hairpin => write!(f, "hairpin: it goes on from {source}, since {why}"),
        },
        Step::Route {
            to,
            interface,
            gateway,
            mtu,
            remark,
        } => {
            match interface {
                Some(interface) => write!(f, "route to {to}: by {interface}")?,
                None => write!(f, "route to {to}: none")?,
            }
            if let Some(gateway) = gateway {
                write!(f, " via {gateway}")?;
            }
            if let Some(mtu) = mtu {
                write!(f, ", at most {mtu} bytes")?;
            }
            remark.iter().try_for_each(|remark| write!(f, "; {remark}"))
        }
        Step::Envelope { from, to } => {
            write!(
                f,
                "unchanged in an envelope from {from} to the backend's node {to}"
            )
        }
        _ => Ok(()),
    }
}
