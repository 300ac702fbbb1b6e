//! A packet's way over the node: XDP, TC ingress, the stack, TC egress.

use std::{net::SocketAddr, sync::Arc};

use bytemuck::bytes_of;
use shunt_common::{InterfaceRole, V4, V6, registry};
use shunt_programs::{Arrival, Deed, How, Outcome, Programs, Verdict};

use crate::{
    dump::{content::Interface, record::Dump},
    trace::{
        answers::{Random, Told},
        connections::{Known, Reader, Shown, tuple},
        error::TraceError,
        explain::{Run, Seen},
        fib::Fib,
        frame::relink,
        read::Read,
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
    /// True if the steps are wanted, beside how it ends.
    pub(crate) is_told: bool,
    /// Steps so far.
    pub(crate) steps: Vec<Step>,
    /// The backend that got it, if one did.
    pub(crate) backend: Option<SocketAddr>,
    /// Tag that the last program left with the packet.
    tag: u16,
    /// The index of the interface that it came in by; 0: it is a process's.
    came_by: u32,
}

/// Later packets come so many nanoseconds after the one before: what is limited by time is not to be
/// limited by questions.
const PACE: u64 = 1_000_000_000;

/// Maximum number of programs that a packet may meet: more than any way has.
const MOST: usize = 8;

/// Place of a packet.
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
            came_by: 0,
        }
    }

    pub(super) fn fib(&self) -> Fib<'a> {
        Fib(self.dump)
    }

    pub(super) fn told(&mut self, namespace: u64) -> Told {
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

    fn has_programs(&self, interface: &Interface) -> bool {
        let role = InterfaceRole::attached(interface.index);
        self.dump.has(registry::INTERFACES, bytes_of(&role))
    }

    fn is_uplink(&self, interface: &Interface) -> bool {
        self.dump.has(registry::UPLINKS, bytes_of(&interface.index))
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
        self.came_by = interface.index;
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
                Place::Driver(interface) if self.is_uplink(interface) => {
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
                    if !self.has_programs(interface) {
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
                    if !self.has_programs(interface) {
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
                            // The kernel replaces the link's header, which there is by now.
                            frame = relink(&outcome.frame, true, out);
                            is_ethernet = out.is_ethernet;
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
            came_by: self.came_by,
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
            && let Some((from, to)) = read.ends()
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
        let (from, to) = read.ends()?;
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

    pub(super) fn explain(&mut self, seen: &Seen<'_>) {
        let run = Run {
            dump: self.dump,
            programs: self.programs,
            seen,
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

    /// Returns what follows from a verdict.
    fn after(&mut self, hook: Hook, interface: &'a Interface, outcome: &Outcome) -> Next<'a> {
        let read = Read::of_frame(&outcome.frame, interface.is_ethernet);
        if let Some(read) = read.as_ref().filter(|_| outcome.verdict != Verdict::Drop) {
            if let Some(inner) = read.inner.as_deref().filter(|_| read.is_envelope()) {
                self.steps.push(Step::Envelope {
                    from: read.source,
                    to: read.destination,
                });
                self.steps.push(Step::Packet {
                    packet: inner.to_string(),
                });
            } else {
                self.steps.push(Step::Packet {
                    packet: read.to_string(),
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
            Verdict::Send => self.sent(hook, interface, &outcome.deeds, is_told),
            Verdict::Other(number) => (format!("the program returns {number}"), Next::On),
        };
        self.steps.push(Step::Verdict { verdict });
        next
    }

    fn sent(
        &self,
        hook: Hook,
        interface: &'a Interface,
        deeds: &[Deed],
        is_told: bool,
    ) -> (String, Next<'a>) {
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
            How::ToNeighbour if hook == Hook::Egress => {
                format!("sent to {name}, by the route from the address that it has now")
            }
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
}

/// Returns the backend that a run has chosen, and its steps if they are wanted.
fn follow<F: Shown>(run: &Run<'_>, is_told: bool) -> (Option<SocketAddr>, Vec<Step>) {
    let steps = if is_told {
        run.steps::<F>()
    } else {
        Vec::new()
    };
    (run.chosen::<F>().map(|target| target.address), steps)
}

/// Successor of a program.
enum Next<'a> {
    On,
    Out(&'a Interface),
    Over(End),
}
