//! New flows without a client's and a server's sockets: a packet socket sends the first datagram of
//! each, which the pod at the other end has no room for. What is left is the way of a packet, all of
//! it in the sender's own time.

use std::{
    io, mem,
    net::SocketAddrV4,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::libc;
use shunt_tests::Namespace;

use super::{
    path::Path,
    services::Place,
    subject::{Kind, Proxy, Subject},
};
use crate::{
    bench::Bench,
    load::{Exchange, pin},
    measure::{Better, Bound, Limit, Study, sample},
    packets::clock::thread_time,
};

/// The study.
pub(super) const NAME: &str = "traffic/raw/new-udp-flow";

/// Number of flows begun in a round.
const FLOWS: u32 = 5_000;

/// The addresses that they come from, besides the pod's own.
const SOURCES: &str = "10.1.1.128/25";

/// Ports of each of them.
const FIRST_PORT: u32 = 1_024;
const PORTS: u32 = 60_000;

/// Size of a packet's payload, in bytes.
const PAYLOAD: usize = 18;

/// Ethernet, IPv4, UDP.
const LENGTH: usize = 14 + 20 + 8 + PAYLOAD;

/// Counter of the packets that a namespace's IPv4 has delivered to its protocols (RFC 4293, InDelivers).
const DELIVERED: &str = "IpInDelivers";

/// Limit of Shunt's cost over the same packets without a translation.
const LIMIT: f64 = 1.7;

/// Runs the study.
///
/// # Errors
///
/// When a subject cannot be set up, or does not let every packet through.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let mut subjects = Vec::new();
    for proxy in [
        Proxy::Direct,
        Proxy::Shunt,
        Proxy::Nftables,
        Proxy::Iptables,
    ] {
        let mut subject = Subject::new(Kind {
            proxy,
            others: 0,
            masquerade: false,
        })?;
        if let Some(rules) = subject.rules() {
            rules.load()?;
        }
        subject.start_agent(&bench.options().agent, &[])?;
        subjects.push(subject);
    }
    let mut senders = subjects
        .iter()
        .map(Sender::new)
        .collect::<Result<Vec<_>>>()?;

    let mut study =
        Study::new(NAME, "ns a packet of a new flow", Better::Lower).rounds(bench.rounds(21, 9));
    for (sender, subject) in senders.iter_mut().zip(&subjects) {
        study = study.subject(subject.name(), move || Ok(sample([("", sender.send()?)])));
    }
    if let [direct, shunt, ..] = subjects.as_slice() {
        let label = format!("{} over {}", shunt.name(), direct.name());
        let limit = Limit::AtMost(LIMIT);
        study = study.bound(Bound::ratio(label, shunt.name(), direct.name(), "", limit));
    }
    bench.study(study)
}

/// A sender of packets through a subject's node.
struct Sender<'a> {
    client: &'a Namespace,
    server: &'a Namespace,
    socket: OwnedFd,
    frame: [u8; LENGTH],
    /// The next flow.
    flow: u32,
}

impl<'a> Sender<'a> {
    fn new(subject: &'a Subject) -> Result<Self> {
        let sandbox = subject.sandbox();
        let client = sandbox.pod("pod-c").namespace();
        let server = sandbox.pod(Place::Local.pod()).namespace();
        let node = sandbox.node();
        node.configure(&format!("route add {SOURCES} dev pod-c\n"))?;
        let to = hardware_address(node, "pod-c")?;
        let from = hardware_address(client, "eth0")?;
        let target = Path::SameNode.target(subject, Exchange::NewFlow);
        Ok(Self {
            socket: client
                .enter(|| packet_socket("eth0"))
                .context("cannot make a packet socket")?,
            client,
            server,
            frame: frame(to, from, target),
            flow: 0,
        })
    }

    /// Begins the next flows; returns the nanoseconds that each took.
    fn send(&mut self) -> Result<f64> {
        let before = self.server.counter(DELIVERED)?;
        let Self {
            client,
            server: _,
            socket,
            frame,
            flow,
        } = self;
        let took = client.enter(|| -> io::Result<_> {
            pin()?;
            let begin = thread_time();
            for _ in 0..FLOWS {
                from_source(frame, *flow);
                *flow += 1;
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
        let arrived = self.server.counter(DELIVERED)? - before;
        ensure!(
            arrived >= u64::from(FLOWS),
            "of {FLOWS} packets {arrived} have arrived"
        );
        Ok(took.as_nanos() as f64 / f64::from(FLOWS))
    }
}

/// A frame for the target, without a source yet.
fn frame(to: [u8; 6], from: [u8; 6], target: SocketAddrV4) -> [u8; LENGTH] {
    let mut frame = [0; LENGTH];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    let total = (LENGTH - 14) as u16;
    // Version and header length, service; time to live, protocol.
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[30..34].copy_from_slice(&target.ip().octets());
    frame[36..38].copy_from_slice(&target.port().to_be_bytes());
    // A checksum of 0 is none (RFC 768).
    frame[38..40].copy_from_slice(&(total - 20).to_be_bytes());
    frame
}

/// Sets the frame's source to this flow's.
fn from_source(frame: &mut [u8; LENGTH], flow: u32) {
    // Each address has all of its ports before the next one has any.
    let host = 128 + (flow / PORTS) % 126;
    frame[26..30].copy_from_slice(&[10, 1, 1, host as u8]);
    let port = (FIRST_PORT + flow % PORTS) as u16;
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[24..26].fill(0);
    let sum: u32 = frame[14..34]
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// A packet socket that sends by this interface of the current thread's namespace, and receives
/// nothing (packet(7)).
pub(crate) fn packet_socket(interface: &str) -> io::Result<OwnedFd> {
    let index = nix::net::if_::if_nametoindex(interface)?;
    // SAFETY: the call takes numbers alone.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just made, and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all bits 0 are an address of no protocol.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index.cast_signed();
    // SAFETY: the address is of the length that is given.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        )
    };
    match bound {
        0 => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The Ethernet address of an interface.
pub(crate) fn hardware_address(namespace: &Namespace, interface: &str) -> Result<[u8; 6]> {
    let shown = namespace.query(&format!("link show dev {interface}\n"))?;
    let mut words = shown.split_whitespace();
    words.find(|word| *word == "link/ether");
    let text = words.next().context("an interface has no address")?;
    let bytes = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16))
        .collect::<Result<Vec<_>, _>>()?;
    match bytes.try_into() {
        Ok(address) => Ok(address),
        Err(_) => bail!("{text} is no Ethernet address"),
    }
}
