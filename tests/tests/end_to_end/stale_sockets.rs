//! Sockets of the node's own processes whose backend goes.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::errno::Errno;
use serde_json::{Value, json};
use shunt_tests::{
    Ability, Connection, Failure, Namespace, Target, Transport, by_length, has_root, kernel_has,
    own_cgroup, patience, wait_until,
};

use crate::{
    capabilities::{Confined, NEEDED},
    dual_stack::{Family, service},
    host_world::{self, lose},
    service::Service,
    world::{REQUEST, World, binary, resync_with},
};

/// Time in which a socket has to be off a backend that is gone.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// Long enough for every look that the agent takes after a change: the last comes after a second.
pub(crate) const SETTLED: Duration = Duration::from_millis(1500);

/// Number of times that a backend leaves while sockets connect, the time for which they do before,
/// and the number of the last ones that are looked at.
const ROUNDS: (usize, usize) = (6, 200);
const CONNECTING: Duration = Duration::from_millis(5);
const LAST: usize = 400;

/// Translates at the sockets of the node, for this process: of its threads those that are in the
/// node's namespace.
pub(crate) fn flags() -> [String; 4] {
    let cgroup = own_cgroup().unwrap();
    let cgroup = cgroup.to_str().unwrap().to_owned();
    [
        "--socket-lb".into(),
        "host".into(),
        "--cgroup".into(),
        cgroup,
    ]
}

/// A world of both families, whose node's processes are clients.
pub(crate) fn host_world(further: &[&str]) -> Option<World> {
    host_world_of(&binary(), further)
}

/// The same, if this kernel lists the sockets of both transports, so that stale ones can be found.
pub(crate) fn listing_world(further: &[&str]) -> Option<World> {
    are_listed().then(|| host_world(further))?
}

/// The same, with an agent that may not touch the sockets of other processes, so that it destroys them.
pub(crate) fn destroying_world(further: &[&str]) -> Option<(World, Confined)> {
    let confined = Confined::new("destroying", &NEEDED);
    let world = are_listed().then(|| host_world_of(confined.path(), further))?;
    Some((world?, confined))
}

fn host_world_of(agent: &Path, further: &[&str]) -> Option<World> {
    if !has_root() {
        return None;
    }
    let flags = flags();
    let flags = flags
        .iter()
        .map(String::as_str)
        .chain(further.iter().copied());
    World::of(agent, &flags.collect::<Vec<_>>())
}

fn are_listed() -> bool {
    kernel_has(&[Transport::Udp, Transport::Tcp].map(Ability::Listed))
}

/// A connected UDP socket of a process on the node.
pub(crate) struct Client(pub(crate) UdpSocket);

impl Client {
    /// Connects to `address`, which may be an IPv4 address in an IPv6 socket.
    pub(crate) fn connect(world: &World, address: SocketAddr) -> Self {
        Self::connect_in(world.sandbox.node(), address)
    }

    pub(crate) fn connect_in(node: &Namespace, address: SocketAddr) -> Self {
        let any = match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = node.enter(|| UdpSocket::bind((any, 0)).unwrap());
        socket.set_read_timeout(Some(patience(SOON))).unwrap();
        socket.connect(address).unwrap();
        Self(socket)
    }

    /// Sends a request, and returns the backend's answer.
    pub(crate) fn ask(&self) -> io::Result<String> {
        self.0.send(b"?")?;
        let mut answer = [0; 512];
        let length = self.0.recv(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    #[track_caller]
    pub(crate) fn is_answered_by(&self, pod: &str) {
        let answer = self.ask().unwrap();
        assert!(answer.starts_with(pod), "{pod} is to answer: {answer}");
    }

    /// Waits for the error of a backend that is gone.
    #[track_caller]
    pub(crate) fn is_aborted(&self) {
        let begin = Instant::now();
        let error = self.0.recv(&mut [0; 512]).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::ConnectionAborted,
            "after {:?}: {error}",
            begin.elapsed()
        );
    }
}

/// The same IPv4 address and port, as an IPv6 socket has it.
pub(crate) fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// A service's frontends at its ClusterIP, and beside each the backend on `pod`: IPv4, IPv6, and
/// IPv4 of an IPv6 socket.
pub(crate) fn ways(world: &World, service: &Service, pod: &str) -> [(SocketAddr, SocketAddr); 3] {
    let [v4, v6] = Family::BOTH.map(|family| {
        let frontend = family.target(service.cluster_ip()).address();
        (frontend, family.backend(world, pod))
    });
    [v4, v6, (mapped(v4.0), mapped(v4.1))]
}

/// The numbers of UDP and TCP sockets that were destroyed.
pub(crate) fn destroyed(world: &World) -> (u64, u64) {
    let [_, udp, tcp] = cured(world);
    (udp, tcp)
}

/// The number of UDP sockets that were moved, and those of UDP and TCP sockets that were destroyed.
pub(crate) fn cured(world: &World) -> [u64; 3] {
    let status = world.shunt(&["status", "-o", "json"]).json();
    let stale = &status["stale_sockets"];
    assert_eq!(stale["trouble"], Value::Null);
    ["moved_udp", "destroyed_udp", "destroyed_tcp"].map(|name| stale[name].as_u64().unwrap())
}

#[test]
fn a_connected_udp_socket_leaves_a_removed_backend() {
    let Some((mut world, _agent)) = destroying_world(&[]) else {
        return;
    };
    let before = service(&world, Transport::Udp, &["pod-a"]);
    let after = service(&world, Transport::Udp, &["pod-b"]);
    world.update(&before);
    let ways = ways(&world, &before, "pod-a");
    let asked = ways.map(|(frontend, _)| Client::connect(&world, frontend));
    let senders = ways.map(|(frontend, _)| Client::connect(&world, frontend));
    let direct = ways.map(|(_, backend)| Client::connect(&world, backend));
    // Connected to the service first, then to the backend itself: what it asked is forgotten.
    let reconnected = ways.map(|(frontend, backend)| {
        let client = Client::connect(&world, frontend);
        client.is_answered_by("pod-a");
        client.0.connect(backend).unwrap();
        client
    });
    let all = || {
        asked
            .iter()
            .chain(&senders)
            .chain(&direct)
            .chain(&reconnected)
    };
    all().for_each(|client| client.is_answered_by("pod-a"));

    world.update(&after);
    asked.iter().for_each(Client::is_aborted);
    for (client, (frontend, _)) in senders.iter().zip(ways) {
        // A socket that sends first, and had no peer any more.
        let gone = |client: &Client| client.0.send(b"?").err();
        let error = wait_until("an error", SOON, || gone(client)).unwrap();
        let errors = [Errno::EDESTADDRREQ, Errno::ECONNABORTED].map(|errno| Some(errno as i32));
        assert!(
            errors.contains(&error.raw_os_error()),
            "{frontend}: {error}"
        );
    }
    for (client, (frontend, _)) in asked.iter().zip(ways) {
        client.0.connect(frontend).unwrap();
        client.is_answered_by("pod-b");
        Client::connect(&world, frontend).is_answered_by("pod-b");
    }
    thread::sleep(SETTLED);
    for client in direct.iter().chain(&reconnected) {
        client.is_answered_by("pod-a");
    }
    asked
        .iter()
        .for_each(|client| client.is_answered_by("pod-b"));
    assert_eq!(destroyed(&world), (6, 0), "the stale sockets, and no other");
}

#[test]
fn a_socket_that_could_not_be_connected_elsewhere_leaves_a_removed_backend_too() {
    let Some((mut world, _agent)) = destroying_world(&[]) else {
        return;
    };
    let lost = lose(world.sandbox.node());
    let elsewhere = host_world::service("lost", "10.96.0.14", &lost);
    world.apply(&json!({ "event": "AddService", "service": elsewhere }).to_string());
    let before = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&before);
    let ways = ways(&world, &before, "pod-a");
    let [v4, v6] =
        ["10.96.0.14", "fd00:10:96::14"].map(|ip| SocketAddr::new(ip.parse().unwrap(), 80));
    let elsewhere = [[v4, lost[0]], [v6, lost[1]], [mapped(v4), mapped(lost[0])]];
    let mut clients = Vec::new();
    for ((frontend, _), elsewhere) in ways.into_iter().zip(elsewhere) {
        for elsewhere in elsewhere {
            let client = Client::connect(&world, frontend);
            client.0.connect(elsewhere).unwrap_err();
            client.is_answered_by("pod-a");
            clients.push(client);
        }
    }
    world.update(&service(&world, Transport::Udp, &["pod-b"]));
    clients.iter().for_each(Client::is_aborted);
    thread::sleep(SETTLED);
    assert_eq!(destroyed(&world), (clients.len() as u64, 0));
}

#[test]
fn a_socket_at_a_backend_that_stays_is_left_alone() {
    let Some((mut world, _agent)) = destroying_world(&[]) else {
        return;
    };
    let both = service(&world, Transport::Udp, &["pod-a", "pod-b"]);
    world.update(&both);
    let ways = ways(&world, &both, "pod-a");
    let clients: Vec<Client> = (0..16)
        .flat_map(|_| ways.map(|(frontend, _)| Client::connect(&world, frontend)))
        .collect();
    let of = |client: &Client| client.ask().unwrap()[..5].to_owned();
    let asked: Vec<String> = clients.iter().map(of).collect();
    let stay = asked.iter().filter(|pod| *pod == "pod-b").count();
    assert!(
        stay > 0 && stay < clients.len(),
        "both pods are to have clients: {asked:?}"
    );
    world.update(&service(&world, Transport::Udp, &["pod-b"]));
    for (client, _) in clients
        .iter()
        .zip(&asked)
        .filter(|(_, pod)| *pod == "pod-a")
    {
        client.is_aborted();
    }
    thread::sleep(SETTLED);
    for (client, _) in clients
        .iter()
        .zip(&asked)
        .filter(|(_, pod)| *pod == "pod-b")
    {
        client.is_answered_by("pod-b");
    }
    assert_eq!(destroyed(&world), ((clients.len() - stay) as u64, 0));
}

#[test]
fn a_socket_of_a_pod_is_left_to_the_programs_on_its_interface() {
    let Some(mut world) = listing_world(&[]) else {
        return;
    };
    world.update(&service(&world, Transport::Udp, &["pod-a"]));
    let after = service(&world, Transport::Udp, &["pod-b"]);
    let flow = world
        .client_pod()
        .enter(|| after.cluster_ip().flow())
        .unwrap();
    assert_eq!(flow.ask(REQUEST).unwrap().name, "pod-a");
    world.update(&after);
    assert_eq!(
        flow.ask(REQUEST).unwrap().name,
        "pod-b",
        "the next packet selects again"
    );
    thread::sleep(SETTLED);
    assert_eq!(flow.ask(REQUEST).unwrap().name, "pod-b");
    assert_eq!(destroyed(&world), (0, 0));
}

#[test]
fn an_agent_destroys_at_its_start_what_became_stale_without_one() {
    let Some((mut world, agent)) = destroying_world(&[]) else {
        return;
    };
    let before = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&before);
    let ways = ways(&world, &before, "pod-a");
    let asked = ways.map(|(frontend, _)| Client::connect(&world, frontend));
    asked
        .iter()
        .for_each(|client| client.is_answered_by("pod-a"));
    let unattended = world.killed();
    // No socket knows of a change yet.
    asked
        .iter()
        .for_each(|client| client.is_answered_by("pod-a"));
    let flags = flags();
    let flags = flags.each_ref().map(String::as_str);
    let mut world = unattended.start_of(agent.path(), &flags);
    asked
        .iter()
        .for_each(|client| client.is_answered_by("pod-a"));
    let after = service(&world, Transport::Udp, &["pod-b"]);
    world.apply(&resync_with(&[after.json()]));
    asked.iter().for_each(Client::is_aborted);
    for (frontend, _) in ways {
        Client::connect(&world, frontend).is_answered_by("pod-b");
    }
}

/// A TCP connection of a process on the node.
pub(crate) fn stream(world: &World, address: SocketAddr) -> Connection {
    let target = Target::tcp(address).within(SOON);
    world.sandbox.node().enter(|| target.connect().unwrap())
}

/// The event that makes the service's only endpoint, on pod-a, of this state; none at all without.
fn with_state(service: &Service, state: Option<&str>) -> String {
    let mut service = service.json();
    let endpoints = service["backends"]["main"].as_array_mut().unwrap();
    match state {
        Some(state) => endpoints
            .iter_mut()
            .for_each(|endpoint| endpoint["state"] = state.into()),
        None => endpoints.clear(),
    }
    json!({ "event": "UpdateService", "service": service }).to_string()
}

/// Makes a UDP service lose its backend, and waits until the agent has looked for that.
fn look(world: &mut World) {
    let event = |service: Service| {
        let mut service = service.json();
        service["id"]["name"] = "look".into();
        service["cluster_ips"] = json!(["10.96.0.11"]);
        service["external_ips"] = json!([]);
        service["ports"] = json!({ "main": { "protocol": "UDP", "port": 80 } });
        json!({ "event": "UpdateService", "service": service }).to_string()
    };
    let service = Service::new(Transport::Udp);
    let without = event(service.clone());
    let with = event(service.backend(world.backend("pod-a")));
    world.apply(&with);
    let frontend = SocketAddr::from(([10, 96, 0, 11], 80));
    let client = Client::connect(world, frontend);
    client.is_answered_by("pod-a");
    world.apply(&without);
    client.is_aborted();
}

#[test]
fn tcp_outlives_its_backend_unless_it_is_to_be_terminated() {
    let Some((mut world, _agent)) = destroying_world(&[]) else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.update(&service);
    let ways = ways(&world, &service, "pod-a");
    let mut streams = ways.map(|(frontend, _)| stream(&world, frontend));
    for state in [Some("Terminating"), Some("NotReady"), None] {
        world.apply(&with_state(&service, state));
        look(&mut world);
        thread::sleep(SETTLED);
        for stream in &mut streams {
            let answered = stream.echo(REQUEST);
            assert!(answered.is_ok(), "{state:?}: {answered:?}");
        }
    }
    assert_eq!(destroyed(&world), (3, 0), "what was looked for, no TCP");
}

#[test]
fn tcp_is_terminated_when_its_endpoint_is_gone_and_not_before() {
    let Some((mut world, _agent)) = destroying_world(&["--terminate-tcp"]) else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.update(&service);
    let ways = ways(&world, &service, "pod-a");
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, service.node_port().address().port()));
    let frontends = ways
        .map(|(frontend, _)| frontend)
        .into_iter()
        .chain([loopback]);
    let mut asked: Vec<Connection> = frontends.map(|frontend| stream(&world, frontend)).collect();
    let mut direct = ways.map(|(_, backend)| stream(&world, backend));
    for state in ["Terminating", "NotReady", "Ready", "NotReady"] {
        world.apply(&with_state(&service, Some(state)));
        look(&mut world);
        thread::sleep(SETTLED);
        for stream in asked.iter_mut().chain(&mut direct) {
            let answered = stream.echo(REQUEST);
            assert!(answered.is_ok(), "{state}: {answered:?}");
        }
    }
    // The backend table had lost it already: no backend leaves.
    world.apply(&with_state(&service, None));
    for stream in &mut asked {
        let failed = || stream.echo(REQUEST).err();
        let failure = wait_until("the end of a connection", SOON, failed).unwrap();
        let Failure::Other(error) = failure else {
            panic!("{failure}");
        };
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}");
    }
    thread::sleep(SETTLED);
    for stream in &mut direct {
        stream.echo(REQUEST).unwrap();
    }
    let (_, tcp) = destroyed(&world);
    assert_eq!(tcp, asked.len() as u64);
}

#[test]
fn sockets_that_connect_while_a_backend_leaves_are_off_it_too() {
    let Some(mut world) = listing_world(&[]) else {
        return;
    };
    let pods = ["pod-a", "pod-b"];
    let services = pods.map(|pod| service(&world, Transport::Udp, &[pod]));
    let frontend = services[0].cluster_ip().address();
    let node = world.sandbox.node();
    let (short, long) = ROUNDS;
    for round in 0..by_length(short, long) {
        let (gone, to) = (pods[round % 2], &services[(round + 1) % 2]);
        world
            .agent
            .apply(&services[round % 2].event("UpdateService"))
            .unwrap();
        let is_over = AtomicBool::new(false);
        let clients = thread::scope(|scope| {
            let connecting = scope.spawn(|| node.enter(|| connect_until(frontend, &is_over)));
            thread::sleep(CONNECTING);
            world.agent.apply(&to.event("UpdateService")).unwrap();
            is_over.store(true, Ordering::Relaxed);
            connecting.join().unwrap()
        });
        for client in clients {
            wait_until(
                "a socket that is off its backend",
                SETTLED + 2 * SOON,
                || {
                    let is_off = match client.ask() {
                        Ok(answer) => !answer.starts_with(gone),
                        // A socket that is moved gets no answer that its old backend has just sent.
                        Err(error) => error.kind() != ErrorKind::WouldBlock,
                    };
                    is_off.then_some(())
                },
            )
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}

/// Connects one socket after the other, until it is over. Returns the last of them.
fn connect_until(frontend: SocketAddr, is_over: &AtomicBool) -> VecDeque<Client> {
    let mut clients = VecDeque::new();
    while !is_over.load(Ordering::Relaxed) {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.set_read_timeout(Some(patience(SOON))).unwrap();
        socket.connect(frontend).unwrap();
        clients.push_back(Client(socket));
        if clients.len() > LAST {
            clients.pop_front();
        }
    }
    clients
}
