//! The judgement of where packets of a source come in, and its memory.

use shunt_common::{InterfaceRole, UDP, V4, V6};

use crate::{
    forward::origin::may_come,
    tests::{
        kernel::{HZ, Kernel, NO_ROUTE},
        sample::{CLASS, NETWORK, Sample, frame, tuple},
    },
};

/// Two sources that have one place in the memory.
const CLIENT: u32 = 0x1_0005;
const FORGED: u32 = CLIENT + 0x400;

/// The interfaces behind which they are.
const CLIENTS: u32 = 3;
const OTHERS: u32 = 4;

/// Two services of the client's.
const SERVICE: u32 = 1;
const OTHER_SERVICE: u32 = 2;

/// Returns whether a packet between these two hosts may come in by this interface.
fn may_come_to<F: Sample>(kernel: &Kernel, source: u32, service: u32, interface: u32) -> bool {
    let came = tuple::<F>((source, 40_000), (service, 80));
    let judged = kernel.at(interface, &frame(&came, UDP), |context| {
        may_come(context, NETWORK, &came)
    });
    judged.0
}

/// Returns whether a packet from this source may come in by this interface.
fn may_come_by<F: Sample>(kernel: &Kernel, source: u32, interface: u32) -> bool {
    may_come_to::<F>(kernel, source, SERVICE, interface)
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
        assert!(may_come_by::<V4>(&kernel, CLIENT, CLIENTS));
        assert!(!may_come_by::<V4>(&kernel, FORGED, CLIENTS));
        assert!(may_come_by::<V4>(&kernel, FORGED, OTHERS));
        assert!(!may_come_by::<V4>(&kernel, CLIENT, OTHERS));
    }
}

#[test]
fn a_source_whose_route_has_changed_is_judged_anew_after_a_tenth_of_a_second() {
    let kernel = kernel();
    assert!(may_come_by::<V4>(&kernel, CLIENT, CLIENTS));
    kernel.route(|_| OTHERS);
    kernel.pass(HZ / 10 - 1);
    assert!(may_come_by::<V4>(&kernel, CLIENT, CLIENTS), "remembered");
    kernel.pass(1);
    assert!(!may_come_by::<V4>(&kernel, CLIENT, CLIENTS));
    kernel.route(|_| CLIENTS);
    kernel.pass(HZ / 10);
    assert!(may_come_by::<V4>(&kernel, CLIENT, CLIENTS));
}

#[test]
fn a_source_of_ipv6_may_come_in_anywhere() {
    let kernel = kernel();
    assert!(may_come_by::<V6>(&kernel, FORGED, CLIENTS));
    assert_eq!(kernel.asked().len(), 0);
}

#[test]
fn by_an_interface_with_another_filter_each_source_comes_in_that_the_kernel_accepts() {
    let mut kernel = kernel();
    kernel.put("INTERFACES", &InterfaceRole::unfiltered(CLIENTS));
    assert!(may_come_by::<V4>(&kernel, FORGED, CLIENTS), "rp_filter 0");
    assert!(!may_come_by::<V4>(&kernel, CLIENT, OTHERS), "rp_filter 1");
    kernel.put("INTERFACES", &InterfaceRole::loosely_filtered(OTHERS));
    kernel.pass(HZ / 10);
    assert!(may_come_by::<V4>(&kernel, CLIENT, OTHERS), "rp_filter 2");
    // No route leads to it, or it is the node's own: the kernel answers the same.
    kernel.route(|_| NO_ROUTE);
    kernel.pass(HZ / 10);
    for interface in [CLIENTS, OTHERS] {
        assert!(!may_come_by::<V4>(&kernel, CLIENT, interface));
    }
}

#[test]
fn of_several_next_hops_all_packets_between_two_addresses_have_one() {
    let kernel = Kernel::new();
    // As the kernel's hash of the addresses picks one.
    kernel.route(|question| {
        if question.source == V4::ip(SERVICE) {
            CLIENTS
        } else {
            OTHERS
        }
    });
    for _ in 0..2 {
        assert!(may_come_to::<V4>(&kernel, CLIENT, SERVICE, CLIENTS));
        assert!(!may_come_to::<V4>(&kernel, CLIENT, OTHER_SERVICE, CLIENTS));
    }
    for asked in kernel.asked() {
        assert_eq!((asked.l4_protocol, asked.sport, asked.dport), (0, 0, 0));
        // SAFETY: a byte.
        assert_eq!(unsafe { asked.__bindgen_anon_2.tos }, CLASS);
    }
}
