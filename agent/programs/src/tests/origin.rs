//! The memory of where packets of a source come in.

use shunt_common::{UDP, V4, V6};

use crate::{
    forward::origin::is_on_way_back,
    tests::{
        kernel::{HZ, Kernel},
        sample::{NETWORK, Sample, frame, tuple},
    },
};

/// Two sources that have one place in the memory.
const CLIENT: u32 = 0x1_0005;
const FORGED: u32 = CLIENT + 0x400;

/// The interfaces behind which they are.
const CLIENTS: u32 = 3;
const OTHERS: u32 = 4;

/// Returns whether a packet from this source may come in by this interface.
fn may_come<F: Sample>(kernel: &Kernel, source: u32, interface: u32) -> bool {
    let came = tuple::<F>((source, 40_000), (1, 80));
    let judged = kernel.at(interface, &frame(&came, UDP), |context| {
        is_on_way_back(context, NETWORK, &came)
    });
    judged.0
}

/// The client is behind the one interface, and all others are behind the other.
fn kernel() -> Kernel {
    let kernel = Kernel::new();
    kernel.route(|question| {
        if question.destination == V4::ip(CLIENT) {
            CLIENTS
        } else {
            OTHERS
        }
    });
    kernel
}

#[test]
fn a_forged_source_does_not_come_in_beside_a_client_with_its_place_in_the_memory() {
    let kernel = kernel();
    for _ in 0..2 {
        assert!(may_come::<V4>(&kernel, CLIENT, CLIENTS));
        assert!(!may_come::<V4>(&kernel, FORGED, CLIENTS));
        assert!(may_come::<V4>(&kernel, FORGED, OTHERS));
        assert!(!may_come::<V4>(&kernel, CLIENT, OTHERS));
    }
}

#[test]
fn a_source_whose_route_has_changed_is_judged_anew_after_a_tenth_of_a_second() {
    let kernel = kernel();
    assert!(may_come::<V4>(&kernel, CLIENT, CLIENTS));
    kernel.route(|_| OTHERS);
    kernel.pass(HZ / 10 - 1);
    assert!(may_come::<V4>(&kernel, CLIENT, CLIENTS), "remembered");
    kernel.pass(1);
    assert!(!may_come::<V4>(&kernel, CLIENT, CLIENTS));
    kernel.route(|_| CLIENTS);
    kernel.pass(HZ / 10);
    assert!(may_come::<V4>(&kernel, CLIENT, CLIENTS));
}

#[test]
fn a_source_of_ipv6_may_come_in_anywhere() {
    let kernel = kernel();
    assert!(may_come::<V6>(&kernel, FORGED, CLIENTS));
    assert_eq!(kernel.asked().len(), 0);
}
