//! One case: operations become events and packets, which the model and the kernel both get.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    ops::AddAssign,
};

use super::{
    addresses::{self, BACKEND_IPS, CLIENT_IPS, CLIENT_PORTS, HAIRPIN, NODE, OTHER_NODE},
    cluster::{Backend, Endpoint, Event, Protocol, Service},
    kernel::Kernel,
    model::{ForbiddenChoice, Hook, Model, Verdict},
    operations::{Change, Operation, Pick, Shape, Tweak, Way, pick, scopes_of, sorted},
    packet::{Packet, describe},
};

/// How many flows are remembered to send packets of.
const FLOWS: usize = 24;

/// What was done, for people.
enum Step {
    Event(String, bool),
    Packet(Hook, Packet, Result<Verdict, String>),
    Pass(u32),
    Reclaim,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(line, true) => write!(f, "{line}"),
            Self::Event(line, false) => write!(f, "refused: {line}"),
            Self::Packet(hook, packet, verdict) => {
                write!(f, "{hook:?} {packet:?}\n     {}", outcome(verdict))
            }
            Self::Pass(seconds) => write!(f, "{seconds} s pass"),
            Self::Reclaim => write!(f, "a grace period"),
        }
    }
}

/// A flow that was opened some time, as its packets come in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Opened {
    protocol: Protocol,
    client: Endpoint,
    frontend: Endpoint,
    source: Endpoint,
    backend: Endpoint,
}

/// What a case has come to.
#[derive(Debug, Default)]
pub struct Compared {
    pub packets: u64,
    /// What the packets were, by the programs' counters.
    pub counters: BTreeMap<&'static str, u64>,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        let Self { packets, counters } = other;
        self.packets += packets;
        for (counter, count) in counters {
            *self.counters.entry(counter).or_default() += count;
        }
    }
}

/// A case under way.
pub struct Case<'a> {
    kernel: &'a mut Kernel,
    model: Model,
    opened: Vec<Opened>,
    steps: Vec<Step>,
    packets: u64,
}

impl<'a> Case<'a> {
    /// Begins with two nodes and nothing else.
    pub fn new(kernel: &'a mut Kernel) -> Self {
        let mut model = Model::default();
        let empty = Event::Resync(vec![NODE, OTHER_NODE], Vec::new());
        model.apply(&empty);
        kernel.clear(&empty.line());
        Self {
            kernel,
            model,
            opened: Vec::new(),
            steps: Vec::new(),
            packets: 0,
        }
    }

    /// Does all operations; gives how often what was compared, or the story of the first
    /// difference.
    pub fn run(mut self, operations: &[Operation]) -> Result<Compared, String> {
        let result = operations
            .iter()
            .try_for_each(|operation| self.step(operation))
            .and_then(|()| self.compare_counters());
        match result {
            Ok(()) => Ok(Compared {
                packets: self.packets,
                counters: self.model.counters().clone(),
            }),
            Err(difference) => Err(self.story(&difference)),
        }
    }

    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Packet(way, shape) => {
                let (hook, packet) = self.packet(way, shape);
                self.send(hook, packet)
            }
            Operation::Event(change) => {
                let Some(event) = self.event(change) else {
                    return Ok(());
                };
                // In a Resync, who gets a frontend gets the backends that are found there, and
                // the flows with them. Which ones those are is not modelled.
                while matches!(event, Event::Resync(..))
                    && let Some(loser) = self.model.cluster.loser(&event)
                {
                    self.tell(&Event::Delete(loser))?;
                }
                self.tell(&event)
            }
            Operation::Pass(seconds) => {
                self.model.flows.pass(*seconds);
                self.kernel.pass(*seconds);
                self.steps.push(Step::Pass(*seconds));
                Ok(())
            }
            Operation::Reclaim => {
                self.kernel.reclaim();
                self.steps.push(Step::Reclaim);
                Ok(())
            }
        }
    }

    fn tell(&mut self, event: &Event) -> Result<(), String> {
        let line = event.line();
        let (expected, applied) = (self.model.apply(event), self.kernel.apply(&line));
        self.steps.push(Step::Event(line, applied));
        if expected == applied {
            return Ok(());
        }
        Err(format!("the agent must apply the event: {expected}"))
    }

    fn send(&mut self, hook: Hook, packet: Packet) -> Result<(), String> {
        let verdict = self.kernel.run(hook, &packet.frame());
        self.packets += 1;
        let chosen = match &verdict {
            Ok(Verdict::Pass(frame) | Verdict::Redirect(frame)) => destination(frame),
            _ => None,
        };
        let expected = self.model.handle(hook, &packet, chosen);
        if hook == Hook::Ingress {
            self.note_flow(&packet);
        }
        let result = match expected {
            Ok(expected) if verdict.as_ref() == Ok(&expected) => Ok(()),
            Ok(expected) => Err(format!(
                "expected\n     {}\n{}",
                outcome(&Ok(expected.clone())),
                compare(&expected, &verdict)
            )),
            Err(ForbiddenChoice { chosen, allowed }) => Err(match chosen {
                Some(chosen) => format!("{chosen:?} may not be chosen, only {allowed:?}"),
                None => format!("one of {allowed:?} must be chosen"),
            }),
        };
        self.steps.push(Step::Packet(hook, packet, verdict));
        result
    }

    fn note_flow(&mut self, packet: &Packet) {
        let Some(flow) = self.model.flows.of_request(packet) else {
            return;
        };
        let opened = Opened {
            protocol: flow.protocol,
            client: flow.client,
            frontend: flow.frontend,
            source: flow.source,
            backend: flow.backend,
        };
        if !self.opened.contains(&opened) {
            if self.opened.len() == FLOWS {
                self.opened.remove(0);
            }
            self.opened.push(opened);
        }
    }

    fn compare_counters(&self) -> Result<(), String> {
        let (expected, counted) = (self.model.counters(), self.kernel.counters());
        if *expected == counted {
            return Ok(());
        }
        Err(format!("counted {counted:?},\nexpected {expected:?}"))
    }

    fn story(&self, difference: &str) -> String {
        let mut story = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = writeln!(story, "{:3}. {step}", number + 1);
        }
        let packets = self.packets;
        story + &format!("after {packets} packets: {difference}")
    }

    /// The event that a change is, if it is one now.
    fn event(&self, change: &Change) -> Option<Event> {
        let services = &self.model.cluster.services;
        let existing = |number: &Pick| -> Option<Service> {
            Some(services[pick(services.keys(), *number)?].clone())
        };
        let nodes = |this: bool, other: bool| {
            let this = this.then_some(NODE);
            this.into_iter()
                .chain(other.then_some(OTHER_NODE))
                .collect()
        };
        Some(match change {
            Change::Put {
                service,
                update: true,
            } => Event::Update(service.clone()),
            Change::Put { service, .. } => Event::Add(service.clone()),
            Change::Delete { service } => Event::Delete(existing(service)?.id),
            Change::Tweak { service, tweak } => {
                let mut service = existing(service)?;
                apply(tweak, &mut service);
                Event::Update(service)
            }
            Change::NodePorts {
                other_node,
                this_node,
                services,
            } => Event::NodePorts(nodes(*this_node, *other_node), services.clone()),
            Change::Resync {
                other_node,
                kept,
                services: new,
            } => {
                let replaced = |id| new.iter().any(|service| service.id == id);
                let old = services
                    .values()
                    .filter(|old| kept & 1 << old.id != 0 && !replaced(old.id));
                let all = old.chain(new).cloned().collect();
                Event::Resync(nodes(true, *other_node), all)
            }
        })
    }

    /// The packet that an operation is now, and where it comes in.
    fn packet(&self, way: &Way, shape: &Shape) -> (Hook, Packet) {
        let opened = |number: &Pick| pick(self.opened.iter().copied(), *number);
        let protocol = if shape.udp {
            Protocol::Udp
        } else {
            Protocol::Tcp
        };
        let (hook, (protocol, source, destination)) = match way {
            Way::ToFrontend { frontend, client } => {
                let keys = self.model.cluster.frontends.keys().copied();
                let any = (protocol, any_endpoint(*frontend));
                let (protocol, frontend) = pick(keys, *frontend).unwrap_or(any);
                (
                    Hook::Ingress,
                    (protocol, client_endpoint(*client), frontend),
                )
            }
            Way::Request { flow } => match opened(flow) {
                Some(flow) => (Hook::Ingress, (flow.protocol, flow.client, flow.frontend)),
                None => (Hook::Ingress, stray(protocol, *flow, *flow)),
            },
            Way::Reply { flow } => match opened(flow) {
                Some(flow) if flow.source.ip == HAIRPIN => {
                    (Hook::Ingress, (flow.protocol, flow.backend, flow.source))
                }
                Some(flow) => (Hook::Egress, (flow.protocol, flow.backend, flow.source)),
                None => (Hook::Egress, stray(protocol, *flow, *flow)),
            },
            Way::Elsewhere { flow, which } => match opened(flow) {
                Some(flow) => {
                    let (hook, source, destination) = match which {
                        0 => (Hook::Egress, flow.source, flow.backend),
                        1 => (Hook::Egress, flow.frontend, flow.client),
                        2 => (Hook::Egress, flow.client, flow.frontend),
                        3 => (Hook::Ingress, flow.backend, flow.source),
                        _ => (Hook::Egress, flow.backend, flow.source),
                    };
                    (hook, (flow.protocol, source, destination))
                }
                None => (Hook::Egress, stray(protocol, *flow, *flow)),
            },
            Way::Stray {
                egress,
                source,
                destination,
            } => {
                let hook = if *egress { Hook::Egress } else { Hook::Ingress };
                (hook, stray(protocol, *source, *destination))
            }
        };
        let Shape {
            udp: _,
            flags,
            checksum,
            ip_options,
            tcp_options,
            time_to_live,
            identification,
            payload,
            padding,
            damage,
        } = shape.clone();
        let packet = Packet {
            protocol,
            source,
            destination,
            flags,
            checksum,
            ip_options,
            tcp_options,
            time_to_live,
            identification,
            payload,
            padding,
            damage,
            turned: false,
        };
        (hook, packet)
    }
}

fn client_endpoint(number: Pick) -> Endpoint {
    let number = usize::from(number);
    Endpoint {
        ip: CLIENT_IPS[number % CLIENT_IPS.len()],
        port: CLIENT_PORTS[number / CLIENT_IPS.len() % CLIENT_PORTS.len()],
    }
}

fn any_endpoint(number: Pick) -> Endpoint {
    let ips = [
        &addresses::SERVICE_IPS[..],
        &BACKEND_IPS,
        &CLIENT_IPS,
        &[HAIRPIN],
    ]
    .concat();
    let ports = [
        &addresses::SERVICE_PORTS[..],
        &addresses::BACKEND_PORTS,
        &CLIENT_PORTS,
        &[0, 81],
    ]
    .concat();
    let number = usize::from(number);
    Endpoint {
        ip: ips[number % ips.len()],
        port: ports[number / ips.len() % ports.len()],
    }
}

fn stray(protocol: Protocol, source: Pick, destination: Pick) -> (Protocol, Endpoint, Endpoint) {
    (protocol, any_endpoint(source), any_endpoint(destination))
}

fn apply(tweak: &Tweak, service: &mut Service) {
    let change = |service: &mut Service, number: &Pick, change: &dyn Fn(&mut Backend)| {
        if let Some((port, at)) = place(service, *number) {
            let mut backends = service.ports[port].backends.iter_mut();
            if let Some(backend) = backends.find(|backend| backend.at == at) {
                change(backend);
            }
        }
    };
    match tweak {
        Tweak::Weight(number, weight) => {
            change(service, number, &|backend| backend.weight = *weight);
        }
        Tweak::State(number, state) => change(service, number, &|backend| backend.state = *state),
        Tweak::Scopes(number, bits) => change(service, number, &|backend| {
            backend.scopes = bits.map(|bits| scopes_of(bits, backend.local));
        }),
        Tweak::RemoveBackend(index) => {
            if let Some((port, at)) = place(service, *index) {
                let backends = &mut service.ports[port].backends;
                backends.retain(|backend| backend.at != at);
            }
        }
        Tweak::AddBackend(index, backend) => {
            let port = usize::from(*index) % service.ports.len();
            let backends = &mut service.ports[port].backends;
            backends.push(backend.clone());
            *backends = sorted(std::mem::take(backends));
        }
        Tweak::ExternalPolicy(policy) => service.external_policy = *policy,
        Tweak::InternalPolicy(policy) => service.internal_policy = *policy,
        Tweak::Exchange(index, backends) => {
            let port = usize::from(*index) % service.ports.len();
            service.ports[port].backends.clone_from(backends);
        }
    }
}

/// A backend of one of the service's ports.
fn place(service: &Service, number: Pick) -> Option<(usize, Endpoint)> {
    let ports = service.ports.iter().enumerate();
    let places = ports.flat_map(|(port, of_port)| {
        let backends = of_port.backends.iter();
        backends.map(move |backend| (port, backend.at))
    });
    pick(places, number)
}

/// The destination of an IPv4 frame with ports.
fn destination(frame: &[u8]) -> Option<Endpoint> {
    let ip: [u8; 4] = frame.get(30..34)?.try_into().ok()?;
    let port = 14 + 4 * usize::from(frame[14] & 15) + 2;
    let port = frame.get(port..port + 2)?.try_into().ok()?;
    Some(Endpoint::new(ip, u16::from_be_bytes(port)))
}

/// Both frames, byte by byte.
fn compare(expected: &Verdict, found: &Result<Verdict, String>) -> String {
    let bytes = |verdict: Option<&Verdict>| match verdict {
        Some(Verdict::Pass(frame) | Verdict::Redirect(frame)) => frame.clone(),
        _ => Vec::new(),
    };
    let (expected, found) = (bytes(Some(expected)), bytes(found.as_ref().ok()));
    let differing = expected.iter().zip(&found).enumerate();
    let differing: Vec<usize> = differing
        .filter(|(_, (expected, found))| expected != found)
        .map(|(offset, _)| offset)
        .collect();
    format!("     {expected:02x?}, but\n     {found:02x?}\n     differing at {differing:?}")
}

fn outcome(verdict: &Result<Verdict, String>) -> String {
    match verdict {
        Ok(Verdict::Pass(frame)) => format!("passed: {}", describe(frame)),
        Ok(Verdict::Drop) => "dropped".to_owned(),
        Ok(Verdict::Redirect(frame)) => format!("redirected: {}", describe(frame)),
        Err(error) => error.clone(),
    }
}
