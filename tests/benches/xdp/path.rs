//! Requests from outside to a backend elsewhere, over veth pairs: by the driver, by a bare redirect
//! there, by TC and by the node's stack.
//!
//! All have the same far ends, which send what a wire would bring and take what a driver sends.

use anyhow::{Context as _, Result, bail};
use aya::{
    Ebpf,
    maps::HashMap,
    programs::{Xdp, xdp::XdpMode},
};
use shunt_common::feeder::Exit;
use shunt_tests::{Namespace, interrupt, run as run_command};

use crate::{
    bench::Bench,
    load::Exchange,
    measure::{Better, Bound, Limit, Study},
    traffic::{Kind, Path, Proxy, Subject, hardware_address, measure},
};

/// Begin of each name of a study.
const NAME: &str = "xdp/outside-remote";

const BARE: &str = "bare redirect";
const XDP: &str = "XDP";
const TC: &str = "TC";
const STACK: &str = "the node's stack, no service";

/// Limit over the bare redirect.
const LIMIT: f64 = 1.05;

/// Number of nodes of a kind that take turns: two that differ in nothing but their place in memory
/// may be as far apart as the bound is from 1.
const INSTANCES: usize = 3;

/// The flags of an agent with XDP.
const FLAGS: [&str; 4] = ["--xdp", "native", "--xdp-interface", "eth*"];

/// The node's interface towards the client, and that towards the backend.
const INTERFACES: [&str; 2] = ["eth0", "eth1"];

/// A node, and what forwards there besides the kernel.
struct World {
    /// Before the namespaces: it is detached first.
    _bare: Option<Ebpf>,
    subject: Subject,
}

/// Runs the studies.
///
/// # Errors
///
/// If something cannot be set up or measured, or the user stops it.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let exchanges = [Exchange::Request, Exchange::Connection];
    let name = |exchange: Exchange| format!("{NAME}/{}", exchange.word());
    if !exchanges
        .iter()
        .any(|exchange| bench.wants(&name(*exchange)))
    {
        return Ok(());
    }
    let mut kinds = Vec::new();
    for (name, instances) in [(BARE, INSTANCES), (XDP, INSTANCES), (TC, 1), (STACK, 1)] {
        let worlds = (0..instances).map(|_| World::new(bench, name));
        kinds.push((name, worlds.collect::<Result<Vec<_>>>()?));
    }
    for exchange in exchanges {
        let mut study =
            Study::new(name(exchange), exchange.unit(), Better::Lower).rounds(bench.rounds(61, 15));
        for (name, worlds) in &kinds {
            let mut turns = worlds.iter().cycle();
            study = study.subject(*name, move || match turns.next() {
                Some(world) => measure(&world.subject, Path::OutsideRemote, exchange),
                None => bail!("there is no node of this kind"),
            });
        }
        let label = format!("{XDP} over the {BARE}");
        let limit = Limit::AtMost(LIMIT);
        bench.study(study.bound(Bound::ratio(label, XDP, BARE, "p50", limit)))?;
    }
    Ok(())
}

impl World {
    fn new(bench: &Bench, name: &str) -> Result<Self> {
        interrupt::check()?;
        let proxy = match name {
            XDP | TC => Proxy::Shunt,
            _ => Proxy::Direct,
        };
        let mut subject = Subject::new(Kind {
            proxy,
            others: 0,
            masquerade: false,
        })?;
        let sandbox = subject.sandbox();
        for far_end in [sandbox.outside(), sandbox.node2()] {
            as_from_a_wire(far_end)?;
        }
        let bare = match name {
            BARE => Some(redirect(bench, &subject)?),
            _ => None,
        };
        let flags: &[&str] = if name == XDP { &FLAGS } else { &[] };
        subject.start_agent(&bench.options().agent, flags)?;
        Ok(Self {
            _bare: bare,
            subject,
        })
    }
}

/// Has the far end of a pair send whole checksums and single packets, and take what a driver sends.
fn as_from_a_wire(far_end: &Namespace) -> Result<()> {
    let features = ["tx", "off", "tso", "off", "gso", "off", "gro", "on"];
    let command = ["netns", "exec", far_end.name(), "ethtool", "-K", "eth0"];
    run_command("ip", &[&command[..], &features].concat()).map(drop)
}

/// Attaches the bare redirect to both interfaces of a node.
fn redirect(bench: &Bench, subject: &Subject) -> Result<Ebpf> {
    let path = &bench.options().feeder;
    let mut ebpf = Ebpf::load_file(path).context("cannot load the feeder")?;
    let sandbox = subject.sandbox();
    let node = sandbox.node();
    let [from, to] = INTERFACES;
    let ways = [
        (from, to, hardware_address(sandbox.node2(), "eth0")?),
        (to, from, hardware_address(sandbox.outside(), "eth0")?),
    ];
    for (from, to, next_hop) in ways {
        let mut link = [0; 12];
        link[..6].copy_from_slice(&next_hop);
        link[6..].copy_from_slice(&hardware_address(node, to)?);
        let (from, interface) = node.enter(|| (index(from), index(to)));
        let exit = Exit {
            interface: interface?,
            link,
        };
        let map = ebpf.map_mut("EXITS").context("no table of exits")?;
        HashMap::try_from(map)?.insert(from?, SharedExit(exit), 0)?;
    }
    let program = ebpf.program_mut("bare_redirect");
    let program: &mut Xdp = program.context("no bare redirect")?.try_into()?;
    program.load()?;
    node.enter(|| {
        INTERFACES
            .into_iter()
            .try_for_each(|name| program.attach(name, XdpMode::Driver).map(drop))
    })?;
    Ok(ebpf)
}

fn index(interface: &str) -> Result<u32> {
    Ok(nix::net::if_::if_nametoindex(interface)?)
}

/// An exit, as aya takes values.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct SharedExit(Exit);

// SAFETY: a word and bytes without padding.
unsafe impl aya::Pod for SharedExit {}
