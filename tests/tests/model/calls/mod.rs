//! The programs at system calls, built for the host, beside the kernel's.
//!
//! The kernel runs such a program only for a process that makes the call (its type has no
//! `BPF_PROG_TEST_RUN`). So the calls are made, of random sockets to random addresses, and everything is
//! compared that they come to: the error, where the packet goes or what the process gets, what stays
//! with the socket, which clients stay with which backends, and what was counted. Where the kernel draws
//! a number, it must have come to what the other programs come to by some number.
//!
//! `SHUNT_MODEL_CALLS` sets the least number of calls, `SHUNT_MODEL_SEED` makes a run again.

mod case;
mod compared;
mod network;
mod node;
mod operations;
mod process;
mod seen;
mod socket;
mod twin;

use std::{
    cell::{Cell, RefCell},
    env,
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use shunt_tests::{Cgroup, Namespace, by_length, own_cgroup};

use self::{
    case::{Case, World},
    compared::Compared,
    network::Network,
    node::{Node, Way},
    twin::Twin,
};
use crate::{
    CASES, SHRINKING, TRIES,
    addresses::{NODE, Pair},
    rng, setting,
};

/// Number of calls, by default.
const CALLS: u64 = 20_000;
const MANY_CALLS: u64 = 200_000;

/// In which ways agents are, one after the other, and which part of all calls has been made then.
const WAYS: [(Way, u64, u64); 2] = [(Way::Everything, 3, 4), (Way::Host, 1, 1)];

/// A pod of this node.
const POD: Pair = Pair {
    v4: Ipv4Addr::new(10, 1, 1, 9),
    v6: Ipv6Addr::new(0xfd00, 1, 1, 0, 0, 0, 0, 9),
};

/// Outcomes that at least one call in four thousand must have, for the run to prove something: calls whose
/// names begin and end so.
const COVERED: [(&str, &str); 28] = [
    ("Bind", "in use"),
    ("Bind", "untouched"),
    ("Connect TCP IPv4 host", "dropped"),
    ("Connect TCP IPv4 host", "refused"),
    ("Connect TCP IPv4 host", "translated"),
    ("Connect TCP IPv4 host", "untouched"),
    ("Connect TCP IPv4 pod", "refused"),
    ("Connect TCP IPv4 pod", "translated"),
    ("Connect TCP IPv6 host", "translated"),
    ("Connect TCP IPv6 pod", "translated"),
    ("Connect TCP mapped host", "translated"),
    ("Connect TCP mapped pod", "translated"),
    ("Connect UDP", "invalid"),
    ("Connect UDP IPv4 host", "refused"),
    ("Connect UDP IPv4 host", "translated"),
    ("Connect UDP IPv4 pod", "untouched"),
    ("Connect UDP IPv6 host", "translated"),
    ("Connect UDP mapped host", "translated"),
    ("NamePeer TCP", "translated"),
    ("NamePeer UDP", "translated"),
    ("Receive UDP", "translated"),
    ("Receive UDP", "untouched"),
    ("Send UDP IPv4 host", "refused"),
    ("Send UDP IPv4 host", "translated"),
    ("Send UDP IPv4 pod", "translated"),
    ("Send UDP IPv6 host", "translated"),
    ("Send UDP mapped host", "translated"),
    ("Send UDP", "dropped"),
];

/// The name of the test, and of the variable by which it knows that it is in a cgroup of its own.
const TEST: &str = "calls::the_programs_at_system_calls_built_for_the_host_do_what_the_kernels_do";
const INSIDE: &str = "SHUNT_MODEL_INSIDE";

/// The programs that `shunt trace` runs for a process.
#[test]
fn the_programs_at_system_calls_built_for_the_host_do_what_the_kernels_do() {
    if !shunt_tests::has_root() {
        return;
    }
    // The programs are for all sockets of a cgroup: for those of this process alone, and of no other test.
    if env::var_os(INSIDE).is_none() {
        let (cgroup, outside) = (Cgroup::new().unwrap(), Namespace::new(0, "calls").unwrap());
        let this = env::current_exe().unwrap();
        let inside = format!("{INSIDE}=1");
        let this = this.to_str().unwrap();
        let arguments = [inside.as_str(), this, "--exact", TEST, "--nocapture"];
        let said = cgroup.run(&outside, Path::new("env"), &arguments).unwrap();
        println!("{said}");
        assert!(said.contains("calls through both"), "it did not run");
        return;
    }
    let (host, pod) = (
        Namespace::new(0, "node").unwrap(),
        Namespace::new(0, "pod").unwrap(),
    );
    host.enter(|| {
        let wanted = setting("SHUNT_MODEL_CALLS").unwrap_or_else(|| by_length(CALLS, MANY_CALLS));
        let compared = compare_at_random(&host, &pod, wanted);
        let Compared { kinds, .. } = &compared;
        for (begin, end) in COVERED {
            let these = kinds.iter();
            let these = these.filter(|(kind, _)| kind.starts_with(begin) && kind.ends_with(end));
            let count: u64 = these.map(|(_, count)| count).sum();
            assert!(
                count >= wanted / 4000,
                "too few are {begin}: {end}: {count} among {kinds:#?}"
            );
        }
    });
}

/// Compares at least so many calls.
fn compare_at_random(host: &Namespace, pod: &Namespace, wanted: u64) -> Compared {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("SHUNT_MODEL_SEED").unwrap_or(now.as_nanos() as u64);
    println!("SHUNT_MODEL_SEED={seed}");
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: u32::MAX - 1,
        max_shrink_time: SHRINKING,
        ..Config::with_cases(CASES)
    };
    let cgroup = own_cgroup().unwrap();
    let (total, failed) = (RefCell::new(Compared::default()), Cell::new(false));
    let start = Instant::now();
    let mut networks = Some((Network::new(host, NODE), Network::new(pod, POD)));
    let mut round = 0;
    for (way, part, of) in WAYS {
        // There is one set of the host's programs in a process, so one agent at a time.
        let (host, pod) = networks.take().unwrap();
        let node = Node::load(way, &cgroup);
        let twin = Twin::new(node.copies());
        let world = RefCell::new(World {
            host,
            pod,
            node,
            twin,
            way,
        });
        let share = wanted * part / of;
        while total.borrow().calls < share {
            let before = total.borrow().calls;
            // A runner makes its number of cases once.
            let mut runner = TestRunner::new_with_rng(config.clone(), rng(seed, round));
            round += 1;
            let result = runner.run(&operations::operations(), |operations| {
                let attempt = || Case::new(&mut world.borrow_mut()).run(&operations);
                let result = if failed.get() {
                    (0..TRIES).try_for_each(|_| attempt().map(drop))
                } else {
                    attempt().map(|compared| *total.borrow_mut() += compared)
                };
                result.map_err(|story| {
                    failed.set(true);
                    TestCaseError::fail(story)
                })
            });
            if let Err(TestError::Fail(story, _)) = result {
                panic!("SHUNT_MODEL_SEED={seed}: the shortest case found is\n{story}");
            }
            result.unwrap();
            let calls = total.borrow().calls;
            assert!(calls > before, "round {round} compared no call");
        }
        let World { host, pod, .. } = world.into_inner();
        networks = Some((host, pod));
    }
    let compared = total.into_inner();
    let Compared {
        calls,
        certain,
        kinds,
    } = &compared;
    assert!(*certain > 0, "each of {calls} calls was a draw");
    let took = start.elapsed();
    println!("{calls} calls through both, 0 differences, {took:.0?}; {certain} without a draw");
    for (kind, count) in kinds {
        println!("{count:8} {kind}");
    }
    compared
}
