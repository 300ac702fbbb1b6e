//! One case: events, and the system calls of processes, which the kernel's programs and those that are built
//! for the host are both asked about.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use shunt_programs::{Action, Call, Socket};

use super::{
    compared::Compared,
    network::{Network, number},
    node::{Node, Way, counter_name},
    operations::{Ask, KINDS, Kind, Operation},
    process::{Process, note},
    seen::{Address, Seen, canonical, formed, is_elsewhere, outcome},
    socket::Open,
    twin::{Found, Twin, are_same, clients},
};
use crate::{
    addresses::{
        BACKEND_IPS, BACKEND_PORTS, NODE, NODE_PORTS, OTHER_NODE, SERVICE_PORTS, all_nodes,
    },
    cluster::Event,
    frontends::Cluster,
    operations::{Pick, pick},
    resolve::event,
};

/// The surroundings of a case: they are the same for all.
pub(crate) struct World {
    pub host: Network,
    pub pod: Network,
    pub node: Node,
    pub twin: Twin,
    pub way: Way,
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

    /// Does all operations, up to the first difference: returns what was done until then.
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
        Process::with(open)
    }

    fn ask(&mut self, process: &mut Process, ask: &Ask) -> Result<(), String> {
        let kind = process.open.kind;
        match ask {
            Ask::Bind { address, port } => self.bind(process, *address, *port),
            Ask::Send(target) if !kind.is_tcp => match process.target(&self.cluster, target) {
                Some(to) => self.send(process, to),
                None => Ok(()),
            },
            Ask::Connect(target) | Ask::Send(target) => {
                // A connection that is begun is not begun again.
                if kind.is_tcp && process.peer.is_some() {
                    *process = self.begin(kind);
                }
                match process.target(&self.cluster, target) {
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

    /// Sends a datagram to the peer, an IPv4 address that an IPv6 socket is connected to: the kernel passes the
    /// address to the program at `sendto`, as if the process had passed it.
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
        // The kernel shows the IPv4 peer that the socket had once, which is not known otherwise.
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
        // One that came before may have waited, from the sender that it names, or from a process here.
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

    /// Returns the destination of the packet that the last call has sent.
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

    /// Returns the effects of a call that has just been made.
    fn seen(&self, process: &Process, result: &io::Result<()>) -> Seen {
        Seen {
            error: result.as_ref().err().map(number),
            address: Address::None,
            remembered: self.world.node.remembered(&process.open),
            clients: clients(self.world.node.copies()),
        }
    }

    /// Compares what became of a call. Returns the address that it went on with.
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
