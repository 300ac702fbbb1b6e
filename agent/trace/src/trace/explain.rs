//! Deeds of a program, read from its looks into tables and from what it left there.

use std::net::SocketAddr;

use bytemuck::bytes_of;
use shunt_common::{Cell, Counter, InterfaceRole, Slot, connections::Phase, registry};
use shunt_programs::{Deed, Programs};

use crate::{
    dump::{
        content::{Frontend, Share},
        record::Dump,
    },
    trace::{
        connections::{Known, Shown},
        fib::{Fib, result},
        step::{How, Member, Set, SourceChange, Step},
        tables::{self, Found},
    },
};

/// Deeds of a program.
pub(crate) struct Seen<'a> {
    pub(crate) deeds: &'a [Deed],
    /// The packet's ends and its protocol.
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) protocol: u8,
    /// The connection that it was of before, and the one that it is of then.
    pub(crate) before: Option<Known>,
    pub(crate) after: Option<Known>,
    /// The interface that it is at; none: it is a process's.
    pub(crate) interface: Option<u32>,
    /// True if it goes out there.
    pub(crate) is_leaving: bool,
}

/// One run of a program.
pub(crate) struct Run<'a> {
    pub(crate) dump: &'a Dump,
    pub(crate) programs: &'a Programs,
    pub(crate) seen: &'a Seen<'a>,
}

/// A look into a table.
struct Look<'a> {
    name: &'static str,
    key: &'a [u8],
    found: bool,
}

impl Run<'_> {
    fn looks(&self) -> impl Iterator<Item = Look<'_>> {
        self.seen.deeds.iter().filter_map(|deed| match deed {
            Deed::Lookup { table, key, found } => Some(Look {
                name: self.programs.name_of(*table)?,
                key,
                found: *found,
            }),
            _ => None,
        })
    }

    fn looked(&self, name: &str) -> Option<bool> {
        let looks = self.looks().filter(|look| look.name == name);
        looks.last().map(|look| look.found)
    }

    /// Returns whether a connection began.
    fn has_begun(&self) -> bool {
        let ends = |known: Known| (known.client, known.source, known.backend);
        self.seen.after.is_some() && self.seen.after.map(ends) != self.seen.before.map(ends)
    }

    /// The steps that it took.
    pub(crate) fn steps<F: Shown>(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let frontends: Vec<Found> = self
            .looks()
            .filter(|look| look.name == F::MAPS.frontends.name && look.found)
            .filter_map(|look| tables::frontend::<F>(self.programs, look.key))
            .collect();
        let asked = self.looked(F::MAPS.frontends.name).is_some();
        // A backend's packet may be looked up as a client's, too.
        let is_new = self
            .seen
            .before
            .is_none_or(|known| asked && !known.is_reply);
        // What goes out is looked at for being a reply, or half translated.
        if !(is_new && self.seen.is_leaving) {
            self.connection(is_new, &mut steps);
        }
        if is_new && !self.seen.is_leaving {
            self.frontend::<F>(&frontends, &mut steps);
        }
        self.source::<F>(frontends.last(), &mut steps);
        self.routes(&mut steps);
        steps.extend(self.counters());
        steps
    }

    fn connection(&self, is_new: bool, steps: &mut Vec<Step>) {
        match &self.seen.before {
            Some(known) if !is_new => steps.push(Step::Connection {
                client: known.client,
                frontend: known.frontend,
                source: known.source,
                backend: known.backend,
                state: state(known),
                is_reply: known.is_reply,
            }),
            Some(known) => steps.push(Step::Replaced {
                backend: known.backend,
            }),
            None if self.seen.interface.is_some() => steps.push(Step::NoConnection),
            None => {}
        }
    }

    fn frontend<F: Shown>(&self, frontends: &[Found], steps: &mut Vec<Step>) {
        let Some(first) = frontends.first() else {
            steps.push(Step::NoFrontend {
                address: self.seen.to,
            });
            return;
        };
        let named = self.named(first.address);
        steps.push(Step::Frontend {
            address: first.address,
            service: named.map(|named| named.service.clone()),
            service_port: named.map(|named| named.service_port.clone()),
            kind: named.map(|named| named.kind.clone()),
            is_dsr: first.cell.has(Cell::DSR),
            split: named.map_or_else(Vec::new, split),
        });
        if let Some(is_in) = self.looked(F::MAPS.source_ranges.name) {
            steps.push(Step::SourceRanges { is_in });
            if !is_in {
                return;
            }
        }
        if self.chosen::<F>().is_none() && first.cell.has(Cell::THIS_NODE_ONLY) {
            steps.push(Step::NotForClient);
            return;
        }
        let last = frontends.last().unwrap_or(first);
        let (shares, seconds) = tables::shares::<F>(self.programs, last.cell);
        let refused = shares.0.get(&Slot::REFUSED).copied().unwrap_or(0.0);
        let members = shares.0.iter().filter_map(|(index, share)| {
            let target = tables::target::<F>(self.programs, *index)?;
            Some(Member {
                address: target.address,
                share: *share,
                weight: target.weight,
                is_local: target.is_local,
            })
        });
        steps.push(Step::Set {
            set: if last.cell.has(Cell::LOCAL_SET)
                || last.is_of_this_node && last.cell.has(Cell::DSR)
            {
                Set::Local
            } else {
                Set::Cluster
            },
            why: why(named, first.cell, last),
            backends: members.collect(),
            refused,
        });
        let had = self.looked(F::MAPS.affinity.name);
        let chosen = self.chosen::<F>();
        let stays = seconds > 0 && had.is_some();
        let last_choice = had == Some(true) && !self.is_remembered::<F>();
        if stays {
            steps.push(Step::Affinity {
                seconds,
                is_known: last_choice,
            });
        }
        if let Some(target) = chosen {
            steps.push(Step::Choice {
                backend: target.address,
                is_local: target.is_local,
                how: if last_choice {
                    How::Affinity
                } else if last.cell.has(Cell::MAGLEV) {
                    How::Maglev
                } else if self
                    .seen
                    .deeds
                    .iter()
                    .any(|deed| matches!(deed, Deed::Draw(_)))
                {
                    How::Drawn
                } else {
                    How::ByPacket
                },
            });
        }
    }

    /// Returns whether the client got a backend anew that it stays with: the programs look twice then, or what they
    /// remember is of now.
    fn is_remembered<F: Shown>(&self) -> bool {
        let looks = self
            .looks()
            .filter(|look| look.name == F::MAPS.affinity.name);
        let entry = looks.last().and_then(|look| {
            tables::value::<shunt_common::AffinityEntry>(self.programs, look.name, look.key)
        });
        let table = self.dump.tables.get(F::MAPS.affinity.name);
        let known = self
            .looks()
            .filter(|look| look.name == F::MAPS.affinity.name);
        let before = known
            .last()
            .and_then(|look| table?.entries.get(look.key))
            .and_then(|bytes| {
                bytemuck::try_pod_read_unaligned::<shunt_common::AffinityEntry>(bytes).ok()
            });
        entry.map(|entry| (entry.backend, entry.generation))
            != before.map(|entry| (entry.backend, entry.generation))
    }

    /// The backend that was chosen: of the connection that is open now, or the last one that was looked at.
    pub(crate) fn chosen<F: Shown>(&self) -> Option<tables::Target> {
        if let Some(after) = self.seen.after.filter(|_| self.has_begun()) {
            return tables::target::<F>(self.programs, after.index)
                .filter(|target| target.address == after.backend);
        }
        let is_refused = self.counted(Counter::RejectNoBackend)
            || self.counted(Counter::DropNoBackend)
            || self.counted(Counter::SocketReject)
            || self.counted(Counter::SocketDrop);
        let looks = self
            .looks()
            .filter(|look| !is_refused && look.found && look.name == F::MAPS.backends.name);
        let index = looks.last()?.key.try_into().ok()?;
        tables::target::<F>(self.programs, u32::from_ne_bytes(index))
    }

    /// From where the packet goes on, and why.
    fn source<F: Shown>(&self, last: Option<&Found>, steps: &mut Vec<Step>) {
        let Some(after) = self.seen.after.filter(|_| self.has_begun()) else {
            return;
        };
        if after.is_reply || after.client != self.seen.from {
            return;
        }
        let hairpin = self.dump.constants.get(F::CONSTANTS.hairpin_ip.name);
        let hairpin: Option<F::Address> =
            hairpin.and_then(|bytes| bytemuck::try_pod_read_unaligned(bytes).ok());
        let own = tables::own_addresses::<F>(self.programs);
        let client = F::address(after.client.ip());
        let of_pods = self.dump.constants.get(F::CONSTANTS.pod_cidrs.name);
        let is_here = own.contains(&after.client.ip())
            || client.is_some_and(|client| tables::is_in::<F>(of_pods.map(Vec::as_slice), client))
            || self.is_pod_interface();
        let is_local =
            tables::target::<F>(self.programs, after.index).is_some_and(|it| it.is_local);
        let masquerades = self.is_set(registry::MASQUERADE_ALL.name);
        let is_masqueraded = is_local && last.is_some_and(|last| last.cell.has(Cell::MASQUERADE));
        let (change, why) = if Some(after.source.ip()) == hairpin.map(F::ip) {
            (
                SourceChange::Hairpin,
                "a pod reaches itself through its service",
            )
        } else if after.source.ip() == after.client.ip() {
            let why = if is_masqueraded && !is_here {
                "the frontend is masqueraded, but the backend's interface has no programs for the replies"
            } else if is_local {
                "the backend is on this node, where its replies come by"
            } else if is_here {
                "the client is on this node, where replies come by"
            } else {
                "replies come back through this node"
            };
            (SourceChange::Kept, why)
        } else {
            let why = if masquerades && last.is_some_and(|last| last.cell.has(Cell::CLUSTER_IP)) {
                "all connections to ClusterIPs are masqueraded"
            } else if is_masqueraded {
                "the frontend's connections from outside are masqueraded"
            } else if !is_local && !is_here {
                "the client is outside and the backend on another node, which would answer past this one"
            } else {
                "replies would not come back through this node"
            };
            (SourceChange::Snat, why)
        };
        steps.push(Step::Source {
            source: after.source,
            change,
            why: why.to_owned(),
        });
    }

    fn is_pod_interface(&self) -> bool {
        let index = self.seen.interface;
        index.is_some_and(|index| {
            let role = InterfaceRole::of_pods(index);
            self.dump.has(registry::INTERFACES, bytes_of(&role))
        })
    }

    fn is_set(&self, name: &str) -> bool {
        let value = self.dump.constants.get(name);
        value.is_some_and(|value| value.iter().any(|byte| *byte != 0))
    }

    fn routes(&self, steps: &mut Vec<Step>) {
        let fib = Fib(self.dump);
        for deed in self.seen.deeds {
            let Deed::Route {
                destination,
                answer,
                interface,
            } = deed
            else {
                continue;
            };
            let to = match **destination {
                [a, b, c, d] => [a, b, c, d].into(),
                ref bytes => match <[u8; 16]>::try_from(bytes) {
                    Ok(bytes) => bytes.into(),
                    Err(_) => continue,
                },
            };
            let source = self
                .seen
                .after
                .map_or(self.seen.from.ip(), |known| known.source.ip());
            let from = self.seen.interface.unwrap_or(0);
            let found = fib.look_up(from, source, to).ok();
            let hop = found.and_then(|found| found.hop);
            let leads = matches!(
                *answer,
                result::SUCCESS | result::NO_NEIGHBOUR | result::TOO_LONG
            );
            let out = hop.map_or(*interface, |hop| hop.interface);
            let step = Step::Route {
                to,
                interface: fib
                    .interface(out)
                    .filter(|_| leads)
                    .map(|found| found.name.clone()),
                gateway: hop.filter(|_| leads).and_then(|hop| hop.gateway),
                mtu: found
                    .zip(hop)
                    .filter(|_| leads)
                    .map(|(found, hop)| fib.mtu(found.route, hop)),
                remark: remark(*answer, found.map_or(0, |found| found.others)),
            };
            if steps.last() != Some(&step) {
                steps.push(step);
            }
        }
    }

    fn counted(&self, counter: Counter) -> bool {
        let key = (counter as u32).to_ne_bytes();
        let mut looks = self.looks();
        looks.any(|look| look.name == registry::COUNTERS.name && look.key == key)
    }

    fn counters(&self) -> Vec<Step> {
        let counted = Counter::ALL
            .into_iter()
            .filter(|counter| self.counted(*counter));
        counted
            .map(|counter| Step::Counter {
                name: counter.name().to_owned(),
            })
            .collect()
    }

    fn named(&self, address: SocketAddr) -> Option<&Frontend> {
        self.dump.frontends.iter().find(|frontend| {
            frontend.address == address.ip()
                && frontend.port == address.port()
                && frontend.protocol == self.seen.protocol
        })
    }
}

fn split(named: &Frontend) -> Vec<(String, u32)> {
    let text = |share: &Share| {
        let target = match (&share.service, share.address) {
            (Some((service, port)), _) => format!("{service}:{port}"),
            (None, Some(address)) => address.to_string(),
            (None, None) => "nobody".to_owned(),
        };
        (target, share.weight)
    };
    named.split.iter().map(text).collect()
}

/// Why this set.
fn why(named: Option<&Frontend>, first: Cell, last: &Found) -> String {
    let policy = named.map(|named| named.policy.as_str());
    let text = if last.is_of_this_node && first.has(Cell::TWO_SETS) {
        "the client is on this node, which policy Local serves as Cluster"
    } else if last.is_with_draining {
        "no node knows its connection, which it cannot begin: it may be one to a backend that is draining"
    } else if last.is_of_this_node {
        "it has come to this node to be served by its own backends"
    } else if last.cell.has(Cell::LOCAL_SET) {
        "the service's policy for such clients is Local"
    } else if policy == Some("Local") {
        "its policy is Local"
    } else {
        "its policy is Cluster"
    };
    text.to_owned()
}

fn remark(answer: i64, others: usize) -> Option<String> {
    let text = match answer {
        result::SUCCESS if others > 0 => {
            return Some(format!(
                "the kernel takes one of {} ways by a hash of the packet",
                others + 1
            ));
        }
        result::SUCCESS => return None,
        result::BLACKHOLE => "the route is a blackhole",
        result::UNREACHABLE => "the route says unreachable",
        result::PROHIBIT => "the route says prohibited",
        result::NOT_FORWARDED => "it is not forwarded: it is this node's own, or there is no route",
        result::FORWARDING_DISABLED => "forwarding is off on the interface that it came in by",
        result::ENCAPSULATED => {
            "the kernel puts packets into others there: the stack has to send it"
        }
        result::NO_NEIGHBOUR => {
            "the next hop's link address is not known yet: the kernel finds it out"
        }
        result::TOO_LONG => "the packet is longer",
        _ => "the kernel does not answer that",
    };
    Some(text.to_owned())
}

fn state(known: &Known) -> String {
    let text = match known.phase {
        Phase::SynSent => "SYN_SENT",
        Phase::SynReceived => "SYN_RECV",
        Phase::PickedUp | Phase::SctpOpening => "NEW",
        Phase::Established | Phase::SctpEstablished => "ESTABLISHED",
        Phase::Closing | Phase::SctpClosing => "CLOSING",
        Phase::Closed | Phase::SctpClosed => "CLOSED",
        Phase::TimeWait => "TIME_WAIT",
        Phase::Unreplied => "UNREPLIED",
        Phase::Replied => "REPLIED",
        Phase::Lasting => "ASSURED",
    };
    text.to_owned()
}
