//! One case: events, and the system calls of processes, which the kernel's programs and those that are built
//! for the host are both asked about.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::AddAssign,
};

use shunt_programs::{Action, Call, Remembered, Socket};

use super::{
    network::{Network, number},
    node::{Node, Way, counter_name},
    operations::{Ask, KINDS, Kind, Operation, Target},
    socket::Open,
    twin::{Clients, Found, Twin, are_same, clients},
};
use crate::{
    addresses::{
        BACKEND_IPS, BACKEND_PORTS, NODE, NODE_PORTS, OTHER_NODE, SERVICE_PORTS, all_nodes,
    },
    cluster::{Event, Protocol},
    frontends::Cluster,
    operations::{Pick, pick},
    resolve::{any_endpoint, event},
};

/// How many addresses are remembered that a socket has asked.
const ASKED: usize = 20;

/// What there is besides the case: it is the same for all.
pub(crate) struct World {
    pub host: Network,
    pub pod: Network,
    pub node: Node,
    pub twin: Twin,
    pub way: Way,
}

/// What a case has come to.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub calls: u64,
    /// How many had one outcome only, by what is in the tables.
    pub certain: u64,
    /// How many there were of each call, kind of socket, and outcome.
    pub kinds: BTreeMap<String, u64>,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        let Self {
            calls,
            certain,
            kinds,
        } = other;
        self.calls += calls;
        self.certain += certain;
        for (kind, count) in kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
    }
}

/// A process with a socket.
struct Process {
    open: Open,
    /// Whom the socket is connected to, as it has it. Of TCP: or is about to be.
    peer: Option<SocketAddr>,
    /// Whether the kernel still holds an IPv4 peer for it, though it may have another one.
    had_v4_peer: bool,
    /// Whether it was bound to an address of IPv6, and has to do with no other ones.
    is_v6_only: bool,
    /// Whom the process asked last.
    requested: Vec<SocketAddr>,
    /// To where that went.
    asked: Vec<SocketAddr>,
}

/// What became of a call in the kernel.
#[derive(Debug)]
struct Seen {
    error: Option<i32>,
    /// Where its packet went, or the address that the process was told.
    address: Address,
    remembered: Remembered,
    clients: Clients,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    None,
    Known(SocketAddr),
    /// Another call shows it.
    Unseen,
}

impl Address {
    fn of(address: Option<SocketAddr>) -> Self {
        address.map_or(Self::None, Self::Known)
    }

    const fn known(self) -> Option<SocketAddr> {
        match self {
            Self::Known(address) => Some(address),
            Self::None | Self::Unseen => None,
        }
    }
}

/// A case under way.
pub(crate) struct Case<'a> {
    world: &'a mut World,
    cluster: Cluster,
    processes: [Option<Process>; KINDS],
    steps: Vec<String>,
    compared: Compared,
    counted: BTreeMap<u32, u64>,
}

impl<'a> Case<'a> {
    /// Begins with two nodes and nothing else.
    pub(crate) fn new(world: &'a mut World) -> Self {
        let mut cluster = Cluster::default();
        let empty = Event::Resync(
            [NODE.both(), OTHER_NODE.both()].concat(),
            all_nodes(),
            Vec::new(),
        );
        cluster.apply(&empty);
        world.node.clear(&empty.line());
        world.twin.is_stale = true;
        Self {
            world,
            cluster,
            processes: [const { None }; KINDS],
            steps: Vec::new(),
            compared: Compared::default(),
            counted: BTreeMap::new(),
        }
    }

    /// Does all operations, up to the first difference: gives what was done until then.
    pub(crate) fn run(mut self, operations: &[Operation]) -> Result<Compared, String> {
        let result = operations
            .iter()
            .try_for_each(|operation| self.step(operation))
            .and_then(|()| self.compare_counters());
        result.map_err(|difference| self.story(&difference))?;
        Ok(self.compared)
    }

    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Event(change) => {
                let Some(event) = event(&self.cluster, change) else {
                    return Ok(());
                };
                let line = event.line();
                if self.world.node.apply(&line) {
                    self.cluster.apply(&event);
                    self.steps.push(line);
                }
                self.world.twin.is_stale = true;
            }
            Operation::Pass(seconds) => {
                self.world.node.pass(*seconds);
                self.steps.push(format!("{seconds} s pass"));
            }
            Operation::Reclaim => {
                self.world.node.reclaim();
                self.world.twin.is_stale = true;
                self.steps.push("a grace period".to_owned());
            }
            Operation::Close(kind) => self.processes[*kind] = None,
            Operation::Call(kind, ask) => {
                let old = self.processes[*kind].take();
                let mut process = old.unwrap_or_else(|| self.begin(Kind::of(*kind)));
                let result = self.ask(&mut process, ask);
                self.processes[*kind] = Some(process);
                return result;
            }
        }
        Ok(())
    }

    fn network(&self, kind: Kind) -> &Network {
        let World { host, pod, .. } = &self.world;
        if kind.is_of_pod { pod } else { host }
    }

    fn begin(&self, kind: Kind) -> Process {
        self.network(kind).enter();
        let open = Open::new(kind);
        self.world.host.enter();
        Process {
            open,
            peer: None,
            had_v4_peer: false,
            is_v6_only: false,
            requested: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn ask(&mut self, process: &mut Process, ask: &Ask) -> Result<(), String> {
        let kind = process.open.kind;
        match ask {
            Ask::Bind { address, port } => self.bind(process, *address, *port),
            Ask::Send(target) if !kind.is_tcp => match self.target(process, target) {
                Some(to) => self.send(process, to),
                None => Ok(()),
            },
            Ask::Connect(target) | Ask::Send(target) => {
                // A connection that is begun is not begun again.
                if kind.is_tcp && process.peer.is_some() {
                    *process = self.begin(kind);
                }
                match self.target(process, target) {
                    Some(to) => self.connect(process, to),
                    None => Ok(()),
                }
            }
            Ask::Disconnect if kind.is_tcp => {
                *process = self.begin(kind);
                Ok(())
            }
            Ask::Disconnect => {
                process.open.disconnect();
                process.peer = None;
                process.had_v4_peer = false;
                self.steps.push(format!("{kind:?} has no peer any more"));
                Ok(())
            }
            Ask::Receive { from } if !kind.is_tcp => self.receive(process, *from),
            Ask::Receive { .. } | Ask::NamePeer => self.name_peer(process),
        }
    }

    /// The address that a process gives, if there is one now.
    fn target(&self, process: &Process, target: &Target) -> Option<SocketAddr> {
        let kind = process.open.kind;
        let of_family = |ip: &IpAddr| kind.is_ipv6 || ip.is_ipv4();
        let protocol = Protocol(process.open.protocol());
        let keys = self.cluster.frontends.keys();
        let frontends: Vec<(IpAddr, u16)> = keys
            .filter(|(of, at)| *of == protocol && of_family(&at.ip))
            .map(|(_, at)| (at.ip, at.port))
            .collect();
        let (ip, port) = match target {
            Target::Frontend(frontend) => pick(frontends.iter().copied(), *frontend)?,
            Target::Again(number) => {
                let requested = process.requested.iter().copied();
                let again = pick(requested.filter(|at| of_family(&at.ip())), *number)?;
                (again.ip(), again.port())
            }
            Target::AtHost { frontend, address } => {
                let all = [
                    Ipv4Addr::LOCALHOST.into(),
                    Ipv4Addr::UNSPECIFIED.into(),
                    [127, 1, 2, 3].into(),
                    NODE.v4.into(),
                    OTHER_NODE.v4.into(),
                    Ipv6Addr::LOCALHOST.into(),
                    Ipv6Addr::UNSPECIFIED.into(),
                    NODE.v6.into(),
                    OTHER_NODE.v6.into(),
                ];
                let ports = [NODE_PORTS, SERVICE_PORTS].concat();
                let ip = pick(all.into_iter().filter(of_family), *address)?;
                (ip, ports[usize::from(*frontend) % ports.len()])
            }
            Target::Beside { frontend, port } => {
                let (ip, _) = pick(frontends.iter().copied(), *frontend)?;
                (ip, [81, 79, 53, 8080][usize::from(*port) % 4])
            }
            Target::Backend(backend) => {
                let ip = pick(BACKEND_IPS.into_iter().filter(of_family), *backend)?;
                (ip, BACKEND_PORTS[usize::from(*backend) % 3])
            }
            Target::Other(number) => {
                let other = any_endpoint(*number, None);
                of_family(&other.ip).then_some((other.ip, other.port))?
            }
        };
        // Nobody has this port.
        let to = SocketAddr::new(ip, if port == 0 { 81 } else { port });
        let number = match target {
            Target::Frontend(number) | Target::Again(number) => *number,
            _ => 0,
        };
        // Sockets of UDP take IPv4's form of an address too.
        let is_as_it_is = !kind.is_tcp && number % 7 == 6;
        Some(if is_as_it_is { to } else { formed(kind, to) })
    }

    fn bind(&mut self, process: &mut Process, address: Pick, port: Pick) -> Result<(), String> {
        let kind = process.open.kind;
        let own = self.network(kind).own;
        let all = [
            Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::from(own.v4),
            Ipv4Addr::LOCALHOST.into(),
            OTHER_NODE.v4.into(),
            Ipv6Addr::UNSPECIFIED.into(),
            own.v6.into(),
            Ipv6Addr::LOCALHOST.into(),
            OTHER_NODE.v6.into(),
        ];
        let of_family = |ip: &IpAddr| kind.is_ipv6 || ip.is_ipv4();
        let Some(ip) = pick(all.into_iter().filter(of_family), address) else {
            return Ok(());
        };
        let ports = [&NODE_PORTS[..], &NODE_PORTS, &SERVICE_PORTS, &[0]].concat();
        let to = formed(
            kind,
            SocketAddr::new(ip, ports[usize::from(port) % ports.len()]),
        );
        let call = self.call(process, Action::Bind, to);
        let ticks = self.world.twin.look_at(self.world.node.copies());
        let result = process.open.bind(to);
        let is_of_v6 = ip.is_ipv6() && !ip.is_unspecified();
        process.is_v6_only |= is_of_v6 && result.is_ok();
        if self.world.way == Way::Host {
            // There is no program.
            self.steps.push(format!("{kind:?} binds to {to}"));
            return Ok(());
        }
        let seen = self.seen(process, &result);
        self.compare(process, &call, ticks, &seen).map(drop)
    }

    fn connect(&mut self, process: &mut Process, to: SocketAddr) -> Result<(), String> {
        let is_v4_of_v6 = process.open.kind.is_ipv6 && to.ip().to_canonical().is_ipv4();
        let is_bound = !process.open.bound().ip().to_canonical().is_unspecified();
        // By which of its own addresses the host is reached then, of which family, only the kernel knows.
        let is_host_itself = to.ip().to_canonical().is_unspecified();
        let is_of_v4 = process.open.bound().ip().to_canonical().is_ipv4();
        if is_host_itself && process.open.kind.is_ipv6 && (is_v4_of_v6 && is_bound || is_of_v4) {
            return Ok(());
        }
        // No program is asked.
        if to.is_ipv4() && process.is_v6_only {
            return Ok(());
        }
        let call = self.call(process, Action::Connect, to);
        note(&mut process.requested, canonical(to));
        let ticks = self.world.twin.look_at(self.world.node.copies());
        let result = process.open.connect(to);
        let mut seen = self.seen(process, &result);
        let kind = process.open.kind;
        let is_connected = result.is_ok();
        // A datagram to the peer shows who that is.
        let asks_again = is_connected && !kind.is_tcp && is_v4_of_v6;
        if is_connected && !kind.is_tcp && !asks_again {
            drop(process.open.send());
        }
        seen.address = if asks_again {
            Address::Unseen
        } else {
            Address::of(self.sent(process))
        };
        let address = seen.address;
        let went = self.compare(process, &call, ticks, &seen)?;
        match address.known().or(went) {
            Some(peer) if is_connected => {
                process.peer = Some(formed(kind, peer));
                process.had_v4_peer |= peer.ip().to_canonical().is_ipv4();
                note(&mut process.asked, canonical(peer));
            }
            // Whatever is left of it.
            _ if kind.is_tcp && address.known().is_some() => *process = self.begin(kind),
            _ => {}
        }
        if asks_again {
            return self.send_to_peer(process);
        }
        Ok(())
    }

    /// Sends a datagram to the peer, an IPv4 address that an IPv6 socket is connected to: the kernel gives the
    /// address to the program at `sendto`, as if the process had given it.
    fn send_to_peer(&mut self, process: &mut Process) -> Result<(), String> {
        let Some(peer) = process.peer else {
            return Ok(());
        };
        // The host itself, by the address that the socket has there.
        let ip = match peer.ip().to_canonical() {
            ip if ip.is_unspecified() => process.open.bound().ip(),
            _ => peer.ip(),
        };
        let peer = SocketAddr::new(ip, peer.port());
        process.peer = Some(peer);
        let call = self.call(process, Action::Send, peer);
        let ticks = self.world.twin.look_at(self.world.node.copies());
        let result = process.open.send();
        let mut seen = self.seen(process, &result);
        seen.address = Address::of(self.sent(process));
        self.compare(process, &call, ticks, &seen).map(drop)
    }

    fn send(&mut self, process: &mut Process, to: SocketAddr) -> Result<(), String> {
        let is_v4 = to.ip().to_canonical().is_ipv4();
        let has_v6_peer = process
            .peer
            .is_some_and(|peer| peer.ip().to_canonical().is_ipv6());
        // The kernel shows the IPv4 peer that the socket had once, which nobody else can tell.
        if is_v4 && has_v6_peer && process.had_v4_peer {
            return Ok(());
        }
        // No program is asked.
        if is_v4 && process.is_v6_only {
            return Ok(());
        }
        // The kernel asks the program of IPv4 then (`udpv6_sendmsg` of net/ipv6/udp.c).
        let is_of_v4 =
            process.open.kind.is_ipv6 && process.open.bound().ip().to_canonical().is_ipv4();
        let asked = if is_of_v4 && to.ip().is_unspecified() && to.is_ipv6() {
            let loopback = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
            SocketAddr::new(loopback.into(), to.port())
        } else {
            to
        };
        let call = self.call(process, Action::Send, asked);
        note(&mut process.requested, canonical(to));
        let ticks = self.world.twin.look_at(self.world.node.copies());
        let result = process.open.send_to(to);
        let mut seen = self.seen(process, &result);
        let sent = self.sent(process);
        seen.address = Address::of(sent);
        self.compare(process, &call, ticks, &seen)?;
        if let Some(sent) = sent {
            note(&mut process.asked, sent);
        }
        Ok(())
    }

    /// Has a datagram come to the socket, if it may, and the process receive one, if one is there.
    fn receive(&mut self, process: &Process, from: Pick) -> Result<(), String> {
        let kind = process.open.kind;
        let network = self.network(kind);
        let bound = process.open.bound();
        let asked = process.asked.iter().copied();
        let backends = BACKEND_IPS.into_iter();
        let backends = backends.map(|ip| SocketAddr::new(ip, BACKEND_PORTS[0]));
        let of_family = |at: &SocketAddr| kind.is_ipv6 || at.is_ipv4();
        let others = backends.filter(of_family).take(usize::from(from) % 2);
        let Some(sender) = pick(asked.chain(others), from) else {
            return Ok(());
        };
        let to = match bound.ip().to_canonical() {
            ip if ip.is_unspecified() => network.own.like(sender.ip()),
            ip => ip,
        };
        let is_possible = bound.port() != 0
            && to.is_ipv4() == sender.is_ipv4()
            && is_elsewhere(network, sender.ip())
            && network.own.has(to);
        if is_possible {
            network.bring(sender, SocketAddr::new(to, bound.port()));
        }
        let call = self.call(process, Action::Receive, sender);
        let ticks = self.world.twin.look_at(self.world.node.copies());
        let Some((told, said)) = process.open.receive() else {
            return Ok(());
        };
        // One that came before may have waited, of whoever it says, or of a process here.
        let Ok(said) = said.parse::<SocketAddr>() else {
            return Ok(());
        };
        let call = Call {
            to: formed(kind, said),
            ..call
        };
        let mut seen = self.seen(process, &Ok(()));
        seen.address = Address::Known(told);
        self.compare(process, &call, ticks, &seen).map(drop)
    }

    fn name_peer(&mut self, process: &Process) -> Result<(), String> {
        let Some(peer) = process.peer else {
            return Ok(());
        };
        let call = self.call(process, Action::NamePeer, peer);
        let ticks = self.world.twin.look_at(self.world.node.copies());
        match process.open.peer_name() {
            Ok(told) => {
                let mut seen = self.seen(process, &Ok(()));
                seen.address = Address::Known(told);
                self.compare(process, &call, ticks, &seen).map(drop)
            }
            // The connection was refused meanwhile.
            Err(_) if process.open.kind.is_tcp => Ok(()),
            Err(error) => Err(format!("{call:?}: {error}")),
        }
    }

    /// Where the packet went that the last call has sent.
    fn sent(&self, process: &Process) -> Option<SocketAddr> {
        let from = (process.open.protocol(), process.open.bound().port());
        self.network(process.open.kind).sent(from)
    }

    /// The call as the programs that are built for the host are asked about it, before it is made.
    fn call(&self, process: &Process, action: Action, to: SocketAddr) -> Call {
        // A socket of TCP has a peer when there is a connection: none is made here.
        let peer = process.peer.filter(|_| !process.open.kind.is_tcp);
        // What was sent before is none of this call's.
        let _ = self.network(process.open.kind).sent((0, 0));
        Call {
            action,
            socket: Socket {
                protocol: process.open.protocol(),
                bound: process.open.bound().ip(),
                peer,
                remembered: self.world.node.remembered(&process.open),
            },
            to,
        }
    }

    /// What is left of a call that has just been made.
    fn seen(&self, process: &Process, result: &io::Result<()>) -> Seen {
        Seen {
            error: result.as_ref().err().map(number),
            address: Address::None,
            remembered: self.world.node.remembered(&process.open),
            clients: clients(self.world.node.copies()),
        }
    }

    /// Compares what became of a call. Gives the address that it went on with.
    fn compare(
        &mut self,
        process: &Process,
        call: &Call,
        before: u64,
        seen: &Seen,
    ) -> Result<Option<SocketAddr>, String> {
        let kind = process.open.kind;
        let ticks = [before, self.world.twin.ticks()];
        let network = if kind.is_of_pod {
            &self.world.pod
        } else {
            &self.world.host
        };
        let is_that = |found: &Found| {
            found.remembered == seen.remembered
                && are_same(&found.clients, &seen.clients)
                && seen.agrees(call, network, found.result)
        };
        let found = self.world.twin.find(call, kind.is_of_pod, ticks, is_that);
        self.steps.push(format!(
            "{kind:?} {:?} {} bound to {} with {:?}: {:?} {:?}",
            call.action, call.to, call.socket.bound, call.socket.peer, seen.error, seen.address
        ));
        let found = found.map_err(|others| {
            format!(
                "{call:?}\nthe kernel's programs: {seen:?}\nbuilt for the host: {:?}",
                &others[..others.len().min(8)]
            )
        })?;
        self.compared.calls += 1;
        self.compared.certain += u64::from(!found.is_drawn);
        let name = format!(
            "{:?} {} {} {}: {}",
            call.action,
            if kind.is_tcp { "TCP" } else { "UDP" },
            match (kind.is_ipv6, call.to.ip().to_canonical()) {
                (false, _) => "IPv4",
                (true, IpAddr::V4(_)) => "mapped",
                (true, IpAddr::V6(_)) => "IPv6",
            },
            if kind.is_of_pod { "pod" } else { "host" },
            outcome(call, found.result)
        );
        *self.compared.kinds.entry(name).or_default() += 1;
        for (counter, count) in found.counted {
            *self.counted.entry(counter).or_default() += count;
        }
        Ok(found.result.ok())
    }

    fn compare_counters(&mut self) -> Result<(), String> {
        let counted = self.world.node.count();
        if counted == self.counted {
            return Ok(());
        }
        let named = |counts: &BTreeMap<u32, u64>| -> BTreeMap<&str, u64> {
            let counts = counts.iter();
            counts
                .map(|(counter, count)| (counter_name(*counter), *count))
                .collect()
        };
        let (kernel, twin) = (named(&counted), named(&self.counted));
        Err(format!(
            "the kernel's programs counted {kernel:?}, those built for the host {twin:?}"
        ))
    }

    fn story(&self, difference: &str) -> String {
        let mut story = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            let _ = writeln!(story, "{number:3}. {step}");
        }
        story + difference
    }
}

/// Has the address be the last of those that are remembered.
fn note(addresses: &mut Vec<SocketAddr>, address: SocketAddr) {
    if addresses.len() == ASKED {
        addresses.remove(0);
    }
    addresses.push(address);
}

impl Seen {
    /// Whether this came of a call with this result.
    fn agrees(&self, call: &Call, network: &Network, result: Result<SocketAddr, i32>) -> bool {
        let to = match result {
            Ok(to) => to,
            Err(error) => return self.error == Some(error) && self.address == Address::None,
        };
        let told = self.address.known().map(canonical);
        match call.action {
            Action::Receive | Action::NamePeer => {
                self.error.is_none() && self.address == Address::Known(to)
            }
            Action::Bind => self.error.is_none_or(|error| {
                // There is no such address, or the socket has one.
                matches!(error, libc::EADDRNOTAVAIL | libc::EINVAL)
            }),
            Action::Connect | Action::Send => {
                let to = canonical(to);
                // That is the host itself, by one of its addresses, of one family or the other.
                let is_itself = |ip: IpAddr| ip.is_loopback() || network.own.has(ip);
                let is_there = told.is_some_and(|told| {
                    told == to
                        || to.ip().is_unspecified()
                            && told.port() == to.port()
                            && is_itself(told.ip())
                });
                let may_fail = !is_reached(network, &call.socket, to.ip());
                let is_unseen = self.address == Address::Unseen;
                match self.error {
                    None => is_there || told.is_none() && may_fail || is_unseen,
                    Some(error) => may_fail && is_of_kernel(error),
                }
            }
        }
    }
}

/// Whether the kernel itself says so, whatever programs do.
fn is_of_kernel(error: i32) -> bool {
    matches!(
        error,
        libc::EINVAL
            | libc::EACCES
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::EAFNOSUPPORT
            | libc::EADDRNOTAVAIL
            | libc::ECONNREFUSED
    )
}

/// Whether a packet of the socket to this address leaves its namespace in any case.
fn is_reached(network: &Network, socket: &Socket, ip: IpAddr) -> bool {
    let bound = socket.bound.to_canonical();
    let is_any = socket.bound.is_unspecified() || bound.is_unspecified() && ip.is_ipv4();
    let fits = is_any || bound.is_ipv4() == ip.is_ipv4() && network.own.has(bound);
    fits && is_elsewhere(network, ip)
}

/// Whether the address is one of somebody elsewhere.
fn is_elsewhere(network: &Network, ip: IpAddr) -> bool {
    let is_odd = match ip {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_nobodys = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
    !is_odd && !is_nobodys && !network.own.has(ip)
}

/// The address as a socket of this kind has it.
fn formed(kind: Kind, at: SocketAddr) -> SocketAddr {
    match at.ip() {
        IpAddr::V4(ip) if kind.is_ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), at.port()),
        _ => at,
    }
}

/// The address as packets have it.
fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

/// What a call has come to, in a word.
fn outcome(call: &Call, result: Result<SocketAddr, i32>) -> &'static str {
    match result {
        Ok(to) if canonical(to) == canonical(call.to) => "untouched",
        Ok(_) => "translated",
        Err(libc::ECONNREFUSED) => "refused",
        Err(libc::EPERM) => "dropped",
        Err(libc::EINVAL) => "invalid",
        Err(libc::EADDRINUSE) => "in use",
        Err(_) => "another error",
    }
}
