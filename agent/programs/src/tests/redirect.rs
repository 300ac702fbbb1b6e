//! The memory of the ways to pods, with `--redirect`.

use shunt_common::{InterfaceRole, UDP, V4};

use crate::{
    Deed, How,
    forward::redirect::find,
    packet::{link::Link, offset::Extent},
    tests::{
        both_families,
        kernel::{HZ, Kernel},
        sample::{NETWORK, Sample, frame, tuple},
    },
};

/// Two pods that have one place in the memory.
const POD: u32 = 0x1_0003;
const OTHER_POD: u32 = POD + 0x1000;

/// Their devices, and a third one.
const DEVICE: u32 = 11;
const OTHER_DEVICE: u32 = 12;
const THIRD_DEVICE: u32 = 13;

/// Two interfaces from which a pod has one place in the memory.
const UPLINK: u32 = 5;
const OTHER_UPLINK: u32 = UPLINK + 64;

/// The client.
const CLIENT: u32 = 7;

/// Returns the pod's device to which a packet for it is handed that comes in by the interface.
fn device<F: Sample>(kernel: &Kernel, interface: u32, pod: u32, afresh: bool) -> Option<u32> {
    let came = tuple::<F>((CLIENT, 40_000), (1, 80));
    let to = tuple::<F>((CLIENT, 40_000), (pod, 8080));
    let extent = Extent {
        network: NETWORK,
        payload: NETWORK + F::HEADER_LENGTH + 8,
    };
    let (_, deeds) = kernel.at(interface, &frame(&came, UDP), |context| {
        let hop = find(context, Link::Ethernet, extent, &came, &to, afresh)?;
        hop.take::<F>(context, NETWORK).ok()
    });
    deeds.iter().find_map(|deed| match deed {
        Deed::Send {
            interface,
            how: How::ToPeer,
        } => Some(*interface),
        _ => None,
    })
}

/// A node with the three devices. The route to the other pod leads to `other`.
fn kernel() -> Kernel {
    let mut kernel = Kernel::new();
    for constant in ["REDIRECT", "PODS_BY_INTERFACE"] {
        kernel.set(constant, &1_u32);
    }
    for device in [DEVICE, OTHER_DEVICE, THIRD_DEVICE] {
        kernel.put("PEERS", &device);
        kernel.put("INTERFACES", &InterfaceRole::of_pods(device));
    }
    kernel
}

/// Has the first pod be behind the first device, and the other one behind the second. Packets from the other uplink are
/// for the third one, and the client is where its packets come from.
fn route<F: Sample>(kernel: &Kernel) {
    kernel.route(|question| {
        let is_for = |host| question.destination == F::ip(host);
        match question.interface {
            interface if is_for(CLIENT) => interface,
            OTHER_UPLINK => THIRD_DEVICE,
            _ if is_for(POD) => DEVICE,
            _ => OTHER_DEVICE,
        }
    });
}

both_families!(pods_with_one_place_in_the_memory_get_their_own_packets:
    pods_with_one_place_in_the_memory_get_their_own_packets_v4
    pods_with_one_place_in_the_memory_get_their_own_packets_v6);
fn pods_with_one_place_in_the_memory_get_their_own_packets<F: Sample>() {
    let kernel = kernel();
    route::<F>(&kernel);
    for _ in 0..2 {
        assert_eq!(device::<F>(&kernel, UPLINK, POD, false), Some(DEVICE));
        let other = device::<F>(&kernel, UPLINK, OTHER_POD, false);
        assert_eq!(other, Some(OTHER_DEVICE));
    }
}

both_families!(packets_from_interfaces_with_one_place_in_the_memory_go_their_own_way:
    packets_from_interfaces_with_one_place_in_the_memory_go_their_own_way_v4
    packets_from_interfaces_with_one_place_in_the_memory_go_their_own_way_v6);
fn packets_from_interfaces_with_one_place_in_the_memory_go_their_own_way<F: Sample>() {
    let kernel = kernel();
    route::<F>(&kernel);
    for _ in 0..2 {
        assert_eq!(device::<F>(&kernel, UPLINK, POD, false), Some(DEVICE));
        let other = device::<F>(&kernel, OTHER_UPLINK, POD, false);
        assert_eq!(other, Some(THIRD_DEVICE));
    }
}

#[test]
fn a_pod_that_has_moved_is_found_by_a_first_packet_at_once_and_by_others_in_a_tenth_of_a_second() {
    let kernel = kernel();
    route::<V4>(&kernel);
    let to_pod = |afresh| device::<V4>(&kernel, UPLINK, POD, afresh);
    assert_eq!(to_pod(false), Some(DEVICE));
    kernel.route(|question| {
        if question.destination == V4::ip(CLIENT) {
            UPLINK
        } else {
            OTHER_DEVICE
        }
    });
    kernel.pass(HZ / 10 - 1);
    assert_eq!(to_pod(false), Some(DEVICE), "remembered");
    kernel.pass(1);
    assert_eq!(to_pod(false), Some(OTHER_DEVICE));
    route::<V4>(&kernel);
    assert_eq!(to_pod(false), Some(OTHER_DEVICE), "remembered");
    assert_eq!(to_pod(true), Some(DEVICE));
}
