//! A packet's way over the node: XDP, TC ingress, the stack, TC egress; or a system call and what follows it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use shunt_common::{TCP, UDP, V4, V6, registry};
use shunt_programs::{Action, Arrival, Call, CallOutcome, Deed, How, Outcome, Programs, Verdict};

use crate::{
    dump::{
        content::{Interface, LinkAddress, RouteKind},
        record::Dump,
    },
    trace::{
        answers::{Random, Told},
        connections::{Known, Reader, Shown, tuple},
        error::TraceError,
        explain::Run,
        fib::Fib,
        frame::{Read, relink, take_hop},
        step::{End, Hook, Step},
    },
};

/// A packet on its way.
pub(crate) struct Journey<'a> {
    pub(crate) dump: &'a Arc<Dump>,
    pub(crate) programs: &'a mut Programs,
    pub(crate) reader: &'a Reader,
    pub(crate) random: Random,
    pub(crate) later: u64,
    /// Whether the steps are wanted, beside how it ends.
    pub(crate) is_told: bool,
    /// What happened.
    pub(crate) steps: Vec<Step>,
    /// The backend that got it, if one did.
    pub(crate) backend: Option<SocketAddr>,
    /// What the last program left with the packet.
    tag: u16,
}

/// Later packets come so many nanoseconds after the one before: what is limited by time is not to be
/// limited by questions.
const PACE: u64 = 1_000_000_000;

/// How often a packet may meet a program: more than any way has.
const MOST: usize = 8;

/// Where a packet is.
enum Place<'a> {
    Driver(&'a Interface),
    Ingress(&'a Interface),
    /// In the stack, come by this interface; none: it is of a process.
    Stack(Option<&'a Interface>),
    Egress(&'a Interface),
}

impl<'a> Journey<'a> {
    pub(crate) const fn new(
        dump: &'a Arc<Dump>,
        programs: &'a mut Programs,
        reader: &'a Reader,
        random: Random,
        number: u32,
    ) -> Self {
        Self {
            dump,
            programs,
            reader,
            random,
            later: number as u64 * PACE,
            is_told: number == 0,
            steps: Vec::new(),
            backend: None,
            tag: 0,
        }
    }

    fn fib(&self) -> Fib<'a> {
        Fib(self.dump)
    }

    fn told(&mut self, namespace: u64) -> Told {
        let random = self.random.clone();
        // What follows draws others.
        self.random.next();
        Told {
            dump: Arc::clone(self.dump),
            random,
            later: self.later,
            namespace,
        }
    }

    fn has(&self, table: registry::Map, interface: &Interface) -> bool {
        let table = self.dump.tables.get(table.name);
        table.is_some_and(|table| {
            table
                .entries
                .contains_key(interface.index.to_ne_bytes().as_slice())
        })
    }

    /// Follows a frame that comes in by an interface.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub(crate) fn arrive(
        &mut self,
        interface: &'a Interface,
        frame: Vec<u8>,
    ) -> Result<(End, Vec<u8>), TraceError> {
        self.follow(Place::Driver(interface), frame, interface.is_ethernet)
    }

    /// Follows a packet that a process sends.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub(crate) fn leave(&mut self, packet: Vec<u8>) -> Result<(End, Vec<u8>), TraceError> {
        self.follow(Place::Stack(None), packet, false)
    }

    fn follow(
        &mut self,
        mut place: Place<'a>,
        mut frame: Vec<u8>,
        mut is_ethernet: bool,
    ) -> Result<(End, Vec<u8>), TraceError> {
        for _ in 0..MOST {
            place = match place {
                Place::Driver(interface) if self.has(registry::UPLINKS, interface) => {
                    let outcome = self.run(Hook::Xdp, interface, &frame)?;
                    match self.after(Hook::Xdp, interface, &outcome) {
                        Next::Over(end) => return Ok((end, outcome.frame)),
                        // What a driver sends meets no other program of this node.
                        Next::Out(_) => return Ok((End::Leaves, outcome.frame)),
                        Next::On => {
                            frame = outcome.frame;
                            Place::Ingress(interface)
                        }
                    }
                }
                Place::Driver(interface) => Place::Ingress(interface),
                Place::Ingress(interface) => {
                    if !self.has(registry::ATTACHED, interface) {
                        self.steps.push(Step::NoProgram {
                            interface: interface.name.clone(),
                            hook: Hook::Ingress,
                        });
                        place = Place::Stack(Some(interface));
                        continue;
                    }
                    let outcome = self.run(Hook::Ingress, interface, &frame)?;
                    self.tag = outcome.tag;
                    match self.after(Hook::Ingress, interface, &outcome) {
                        Next::Over(end) => return Ok((end, outcome.frame)),
                        Next::On => {
                            frame = outcome.frame;
                            Place::Stack(Some(interface))
                        }
                        Next::Out(out) => {
                            frame = outcome.frame;
                            is_ethernet = interface.is_ethernet;
                            Place::Egress(out)
                        }
                    }
                }
                Place::Stack(from) => match self.route(from, &mut frame, is_ethernet) {
                    Ok(out) => {
                        frame = relink(&frame, is_ethernet, out);
                        is_ethernet = out.is_ethernet;
                        Place::Egress(out)
                    }
                    Err(end) => return Ok((end, frame)),
                },
                Place::Egress(interface) => {
                    if !self.has(registry::ATTACHED, interface) {
                        self.steps.push(Step::NoProgram {
                            interface: interface.name.clone(),
                            hook: Hook::Egress,
                        });
                        return Ok((End::Leaves, frame));
                    }
                    let outcome = self.run(Hook::Egress, interface, &frame)?;
                    self.tag = outcome.tag;
                    match self.after(Hook::Egress, interface, &outcome) {
                        Next::Over(end) => return Ok((end, outcome.frame)),
                        Next::On => return Ok((End::Leaves, outcome.frame)),
                        Next::Out(out) => {
                            frame = outcome.frame;
                            Place::Egress(out)
                        }
                    }
                }
            };
        }
        Ok((End::Leaves, frame))
    }

    /// Runs a program, and takes note of what it did.
    fn run(
        &mut self,
        hook: Hook,
        interface: &Interface,
        frame: &[u8],
    ) -> Result<Outcome, TraceError> {
        self.steps.push(Step::Hook {
            interface: Some(interface.name.clone()),
            hook,
        });
        let read = Read::of_frame(frame, interface.is_ethernet);
        let before = read.as_ref().and_then(|read| self.known(read));
        let arrival = Arrival {
            frame,
            interface: interface.index,
            is_ethernet: interface.is_ethernet,
            kind: 0,
            tag: self.tag,
        };
        let told = Box::new(self.told(0));
        let outcome = match hook {
            Hook::Xdp => self.programs.driver(&arrival, told),
            Hook::Ingress | Hook::Connect | Hook::Sendmsg => self.programs.ingress(&arrival, told),
            Hook::Egress => self.programs.egress(&arrival, told),
        }?;
        if let Some(read) = read
            && let Some((from, to)) = ends(&read)
        {
            let after = self.known(&read);
            self.explain(&Seen {
                deeds: &outcome.deeds,
                from,
                to,
                protocol: read.protocol,
                before: before.filter(|known| !known.is_over || known.is_reply),
                after,
                interface: Some(interface.index),
                is_leaving: hook == Hook::Egress,
            });
        }
        Ok(outcome)
    }

    fn known(&self, read: &Read) -> Option<Known> {
        let (from, to) = ends(read)?;
        if from.is_ipv4() {
            self.known_of::<V4>(from, to, read.protocol)
        } else {
            self.known_of::<V6>(from, to, read.protocol)
        }
    }

    fn known_of<F: Shown>(&self, from: SocketAddr, to: SocketAddr, protocol: u8) -> Option<Known> {
        let tuple = tuple::<F>(from, to)?;
        self.reader.find(self.programs, &tuple, protocol)
    }

    fn explain(&mut self, seen: &Seen<'_>) {
        let run = Run {
            dump: self.dump,
            programs: self.programs,
            deeds: seen.deeds,
            from: seen.from,
            to: seen.to,
            protocol: seen.protocol,
            before: seen.before,
            after: seen.after,
            interface: seen.interface,
            is_leaving: seen.is_leaving,
        };
        let of_connection = seen.after.filter(|known| !known.is_reply);
        let of_connection = of_connection.map(|known| known.backend);
        let (chosen, steps) = if seen.to.is_ipv4() {
            follow::<V4>(&run, self.is_told)
        } else {
            follow::<V6>(&run, self.is_told)
        };
        if !seen.is_leaving {
            self.backend = of_connection.or(chosen).or(self.backend);
        }
        self.steps.extend(steps);
    }

    /// What follows from a verdict.
    fn after(&mut self, hook: Hook, interface: &'a Interface, outcome: &Outcome) -> Next<'a> {
        let read = Read::of_frame(&outcome.frame, interface.is_ethernet);
        if let Some(read) = read.as_ref().filter(|_| outcome.verdict != Verdict::Drop) {
            if let Some(inner) = read.inner.as_deref().filter(|_| read.is_envelope()) {
                self.steps.push(Step::Envelope {
                    from: read.source,
                    to: read.destination,
                });
                self.steps.push(Step::Packet {
                    packet: shown(inner),
                });
            } else {
                self.steps.push(Step::Packet {
                    packet: shown(read),
                });
            }
        }
        let is_told = read.is_some_and(|read| matches!(read.message, Some((3 | 1 | 2 | 11, _))));
        let (verdict, next) = match outcome.verdict {
            Verdict::Pass if hook == Hook::Xdp => ("on to TC".to_owned(), Next::On),
            Verdict::Pass if hook == Hook::Egress => {
                (format!("out by {}", interface.name), Next::On)
            }
            Verdict::Pass => ("on to the kernel's stack".to_owned(), Next::On),
            Verdict::Drop => ("dropped".to_owned(), Next::Over(End::Dropped)),
            Verdict::Back => {
                let end = if is_told { End::Rejected } else { End::Leaves };
                (format!("back out by {}", interface.name), Next::Over(end))
            }
            Verdict::Send => self.sent(interface, &outcome.deeds, is_told),
            Verdict::Other(number) => (format!("the program returns {number}"), Next::On),
        };
        self.steps.push(Step::Verdict { verdict });
        next
    }

    fn sent(&self, interface: &'a Interface, deeds: &[Deed], is_told: bool) -> (String, Next<'a>) {
        let sent = deeds.iter().rev().find_map(|deed| match deed {
            Deed::Send { interface, how } => Some((*interface, *how)),
            _ => None,
        });
        let Some((index, how)) = sent else {
            return ("sent".to_owned(), Next::Over(End::Leaves));
        };
        let out = self.fib().interface(index);
        let name = out.map_or_else(|| format!("interface {index}"), |out| out.name.clone());
        if is_told {
            let text = format!("an ICMP error goes back to its sender by {name}");
            return (text, Next::Over(End::Rejected));
        }
        let text = match how {
            How::ToPeer => format!("handed to the other end of {name}, past the stack"),
            How::ToNeighbour => format!("sent out by {name} to the next hop, past the stack"),
            How::AsItIs if index == interface.index => {
                format!("sent back out by {name}, past the stack")
            }
            How::AsItIs => format!("sent out by {name}, past the stack"),
        };
        let next = match (how, out) {
            (How::ToPeer, _) | (_, None) => Next::Over(End::Leaves),
            (_, Some(out)) => Next::Out(out),
        };
        (text, next)
    }

    /// What the kernel's stack does with a packet.
    fn route(
        &mut self,
        from: Option<&Interface>,
        frame: &mut [u8],
        is_ethernet: bool,
    ) -> Result<&'a Interface, End> {
        let Some(read) = Read::of_frame(frame, is_ethernet) else {
            return Err(End::Dropped);
        };
        let to = read.destination;
        // Of a process, what it sends is routed as if it came by the loopback interface.
        let index = from.map_or(1, |from| from.index);
        let fib = self.fib();
        let found = match fib.look_up(index, read.source, to) {
            Ok(found) => found,
            Err(kind) => {
                let fate = match kind {
                    RouteKind::Blackhole => "its route is a blackhole",
                    RouteKind::Prohibit => "its route says prohibited",
                    RouteKind::Unreachable => "its route says unreachable",
                    _ => "there is no route to its destination",
                };
                return Err(self.fate(fate.to_owned(), End::Dropped));
            }
        };
        if matches!(found.route.kind, RouteKind::Local | RouteKind::Anycast) {
            let text = format!("it is for this node: {}", shown(&read));
            return Err(self.fate(text, End::Delivered));
        }
        let Some((hop, out)) = found
            .hop
            .and_then(|hop| Some((hop, fib.interface(hop.interface)?)))
        else {
            return Err(self.fate(
                format!("nothing is done with packets to {to}"),
                End::Dropped,
            ));
        };
        let mtu = fib.mtu(found.route, hop);
        let next = hop.gateway.unwrap_or(to);
        let mut remark = None;
        if found.others > 0 {
            remark = Some(format!(
                "the kernel takes one of {} ways by a hash of the packet",
                found.others + 1
            ));
        } else if fib.neighbour(hop.interface, next).is_none() && out.name != "lo" {
            remark = Some(
                "the next hop's link address is not known yet: the kernel finds it out".to_owned(),
            );
        }
        self.steps.push(Step::Route {
            to,
            interface: Some(out.name.clone()),
            gateway: hop.gateway,
            mtu: Some(mtu),
            remark,
        });
        let Some(from) = from else {
            return Ok(out);
        };
        if !fib.forwards(from.index, to.is_ipv6()) {
            let text = format!("forwarding is off on {}: the packet is dropped", from.name);
            return Err(self.fate(text, End::Dropped));
        }
        if read.hop_limit <= 1 {
            let text = "the packet has come too far: its sender is told".to_owned();
            return Err(self.fate(text, End::Rejected));
        }
        if read.length as u64 > u64::from(mtu) && read.is_whole {
            let text = format!(
                "the packet of {} bytes is too long: its sender is told",
                read.length
            );
            return Err(self.fate(text, End::Rejected));
        }
        take_hop(frame, is_ethernet);
        self.steps.push(Step::Stack {
            fate: format!("forwarded to {}, if its rules (netfilter) let it", out.name),
        });
        Ok(out)
    }

    fn fate(&mut self, fate: String, end: End) -> End {
        self.steps.push(Step::Stack { fate });
        end
    }

    /// Follows a system call of a process: of the node itself, or of a pod. Gives how it ends, and the address
    /// that the socket goes on with.
    pub(crate) fn call(&mut self, call: &Call, is_of_pod: bool) -> (End, Option<SocketAddr>) {
        let hook = match call.action {
            Action::Connect => Hook::Connect,
            Action::Send => Hook::Sendmsg,
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
        let CallOutcome { to, error, deeds } = self.programs.call(call, told);
        self.explain(&Seen {
            deeds: &deeds,
            from: SocketAddr::new(call.bound, 0),
            to: call.to,
            protocol: call.protocol,
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

/// What a program was seen to do.
struct Seen<'a> {
    deeds: &'a [Deed],
    from: SocketAddr,
    to: SocketAddr,
    protocol: u8,
    before: Option<Known>,
    after: Option<Known>,
    interface: Option<u32>,
    is_leaving: bool,
}

/// Whom a run has chosen, and its steps if they are wanted.
fn follow<F: Shown>(run: &Run<'_>, is_told: bool) -> (Option<SocketAddr>, Vec<Step>) {
    let steps = if is_told {
        run.steps::<F>()
    } else {
        Vec::new()
    };
    (run.chosen::<F>().map(|target| target.address), steps)
}

/// What follows a program.
enum Next<'a> {
    On,
    Out(&'a Interface),
    Over(End),
}

/// The ends of a packet, or of that in its envelope.
fn ends(read: &Read) -> Option<(SocketAddr, SocketAddr)> {
    if let Some(inner) = read.inner.as_deref().filter(|_| read.is_envelope()) {
        return ends(inner);
    }
    let (from, to) = read.ports?;
    Some((
        SocketAddr::new(read.source, from),
        SocketAddr::new(read.destination, to),
    ))
}

/// A packet in words.
pub(crate) fn shown(read: &Read) -> String {
    if let Some((kind, code)) = read.message {
        let v4 = read.source.is_ipv4();
        let name = match (v4, kind, code) {
            (true, 3, 3) | (false, 1, 4) => "an ICMP error (port unreachable)",
            (true, 3, 4) | (false, 2, _) => "an ICMP error (too long)",
            (true, 11, _) | (false, 3, _) => "an ICMP error (come too far)",
            (true, 3, _) | (false, 1, _) => "an ICMP error (unreachable)",
            _ => "an ICMP message",
        };
        return format!("{name} from {} to {}", read.source, read.destination);
    }
    let protocol = match read.protocol {
        TCP => "TCP".to_owned(),
        UDP => "UDP".to_owned(),
        132 => "SCTP".to_owned(),
        other => format!("protocol {other}"),
    };
    match ends(read) {
        Some((from, to)) => format!("{protocol} from {from} to {to}, {} bytes", read.length),
        None => format!(
            "{protocol} from {} to {}, {} bytes",
            read.source, read.destination, read.length
        ),
    }
}

/// A neighbour's link address for a packet from this address.
pub(crate) fn neighbour_of(
    dump: &Dump,
    interface: &Interface,
    from: IpAddr,
) -> Option<LinkAddress> {
    let fib = Fib(dump);
    let next = fib
        .look_up(1, from, from)
        .ok()?
        .hop?
        .gateway
        .unwrap_or(from);
    fib.neighbour(interface.index, next)
}
