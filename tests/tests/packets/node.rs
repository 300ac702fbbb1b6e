//! A node: an agent with the real object in the kernel, attached to nothing, run frame by frame.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    os::fd::AsFd as _,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use aya::maps::{MapData, MapInfo};
use nix::libc;
use shunt_common::{Counter, FlowKind, ServiceEntry, registry};
use shunt_datapath::{
    CountedService, Datapath, DatapathOptions, Families, FlowChoice, FlowConnection, FlowReader,
    LiveConnection, LiveKey, ServiceCounts, TableSizes, XdpMode,
};
use shunt_model::{self, InterfacePattern, RenderOptions, Renderer};
use shunt_runtime::{Agent, ApplyError, Outcome};
use shunt_tests::{
    NO_INTERFACE, PinDir, Taken, Uplinks, passing, run_driver_at, run_driver_with_room,
    set_stations,
};

use super::{
    frame::THIS_STATION,
    hooks::Hooks,
    test_run::{Ran, Sum, test_run},
    world::{Family as _, V6},
};

/// Verdict of a program on a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// On to the next program and the stack (`TCX_NEXT`), as this frame.
    Pass(Vec<u8>),
    /// Dropped.
    Drop,
    /// Sent out of an interface (`TCX_REDIRECT`), as this frame.
    Redirect(Vec<u8>),
}

impl Verdict {
    /// The frame that was passed.
    #[track_caller]
    pub(crate) fn passed(self) -> Vec<u8> {
        match self {
            Self::Pass(frame) => frame,
            other => panic!("not passed on: {other:?}"),
        }
    }
}

/// This node's address, one that it has too but that few events know, and another node's.
pub(crate) const NODE: [u8; 4] = [192, 168, 16, 10];
pub(crate) const NODE_TOO: [u8; 4] = [192, 168, 16, 5];
pub(crate) const OTHER_NODE: [u8; 4] = [192, 168, 16, 20];

thread_local! {
    /// The families of nodes that this thread makes.
    static FAMILIES: Cell<Option<Families>> = const { Cell::new(None) };
}

/// Runs a test on nodes that translate these families alone.
pub(crate) fn with_families(families: Families, test: impl FnOnce()) {
    FAMILIES.set(Some(families));
    test();
    FAMILIES.set(None);
}

/// An agent and its programs.
pub(crate) struct Node {
    agent: Agent,
    /// True if nothing else is refused: no guard is on.
    refuses_for_services: bool,
    /// If there is the XDP program.
    uplinks: Option<Uplinks>,
    taken_by_driver: u64,
}

impl Node {
    /// A node of the pod ranges 10.1.1.0/24 and fd00:10:1:1::/64 that has applied these events.
    pub(crate) fn new<'a>(events: impl IntoIterator<Item = &'a str>) -> Self {
        Self::with(|_| (), events)
    }

    /// Such a node with room for this many conntrack entries, two a connection.
    pub(crate) fn with_conntrack<'a>(
        entries: u32,
        events: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::with(|options| options.sizes.conntrack = entries, events)
    }

    /// A node with other options.
    pub(crate) fn with<'a>(
        change: impl FnOnce(&mut DatapathOptions),
        events: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut options = DatapathOptions {
            pod_cidrs: ["10.1.1.0/24", "fd00:10:1:1::/64"]
                .map(|range| range.parse().unwrap())
                .into(),
            sizes: TableSizes {
                frontends: 64,
                slots: 256,
                backends: 64,
                conntrack: 32_768,
                ..TableSizes::default()
            },
            families: FAMILIES.get().unwrap_or_default(),
            ..DatapathOptions::default()
        };
        let hooks = Hooks::of_this_thread();
        if hooks == Hooks::XdpAndTc {
            options.xdp.mode = XdpMode::Native;
            options
                .xdp
                .interfaces
                .insert(InterfacePattern::Name(NO_INTERFACE.to_owned()));
        }
        change(&mut options);
        let renderer = Renderer::new(RenderOptions {
            node_ips: BTreeSet::from([NODE.into(), NODE_TOO.into(), IpAddr::from(V6::NODE)]),
            ..RenderOptions::default()
        });
        let mut datapath = Datapath::load(&options).unwrap();
        let uplinks = (hooks == Hooks::XdpAndTc)
            .then(|| Uplinks::of(datapath.xdp_program().unwrap()).unwrap());
        let mut node = Self {
            agent: Agent::new(renderer, datapath, BTreeSet::new()),
            refuses_for_services: !options.guard.guard && !options.guard.echo,
            uplinks,
            taken_by_driver: 0,
        };
        node.set_ports(false);
        for event in events {
            node.apply(event);
        }
        node
    }

    /// Makes all interfaces ports of a bridge, or none.
    pub(crate) fn set_ports(&mut self, are_ports: bool) {
        set_stations(self.table(registry::STATIONS), are_ports).unwrap();
    }

    /// Applies an event that must be right.
    #[track_caller]
    pub(crate) fn apply(&mut self, event: &str) -> Outcome {
        self.try_apply(event).unwrap()
    }

    /// Applies an event.
    pub(crate) fn try_apply(&mut self, event: &str) -> Result<Outcome, ApplyError> {
        let event = shunt_model::decode(event).unwrap();
        let outcome = self.agent.apply(event);
        if let Some(uplinks) = &mut self.uplinks {
            uplinks.set_all(THIS_STATION).unwrap();
        }
        outcome
    }

    /// This host's interfaces have these addresses now.
    pub(crate) fn set_host_addresses(&mut self, addresses: BTreeSet<IpAddr>) {
        self.agent.set_host_addresses(addresses).unwrap();
    }

    /// Runs the program at the ingress of a client's interface on `frame`, or the one at its driver before that.
    pub(crate) fn ingress(&mut self, frame: &[u8]) -> Verdict {
        match self.by_driver(frame) {
            Some(verdict) => verdict,
            None => self.run(Datapath::INGRESS, frame),
        }
    }

    /// Two processors run the program at the ingress on each frame at the same time.
    pub(crate) fn ingress_by_two(&mut self, frames: &[Vec<u8>]) {
        let program = self.agent.datapath_mut().program(Datapath::INGRESS);
        let descriptor = program.unwrap().fd().unwrap().as_fd();
        let arrivals = AtomicUsize::new(0);
        let run_all = || {
            for (number, frame) in frames.iter().enumerate() {
                arrivals.fetch_add(1, Ordering::Relaxed);
                while arrivals.load(Ordering::Relaxed) < 2 * (number + 1) {
                    thread::yield_now();
                }
                test_run(descriptor, frame, &[], Sum::Unknown).unwrap();
            }
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(run_all);
            }
        });
    }

    /// Runs the program at the ingress on `frame`, which has come by the driver.
    pub(crate) fn past_driver(&mut self, frame: &[u8]) -> Verdict {
        self.run(Datapath::INGRESS, frame)
    }

    /// Runs the XDP program on `frame`; `None` if it is passed on, as it is, or if there is none.
    pub(crate) fn by_driver(&mut self, frame: &[u8]) -> Option<Verdict> {
        Some(match self.by_driver_of(0, frame)? {
            Taken::Dropped => Verdict::Drop,
            Taken::Back(frame) | Taken::Sent(frame) => Verdict::Redirect(frame),
        })
    }

    /// As [`Self::by_driver`], of a frame that comes in by the interface of this index, and by which it
    /// leaves.
    pub(crate) fn by_driver_of(&mut self, interface: u32, frame: &[u8]) -> Option<Taken> {
        self.uplinks.as_ref()?;
        let program = self.agent.datapath_mut().xdp_program().unwrap();
        let taken = run_driver_at(program, interface, frame).unwrap()?;
        self.taken_by_driver += 1;
        Some(taken)
    }

    /// As [`Self::by_driver`], by a driver that has kept room for so many bytes before the frame.
    pub(crate) fn by_driver_with_room(&mut self, room: u32, frame: &[u8]) -> Option<Taken> {
        let program = self.agent.datapath_mut().xdp_program().unwrap();
        let taken = run_driver_with_room(program, room, frame).unwrap();
        self.taken_by_driver += u64::from(taken.is_some());
        taken
    }

    /// Looks through the table of connections, as the scanner does from time to time.
    pub(crate) fn scan(&mut self) {
        let connections = self.agent.datapath_mut().connections();
        connections.count(|| true).unwrap();
    }

    /// Returns the number of frames that have got no further than the driver.
    pub(crate) const fn taken_by_driver(&self) -> u64 {
        self.taken_by_driver
    }

    /// As [`Self::ingress`], for a frame that is turned into another: the helpers that do so have
    /// the kernel forget the sum over it, which a run would then look for in vain.
    pub(crate) fn rejecting_ingress(&mut self, frame: &[u8]) -> Verdict {
        if let Some(verdict) = self.by_driver(frame) {
            return verdict;
        }
        let ran = self.run_in(Datapath::INGRESS, frame, &[], Sum::Unknown);
        ran.unwrap().0
    }

    /// Runs the program at its egress on `frame`.
    pub(crate) fn egress(&mut self, frame: &[u8]) -> Verdict {
        self.run(Datapath::EGRESS, frame)
    }

    /// Returns the number of connections that each backend of a frontend was chosen for, by the backend's address.
    #[track_caller]
    pub(crate) fn chosen(&self, frontend: IpAddr, protocol: u8) -> BTreeMap<IpAddr, u64> {
        let live = self.agent.datapath().live().unwrap();
        let mut live = live.iter();
        let is_it = |key: LiveKey| key.address == frontend && key.protocol == protocol;
        let frontend = live.find(|frontend| is_it(frontend.key)).unwrap();
        let backends = frontend.backends.iter().map(|backend| backend.ip);
        backends.zip(frontend.connections.iter().copied()).collect()
    }

    /// Has the programs report connections and packets, these kinds of one in so many.
    pub(crate) fn watch(&mut self, kinds: FlowKind, one_in: u32) -> FlowReader {
        self.watch_chosen(FlowChoice {
            kinds,
            one_in,
            client: None,
            frontend: None,
        })
    }

    /// Has the programs report these.
    pub(crate) fn watch_chosen(&mut self, choice: FlowChoice) -> FlowReader {
        let datapath = self.agent.datapath_mut();
        let pins = PinDir::new();
        let loader = datapath.flow_loader().or_at(pins.path().to_owned());
        let (programs, mut reader) = loader.load().unwrap();
        reader.choose(choice);
        datapath.tell_flows(programs);
        self.find_driver();
        reader
    }

    /// Has them report nothing.
    pub(crate) fn unwatch(&mut self) {
        self.agent.datapath_mut().stop_flows();
        self.find_driver();
    }

    /// The names of the tables that a program uses, as long as the kernel keeps them.
    pub(crate) fn tables_of(&mut self, program: &'static str) -> BTreeSet<String> {
        let program = self.agent.datapath_mut().program(program).unwrap();
        let numbers = program.info().unwrap().map_ids().unwrap().unwrap();
        let name = |number| {
            let info = MapInfo::from_id(number).unwrap();
            info.name_as_str().unwrap().to_owned()
        };
        numbers.into_iter().map(name).collect()
    }

    /// The table of this name that the program at the ingress uses, which the agent has as its own.
    pub(crate) fn table_in_use(&mut self, name: &str) -> MapData {
        let program = self.agent.datapath_mut().program(Datapath::INGRESS);
        let numbers = program.unwrap().info().unwrap().map_ids().unwrap().unwrap();
        let number = numbers.into_iter().find(|number| {
            let info = MapInfo::from_id(*number).unwrap();
            info.name_as_str() == Some(name)
        });
        MapData::from_id(number.unwrap()).unwrap()
    }

    /// The XDP program is another than before.
    fn find_driver(&mut self) {
        if self.uplinks.is_some() {
            let mut uplinks =
                Uplinks::of(self.agent.datapath_mut().xdp_program().unwrap()).unwrap();
            uplinks.set_all(THIS_STATION).unwrap();
            self.uplinks = Some(uplinks);
        }
    }

    /// The connections that timed out between two ticks, and the tick.
    pub(crate) fn expired_since(&self, tick: u32) -> (Vec<FlowConnection>, u32) {
        let connections = self.agent.datapath().connections();
        let now = connections.tick().unwrap();
        (connections.expired(tick, now), now)
    }

    /// Returns the counts of each service port.
    pub(crate) fn services(&self) -> Vec<CountedService> {
        self.agent.datapath().services().read().unwrap()
    }

    /// Returns the counts of the port of this name of default/web.
    #[track_caller]
    pub(crate) fn counted(&self, port: &str) -> ServiceCounts {
        let mut services = self.services().into_iter();
        let found = services.find(|one| &*one.service.name == "web" && &*one.port == port);
        found.unwrap().counts
    }

    /// Checks that each refusal counts for a service port, unless no event names the packet's destination.
    #[track_caller]
    fn assert_refused_to_services(&self, counters: &[(Counter, u64)]) {
        let services = self.services();
        for reason in ServiceEntry::REFUSALS {
            let count = |counts: &[(Counter, u64)]| -> u64 {
                let of_reason = counts.iter().filter(|(counter, _)| *counter == reason);
                of_reason.map(|(_, count)| count).sum()
            };
            let of_services: u64 = services.iter().map(|one| count(&one.counts.refused)).sum();
            assert_eq!(of_services, count(counters), "{}", reason.name());
        }
    }

    /// The counters that are not zero, but for that of the driver's packets, which is what the test
    /// has seen: what else is counted must not depend on it.
    #[track_caller]
    pub(crate) fn counters(&self) -> BTreeMap<&'static str, u64> {
        let counters = self.agent.datapath().counters().read().unwrap();
        if self.refuses_for_services {
            self.assert_refused_to_services(&counters);
        }
        let counted = counters.into_iter().filter(|(_, packets)| *packets > 0);
        let mut counted: BTreeMap<_, _> = counted
            .map(|(counter, packets)| (counter.name(), packets))
            .collect();
        let xdp = counted.remove(Counter::Xdp.name());
        assert_eq!(xdp.unwrap_or_default(), self.taken_by_driver);
        counted
    }

    /// Waits for a grace period and frees what was replaced.
    pub(crate) fn reclaim(&mut self) {
        self.agent.datapath_mut().reclaim().unwrap();
    }

    /// The service ports that are to have a Maglev table and have none.
    pub(crate) fn services_without_table(&self) -> BTreeSet<String> {
        self.agent.datapath().maglev_use().without_room
    }

    /// Leaves packets of connections that are not known to the stack, or not.
    pub(crate) fn leave_unknown(&mut self, leave: bool) {
        let unknown = self.agent.datapath_mut().unknown_connections();
        unknown.leave_to_stack(leave);
    }

    /// The connections that are remembered.
    pub(crate) fn connections(&self) -> Vec<LiveConnection> {
        let mut list = self.agent.datapath().connections().list();
        let mut connections = Vec::new();
        while let Some(piece) = list.next_piece().unwrap() {
            connections.extend(piece);
        }
        connections
    }

    /// A table, opened once more.
    pub(crate) fn table(&mut self, map: registry::Map) -> MapData {
        let ebpf = self.agent.datapath_mut().ebpf_mut();
        passing::of_object(ebpf, map).unwrap()
    }

    /// Returns the number of connections that gave way before their time.
    pub(crate) fn early_drops(&self) -> u64 {
        let drops = self.counters().get("conntrack_early_drop").copied();
        drops.unwrap_or_default()
    }

    /// Lets time pass; returns how many connections are still remembered.
    pub(crate) fn pass(&mut self, seconds: u32) -> usize {
        let ebpf = self.agent.datapath_mut().ebpf_mut();
        passing::let_pass(|map| passing::of_object(ebpf, map), seconds).unwrap();
        self.connections().len()
    }

    /// Runs the program at the ingress on `frame`, and returns its verdict and the time that the kernel took for it.
    pub(crate) fn timed_ingress(&mut self, frame: &[u8]) -> (Verdict, Duration) {
        self.timed_run(Datapath::INGRESS, frame)
    }

    /// Runs a program on `frame`, with this begin of a `struct __sk_buff` as its context. `Err` if
    /// the kernel does not run it so.
    pub(crate) fn run_in(
        &mut self,
        program: &'static str,
        frame: &[u8],
        context: &[u8],
        sum: Sum,
    ) -> io::Result<(Verdict, Duration)> {
        let program = self.agent.datapath_mut().program(program).unwrap();
        let descriptor = program.fd().unwrap().as_fd();
        let Ran {
            return_value,
            frame,
            duration,
        } = test_run(descriptor, frame, context, sum)?;
        // TCX_NEXT, TCX_DROP and TCX_REDIRECT of linux/bpf.h.
        let verdict = match return_value {
            -1 => Verdict::Pass(frame),
            2 => Verdict::Drop,
            7 => Verdict::Redirect(frame),
            other => panic!("returned {other}"),
        };
        Ok((verdict, duration))
    }

    fn run(&mut self, program: &'static str, frame: &[u8]) -> Verdict {
        self.timed_run(program, frame).0
    }

    fn timed_run(&mut self, program: &'static str, frame: &[u8]) -> (Verdict, Duration) {
        match self.run_in(program, frame, &[], Sum::Known) {
            // Older than Linux 6.17, which has run nothing yet.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.run_in(program, frame, &[], Sum::Unknown).unwrap()
            }
            ran => ran.unwrap(),
        }
    }
}

/// A Resync with these services, as JSON objects.
pub(crate) fn resync(services: &[&str]) -> String {
    format!(
        r#"{{"event":"Resync","node_ips":["192.168.16.10","192.168.16.20"],"services":[{}],"frontend_ifs":[],"backend_ifs":[]}}"#,
        services.join(",")
    )
}

/// An UpdateService with this service.
pub(crate) fn update(service: &str) -> String {
    format!(r#"{{"event":"UpdateService","service":{service}}}"#)
}

/// The service default/web: 10.96.0.1 and 203.0.113.7, port 80, node port 30080, TCP and UDP, with
/// backends at 10.1.1.N:8080 of these weights.
pub(crate) fn web(backends: &[(u8, u32)]) -> String {
    let backends: Vec<String> = backends
        .iter()
        .map(|(last, weight)| {
            format!(r#"{{"ip":"10.1.1.{last}","port":8080,"local":true,"weight":{weight}}}"#)
        })
        .collect();
    let backends = backends.join(",");
    format!(
        r#"{{"id":{{"namespace":"default","name":"web"}},"cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"ports":{{"tcp":{{"protocol":"TCP","port":80,"node_port":30080}},"udp":{{"protocol":"UDP","port":80,"node_port":30080}}}},"backends":{{"tcp":[{backends}],"udp":[{backends}]}}}}"#
    )
}
