//! A kernel that refuses membarrier(2), as one with `nohz_full=` does.

use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use shunt_tests::Transport;

use crate::{service::Service, world::World};

/// Has the kernel refuse the call with `EINVAL` to this thread, and to what it starts.
fn refuse_membarrier() {
    let filter = SeccompFilter::new(
        [(libc::SYS_membarrier, Vec::new())].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EINVAL.cast_unsigned()),
        TargetArch::x86_64,
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter(&program).unwrap();
}

#[test]
fn without_membarrier_everything_is_translated_and_replaced_all_the_same() {
    // A filter cannot be taken off again.
    let test = thread::spawn(|| {
        refuse_membarrier();
        let Some(mut world) = World::new() else {
            return;
        };
        let log = world.agent.log();
        assert!(log.contains("membarrier(2) is not to be had"), "{log}");
        let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
        // There are 1024 slots and 256 backends: these are more than fit without a grace period.
        for round in 0..600 {
            let (one, other) = if round % 2 == 0 { (a, b) } else { (b, a) };
            let service = Service::new(Transport::Tcp).weighted(one, 1 + round);
            world.update(&service);
            if round % 100 == 0 {
                let tally = world.ask_from_pod(service.cluster_ip(), 10);
                assert_eq!((tally.of(one), tally.of(other)), (10, 0), "round {round}");
            }
        }
        let log = world.agent.log();
        assert!(!log.contains("ERROR"), "{log}");
    });
    test.join().unwrap();
}
