//! The real programs against a plain model of the design's section 4.
//!
//! Random services, events and packets go to the [model](model::Model) and to the real object in
//! the kernel. Every output frame is compared byte for byte, and what was counted at the end of
//! each case. A difference is shrunk to a short sequence of events and packets, which is printed.
//!
//! `SHUNT_MODEL_PACKETS` sets the least number of packets, `SHUNT_MODEL_SEED` makes a run again.
//! [`frames`] does the same with frames that are spoilt in any way.

mod addresses;
mod calls;
mod case;
mod cluster;
mod contents;
mod describe;
mod dsr;
mod edit;
mod envelope;
mod extensions;
mod flow;
mod flows;
mod frontends;
mod incoming;
mod kernel;
mod model;
mod mss;
mod mutation;
mod nodes;
mod opening;
mod operations;
mod outgoing;
mod packet;
mod resolve;
mod room;
mod selection;
mod shapes;
mod split;
mod strategies;
mod twin;
mod wire;

use std::{
    cell::{Cell, RefCell},
    env,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use proptest::{
    strategy::{BoxedStrategy, Strategy as _},
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

use shunt_tests::{NEXT_HOP_TEXT, Namespace, by_length};

use crate::{
    case::{Case, Compared, Difference},
    cluster::Protocol,
    kernel::{Hooks, Kernel, Size},
    operations::Operation,
    wire::Form,
};

/// Number of packets, by default.
const PACKETS: u64 = 100_000;
const MANY_PACKETS: u64 = 1_000_000;

/// Number of spoilt frames, by default.
const FRAMES: u64 = 50_000;

/// Limit of the packets that are compared if something rare has not happened yet, as a multiple of the usual number.
const FURTHER: u64 = 5;

/// Counters that at least every thousandth packet must have raised, for the run to prove something.
const COVERED: [&str; 14] = [
    "connection",
    "conntrack_early_drop",
    "drop_no_backend",
    "drop_source_range",
    "fragment",
    "icmp_error",
    "pass_fragment",
    "pass_headers",
    "pass_truncated",
    "reject_no_backend",
    "reply",
    "request",
    "unwrapped",
    "wrapped",
];

/// The hooks by whose programs packets come, in turn.
const HOOKS: [Hooks; 2] = [Hooks::Tc, Hooks::XdpAndTc];

/// Number of cases that are made before the packets are counted again.
const CASES: u32 = 20;

/// Number of times that a case is tried while a difference is shrunk: the programs choose at
/// random, and not every choice shows it.
const TRIES: u32 = 12;

/// Time for which a difference may be shrunk, in milliseconds.
const SHRINKING: u32 = 30_000;

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap())
}

fn rng(seed: u64, round: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&round.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Runs in a namespace with routes, so that the programs can forward; the frames come in by its
/// loopback.
fn with_routes(role: &str, run: impl FnOnce() + Send) {
    if !shunt_tests::has_root() {
        return;
    }
    let network = Namespace::new(0, role).unwrap();
    network.set("net/ipv4/ip_forward", "1").unwrap();
    network.set("net/ipv6/conf/all/forwarding", "1").unwrap();
    network
        .configure(&format!(
            "link add eth0 mtu 9000 type veth peer name peer\n\
             address add 192.168.16.10/24 dev eth0\n\
             address add fd00:16::10/64 dev eth0 nodad\n\
             link set eth0 up\n\
             link set peer up\n\
             route add default via 192.168.16.1\n\
             route add ::/0 via fd00:16::1\n\
             neighbour add 192.168.16.1 lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent\n\
             neighbour add 192.168.16.20 lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent\n\
             neighbour add fd00:16::20 lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent\n\
             neighbour add fd00:16::1 lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent\n",
        ))
        .unwrap();
    network.enter(run);
}

#[test]
fn the_programs_do_what_the_model_says() {
    with_routes("model", || {
        let wanted =
            setting("SHUNT_MODEL_PACKETS").unwrap_or_else(|| by_length(PACKETS, MANY_PACKETS));
        let roomy = (Size::Roomy, strategies::operations().boxed());
        let small = (Size::Small, strategies::crowded_operations().boxed());
        let is_enough = |compared: &Compared| {
            let packets = compared.packets;
            packets >= wanted && lacking(compared, wanted).is_none() || packets >= FURTHER * wanted
        };
        let compared = compare_at_random(&[roomy, small], is_enough);
        assert_eq!(lacking(&compared, wanted), None);
        let refused = refused(&compared);
        let early = compared.refused_early;
        assert!(
            early <= 2 + refused / 100,
            "{early} of {refused} were refused with room left"
        );
    });
}

/// Returns the number of packets that found no room.
fn refused(compared: &Compared) -> u64 {
    let counters = &compared.counters;
    counters.get("drop_conntrack_full").copied().unwrap_or(0)
}

/// Returns what has not happened often enough yet, for the comparison of so many packets to prove something.
fn lacking(compared: &Compared, wanted: u64) -> Option<String> {
    let Compared {
        counters,
        translated,
        by_splits,
        refused_by_splits,
        ..
    } = compared;
    let kinds = translated_kinds().map(|kind| {
        let count = translated.get(&kind).copied().unwrap_or(0);
        (kind, count, wanted / 20_000)
    });
    let forms = [Form::First, Form::Later, Form::Error].into_iter();
    let enveloped = forms.flat_map(|form| ["wrapped", "unwrapped"].map(|way| (form, way)));
    let enveloped = enveloped.map(|(form, way)| {
        let kind = format!("{form:?} {way}");
        let kinds = translated.iter().filter(|(any, _)| any.ends_with(&kind));
        let count = kinds.map(|(_, count)| count).sum();
        (kind, count, 1)
    });
    let covered = COVERED.map(|counter| {
        let count = counters.get(counter).copied().unwrap_or(0);
        (counter.to_owned(), count, wanted / 1000)
    });
    let rare = [
        ("opened by splits", *by_splits, wanted / 1000),
        ("refused by splits", *refused_by_splits, wanted / 2000),
        // Only many that stay, at one time and of one family, leave no room.
        ("found no room", refused(compared), 1),
    ];
    let rare = rare.map(|(what, count, least)| (what.to_owned(), count, least));
    let mut all = kinds.chain(enveloped).chain(covered).chain(rare);
    let (what, count, least) = all.find(|(_, count, least)| count < least)?;
    Some(format!("{what}: {count} packets of at least {least}"))
}

/// Number of packets that are compared with the programs that are built for the host.
const OF_TWIN: u64 = 3_000;
const MANY_OF_TWIN: u64 = 100_000;

/// The programs that `shunt trace` runs.
#[test]
fn the_programs_built_for_the_host_do_what_the_kernels_do() {
    with_routes("twin", || {
        // A round has some thirty thousand packets.
        twin::compare_one_in(by_length(16, 1));
        let wanted = by_length(OF_TWIN, MANY_OF_TWIN);
        let (rounds, before) = (Cell::new(0), Cell::new(0));
        let small = (Size::Small, strategies::crowded_operations().boxed());
        compare_at_random(&[small], |_| {
            // Each of the hooks has its round.
            let round = rounds.replace(rounds.get() + 1);
            let compared = twin::compared();
            assert!(
                before.replace(compared) < compared || round == 0,
                "the programs built for the host ran on no packet of round {round}"
            );
            round >= HOOKS.len() && compared >= wanted
        });
        let compared = twin::compared();
        println!("{compared} packets through both, 0 differences in verdict and bytes");
    });
}

/// Every kind of packet that must have been translated.
fn translated_kinds() -> impl Iterator<Item = String> {
    let forms = [Form::Whole, Form::First, Form::Later, Form::Error];
    let kinds = ["IPv4", "IPv6"].into_iter().flat_map(move |family| {
        let protocols = Protocol::ALL.into_iter();
        protocols.flat_map(move |protocol| forms.map(|form| (family, protocol, form)))
    });
    kinds.flat_map(|(family, protocol, form)| {
        // Parts and errors are rare enough without an envelope.
        let ways = match form {
            Form::Whole => &["", " wrapped", " unwrapped"][..],
            Form::First | Form::Later | Form::Error => &[""],
        };
        let kind = move |how| format!("{family} {protocol:?} {form:?}{how}");
        ways.iter().map(kind)
    })
}

/// The fuzz target over whole frames: `SHUNT_FUZZ_FRAMES` sets the number, or `SHUNT_FUZZ_SECONDS`
/// the time.
#[test]
fn frames() {
    with_routes("frames", || {
        let seconds = setting("SHUNT_FUZZ_SECONDS").map(Duration::from_secs);
        let wanted = setting("SHUNT_FUZZ_FRAMES").unwrap_or(FRAMES);
        let start = Instant::now();
        let is_enough = |compared: &Compared| match seconds {
            Some(seconds) => start.elapsed() >= seconds,
            None => compared.packets >= wanted,
        };
        let spoilt = strategies::mutated_operations().boxed();
        compare_at_random(&[(Size::Roomy, spoilt)], is_enough);
    });
}

/// Compares packets of each of these in turn, until that is enough.
fn compare_at_random<const N: usize>(
    kinds: &[(Size, BoxedStrategy<Vec<Operation>>); N],
    is_enough: impl Fn(&Compared) -> bool,
) -> Compared {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("SHUNT_MODEL_SEED").unwrap_or(now.as_nanos() as u64);
    println!("SHUNT_MODEL_SEED={seed}");

    let config = Config {
        failure_persistence: None,
        max_shrink_iters: u32::MAX - 1,
        max_shrink_time: SHRINKING,
        ..Config::with_cases(CASES)
    };
    let kernels = HOOKS.map(|_| kinds.each_ref().map(|_| RefCell::new(None)));
    let (total, failed) = (RefCell::new(Compared::default()), Cell::new(false));
    let start = Instant::now();
    for round in 0.. {
        let before = total.borrow().packets;
        if is_enough(&total.borrow()) {
            break;
        }
        let (which, way) = (round as usize % N, round as usize / N % HOOKS.len());
        let ((size, operations), kernel) = (&kinds[which], &kernels[way][which]);
        // A runner makes its number of cases once.
        let mut runner = TestRunner::new_with_rng(config.clone(), rng(seed, round));
        let result = runner.run(operations, |operations| {
            // A case that fails may leave anything behind: the next begins with another object.
            let mut kernel = kernel.borrow_mut();
            let mut attempt = || {
                let mut clean = kernel
                    .take()
                    .unwrap_or_else(|| Kernel::load(*size, HOOKS[way]));
                let compared = Case::new(&mut clean).run(&operations)?;
                *kernel = Some(clean);
                Ok(compared)
            };
            let result = if failed.get() {
                (0..TRIES).try_for_each(|_| attempt().map(drop))
            } else {
                attempt().map(|compared| *total.borrow_mut() += compared)
            };
            result.map_err(|Difference { packets, story }| {
                if !failed.replace(true) {
                    let packets = total.borrow().packets + packets;
                    println!("the first difference after {packets} packets");
                }
                TestCaseError::fail(story)
            })
        });
        if let Err(TestError::Fail(story, _)) = result {
            panic!("SHUNT_MODEL_SEED={seed}: the shortest case found is\n{story}");
        }
        result.unwrap();
        let packets = total.borrow().packets;
        assert!(packets > before, "round {round} compared no packet");
    }
    let kernels = kernels.into_iter().flatten();
    let taken: u64 = kernels
        .filter_map(|kernel| Some(kernel.into_inner()?.taken_by_driver()))
        .sum();
    let compared = total.into_inner();
    let Compared {
        packets,
        counters,
        translated,
        refused_early,
        by_splits,
        refused_by_splits,
    } = &compared;
    let took = start.elapsed();
    println!("{packets} packets compared, 0 mismatches, {took:.0?}");
    println!("counted {counters:?}");
    println!("translated {translated:?}");
    println!("refused with room left: {refused_early}");
    println!("opened by splits: {by_splits}, refused by them: {refused_by_splits}");
    println!("no further than the driver: {taken}");
    assert!(taken >= packets / 500, "the driver takes too few: {taken}");
    compared
}
