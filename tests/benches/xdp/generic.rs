//! Datagrams of an open flow from outside to a backend elsewhere: by the XDP program before the stack (`generic`, as
//! where a driver runs no program) and by TC.
//!
//! A packet socket outside sends them, so that the whole way through the node is in the sender's own time.

use std::{
    fs, io,
    net::{IpAddr, UdpSocket},
    os::fd::{AsRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result, ensure};
use etherparse::PacketBuilder;
use nix::libc;
use serde_json::{Value, json};
use shunt_tests::{Agent, Namespace, PinDir, Sandbox, addresses, interrupt};

use crate::{
    bench::Bench,
    load::pin,
    measure::{Better, Bound, Limit, Study, sample},
    packets::{clock::thread_time, traffic::Family},
    traffic::{hardware_address, packet_socket},
};

const NAME: &str = "xdp/generic";

const TC: &str = "TC";
const GENERIC: &str = "generic";

/// The number of datagrams of a round, and the bytes that each carries.
const PACKETS: u32 = 50_000;
const PAYLOAD: usize = 18;

const NODE_PORT: u16 = 30_080;
const SERVED: u16 = 8_080;
const CLIENT_PORT: u16 = 21_000;

/// The most that it may cost, over TC: the mode is there because it costs less.
const LIMIT: f64 = 1.0;

/// Runs the studies.
///
/// # Errors
///
/// If something cannot be set up or measured, or the user stops it.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    for (family, word) in [(Family::V4, "v4"), (Family::V6, "v6")] {
        for forwarding in ["snat", "dsr"] {
            let name = format!("{NAME}/{forwarding}-{word}");
            if !bench.wants(&name) {
                continue;
            }
            let mut worlds = Vec::new();
            for subject in [TC, GENERIC] {
                worlds.push((subject, World::new(bench, family, forwarding, subject)?));
            }
            let mut study = Study::new(
                name,
                "ns a datagram, from the packet socket on",
                Better::Lower,
            )
            .rounds(bench.rounds(15, 5));
            for (subject, world) in &worlds {
                study = study.subject(*subject, || Ok(sample([("", world.send()?)])));
            }
            let label = format!("{GENERIC} over {TC}");
            let limit = Limit::AtMost(LIMIT);
            bench.study(study.bound(Bound::ratio(label, GENERIC, TC, "", limit)))?;
        }
    }
    Ok(())
}

/// A node, a client outside, and a pod on the second node that has no room for datagrams.
struct World {
    _agent: Agent,
    _pins: PinDir,
    _pod: UdpSocket,
    socket: OwnedFd,
    frame: Vec<u8>,
    sandbox: Sandbox,
}

impl World {
    fn new(bench: &Bench, family: Family, forwarding: &str, subject: &str) -> Result<Self> {
        interrupt::check()?;
        let sandbox = Sandbox::new()?;
        let pod = sandbox.pod("pod-d").namespace();
        let pod = pod.enter(|| UdpSocket::bind(("::", SERVED)))?;
        let pins = PinDir::new();
        let xdp = ["--xdp", GENERIC, "--xdp-interface", "eth*"];
        let flags = [
            &[
                "--pod-cidr",
                addresses::POD_CIDR,
                "--pod-cidr",
                addresses::POD_CIDR_V6,
            ][..],
            if subject == GENERIC { &xdp } else { &[] },
        ];
        let node = sandbox.node();
        let mut agent = Agent::start(&bench.options().agent, node, &pins, &flags.concat())?;
        agent.apply(&resync(family, forwarding).to_string())?;
        let outside = sandbox.outside();
        let to = hardware_address(node, "eth0")?;
        let from = hardware_address(outside, "eth0")?;
        let ends = [addresses::OUTSIDE, addresses::NODE].map(|address| of(family, address));
        let packet = PacketBuilder::ethernet2(from, to);
        let packet = match ends {
            [IpAddr::V4(from), IpAddr::V4(to)] => packet.ipv4(from.octets(), to.octets(), 64),
            [IpAddr::V6(from), IpAddr::V6(to)] => packet.ipv6(from.octets(), to.octets(), 64),
            _ => unreachable!("both are of one family"),
        };
        let mut frame = Vec::new();
        let packet = packet.udp(CLIENT_PORT, NODE_PORT);
        packet.write(&mut frame, &[0; PAYLOAD])?;
        let socket = outside.enter(|| packet_socket("eth0"));
        Ok(Self {
            _agent: agent,
            _pins: pins,
            _pod: pod,
            socket: socket.context("cannot make a packet socket")?,
            frame,
            sandbox,
        })
    }

    /// Sends datagrams. Returns the nanoseconds that each took.
    fn send(&self) -> Result<f64> {
        let Self {
            socket,
            frame,
            sandbox,
            ..
        } = self;
        let before = received(sandbox.node2())?;
        let took = sandbox.outside().enter(|| -> io::Result<_> {
            pin()?;
            let begin = thread_time();
            for _ in 0..PACKETS {
                // SAFETY: the frame is there for as long as the call takes.
                let sent = unsafe {
                    libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0)
                };
                if sent < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(thread_time().saturating_sub(begin))
        })?;
        let arrived = received(sandbox.node2())? - before;
        ensure!(
            arrived >= u64::from(PACKETS),
            "of {PACKETS} datagrams {arrived} have arrived"
        );
        Ok(took.as_nanos() as f64 / f64::from(PACKETS))
    }
}

/// Returns the number of frames that this namespace's `eth0` has received.
fn received(namespace: &Namespace) -> Result<u64> {
    let table = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
    let mut lines = table
        .lines()
        .filter_map(|line| line.trim().strip_prefix("eth0:"));
    let count = lines.next().and_then(|line| line.split_whitespace().nth(1));
    count
        .context("there is no eth0")?
        .parse()
        .context("no count of frames")
}

fn of(family: Family, address: IpAddr) -> IpAddr {
    match family {
        Family::V4 => address,
        Family::V6 => addresses::v6(address),
    }
}

fn resync(family: Family, forwarding: &str) -> Value {
    let [node, other] = [addresses::NODE, addresses::NODE2].map(|address| of(family, address));
    json!({
        "event": "Resync",
        "node_ips": [node],
        "nodes": { "this": [node], "other": [other] },
        "services": [{
            "id": { "namespace": "bench", "name": "web" },
            "forwarding": forwarding,
            "traffic_policy": "Cluster",
            "cluster_ips": [],
            "ports": { "main": { "protocol": "UDP", "port": 80, "node_port": NODE_PORT } },
            "backends": { "main": [{
                "ip": of(family, addresses::POD_D), "port": SERVED, "local": false, "node": "other",
            }] },
        }],
        "frontend_ifs": ["eth0", "eth1"],
        "backend_ifs": [],
    })
}
