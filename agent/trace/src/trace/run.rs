//! Outcome of a packet at a node.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::SocketAddr,
    sync::Arc,
};

use serde::Serialize;
use shunt_common::{TCP, UDP};
use shunt_programs::{Action, Call, Socket};

use crate::{
    dump::{
        content::{Interface, RouteKind},
        hex::Hex,
        record::Dump,
    },
    trace::{
        answers::Random,
        connections::Reader,
        error::TraceError,
        fib::Fib,
        frame::Made,
        journey::Journey,
        load::load,
        question::{Question, Transport},
        read::Read,
        stack::neighbour_of,
        step::{End, Step},
    },
};

/// Outcome of a packet at a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trace {
    /// The packet, in words.
    pub packet: String,
    /// Steps that would happen, in order.
    pub steps: Vec<Told>,
    /// End of the packet.
    pub end: End,
    /// The packet as it would leave or be delivered, as hexadecimal digits, with the link's header if it has one;
    /// none if none does.
    pub frame: Option<String>,
    /// Of several packets, how many each backend would get, and how they would end, the most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distribution: Vec<Part>,
    /// Facts that are not shown here, and might matter.
    pub remarks: Vec<String>,
}

/// A step, with its words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// In words.
    pub text: String,
}

/// A part of several packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Backend that would get them; none: no backend.
    pub backend: Option<SocketAddr>,
    /// End of these packets.
    pub end: End,
    /// Number of packets.
    pub packets: u32,
}

/// Returns the outcome of a packet at the node. Nothing is changed by it: programs and tables are copies.
///
/// # Errors
///
/// If there can be no such packet, or the dump is of another version of the tables.
pub fn trace(dump: &Arc<Dump>, question: &Question) -> Result<Trace, TraceError> {
    let origin = Origin::of(dump, question)?;
    let mut programs = load(dump)?;
    let reader = Reader::of(dump);
    let mut hasher = DefaultHasher::new();
    (question.from, question.from_port, question.to).hash(&mut hasher);
    let mut random = Random(hasher.finish());
    let mut first = None;
    let mut parts: BTreeMap<(Option<SocketAddr>, End), u32> = BTreeMap::new();
    for number in 0..question.count.max(1) {
        let mut journey = Journey::new(
            dump,
            &mut programs,
            &reader,
            Random(u64::from(random.next()) << 32 | u64::from(number)),
            number,
        );
        let port = port_after(question.from_port, number);
        let (packet, end, frame) = origin.go(&mut journey, question, port)?;
        let backend = journey.backend;
        *parts.entry((backend, end)).or_default() += 1;
        if first.is_none() {
            first = Some((packet, journey.steps, end, frame));
        }
    }
    let Some((packet, steps, end, frame)) = first else {
        unreachable!("there is one packet at least")
    };
    let told = |step: Step| Told {
        text: step.to_string(),
        step,
    };
    let mut distribution: Vec<Part> = parts
        .into_iter()
        .map(|((backend, end), packets)| Part {
            backend,
            end,
            packets,
        })
        .collect();
    distribution.sort_by_key(|part| std::cmp::Reverse(part.packets));
    if question.count <= 1 {
        distribution.clear();
    }
    Ok(Trace {
        packet,
        steps: steps.into_iter().map(told).collect(),
        end,
        frame,
        distribution,
        remarks: remarks(dump, &origin, question),
    })
}

/// The port of a later packet: none of those that are not given.
fn port_after(first: u16, number: u32) -> u16 {
    let ports = u32::from(u16::MAX) - 1023;
    if first < 1024 && number == 0 {
        return first;
    }
    let begin = u32::from(first).saturating_sub(1024);
    (1024 + (begin + number) % ports) as u16
}

/// From where a packet comes.
enum Origin<'a> {
    /// In by an interface.
    Interface(&'a Interface),
    /// A process's system call.
    Process { is_of_pod: bool },
    /// A process that no program sees.
    Unseen,
}

impl<'a> Origin<'a> {
    fn of(dump: &'a Dump, question: &Question) -> Result<Self, TraceError> {
        let Question {
            from,
            to,
            transport,
            interface,
            by_socket,
            ..
        } = question;
        if from.is_ipv4() != to.is_ipv4() {
            return Err(TraceError::Families(*from, to.ip()));
        }
        let fib = Fib(dump);
        let has_sockets = matches!(transport.number(), TCP | UDP);
        if *by_socket {
            if !has_sockets {
                return Err(TraceError::Socket(transport.number()));
            }
            return Ok(Self::Process {
                is_of_pod: !fib.is_own(*from),
            });
        }
        if let Some(name) = interface {
            let mut interfaces = dump.interfaces.iter();
            return interfaces
                .find(|found| found.name == *name)
                .map(Self::Interface)
                .ok_or_else(|| TraceError::NoInterface(name.clone()));
        }
        if fib.is_own(*from) {
            return Ok(
                if has_sockets && dump.node.sockets.mode != "off" && begins(*transport) {
                    Self::Process { is_of_pod: false }
                } else {
                    Self::Unseen
                },
            );
        }
        let no_way = || TraceError::NoWayBack(*from);
        let found = fib.look_up(1, to.ip(), *from).map_err(|_| no_way())?;
        if found.route.kind != RouteKind::Unicast {
            return Err(no_way());
        }
        let hop = found.hop.ok_or_else(no_way)?;
        fib.interface(hop.interface)
            .map(Self::Interface)
            .ok_or_else(no_way)
    }

    /// Sends a packet on its way.
    fn go(
        &self,
        journey: &mut Journey<'a>,
        question: &Question,
        port: u16,
    ) -> Result<(String, End, Option<String>), TraceError> {
        let mut made = Made {
            from: SocketAddr::new(question.from, port),
            to: question.to,
            transport: question.transport,
            length: question.length,
        };
        match self {
            Self::Interface(interface) => {
                let neighbour = neighbour_of(journey.dump, interface, question.from);
                let frame = made.frame(interface, neighbour)?;
                let text = in_words(&frame, interface.is_ethernet, question.transport);
                let text = format!("{text}, in by {}", interface.name);
                let (end, frame) = journey.arrive(interface, frame)?;
                Ok((text, end, shown_frame(end, &frame)))
            }
            Self::Process { is_of_pod } => {
                let is_tcp = matches!(question.transport, Transport::Tcp(_));
                let call = Call {
                    action: if is_tcp {
                        Action::Connect
                    } else {
                        Action::Send
                    },
                    socket: Socket::new(question.transport.number(), question.from),
                    to: question.to,
                };
                let text = format!(
                    "a process {} at {} {} {}",
                    if *is_of_pod {
                        "of a pod"
                    } else {
                        "of this node"
                    },
                    question.from,
                    if is_tcp {
                        "connects to"
                    } else {
                        "sends a datagram to"
                    },
                    question.to
                );
                let (end, to) = journey.call(&call, *is_of_pod);
                let Some(to) = to.filter(|_| !*is_of_pod) else {
                    return Ok((text, end, None));
                };
                made.to = to;
                let (end, frame) = journey.leave(made.frame(&NO_LINK, None)?)?;
                Ok((text, end, shown_frame(end, &frame)))
            }
            Self::Unseen => {
                let frame = made.frame(&NO_LINK, None)?;
                let text = in_words(&frame, false, question.transport);
                let (end, frame) = journey.leave(frame)?;
                Ok((
                    format!("{text}, from a process of this node"),
                    end,
                    shown_frame(end, &frame),
                ))
            }
        }
    }
}

/// As a packet is that has no link yet.
const NO_LINK: Interface = Interface {
    index: 0,
    name: String::new(),
    mtu: 0xffff,
    is_ethernet: false,
    is_up: true,
    link_address: None,
    addresses: Vec::new(),
    forwards_v4: true,
    forwards_v6: true,
};

/// Returns whether a socket would send it first.
const fn begins(transport: Transport) -> bool {
    match transport {
        Transport::Tcp(flags) => flags.0 & 0b1_0111 == 2,
        Transport::Udp => true,
        Transport::Sctp => false,
    }
}

fn in_words(frame: &[u8], is_ethernet: bool, transport: Transport) -> String {
    let read = Read::of_frame(frame, is_ethernet);
    let text = read.map(|read| read.to_string()).unwrap_or_default();
    match transport {
        Transport::Tcp(flags) => format!("{text}, {flags}"),
        Transport::Udp => text,
        Transport::Sctp => format!("{text}, INIT"),
    }
}

fn shown_frame(end: End, frame: &[u8]) -> Option<String> {
    let is_there = matches!(end, End::Leaves | End::Delivered | End::Rejected);
    is_there.then(|| Hex(frame.to_vec()).to_string())
}

fn remarks(dump: &Dump, origin: &Origin<'_>, question: &Question) -> Vec<String> {
    let mut remarks = Vec::new();
    if dump.rules.iter().any(|rule| rule.has_more) {
        remarks.push(
            "some routing rules ask for more than addresses and interfaces: these are left out"
                .to_owned(),
        );
    }
    let is_socket = dump.node.sockets.mode == "all" && matches!(origin, Origin::Interface(_));
    if is_socket && begins(question.transport) && matches!(question.transport, Transport::Tcp(_)) {
        remarks.push(
            "a pod's process that connects is translated at its socket before there is a packet: ask with --process"
                .to_owned(),
        );
    }
    remarks
}
