//! The facts by which the kernel is asked for a way: rules and several next hops depend on them.

use shunt_common::{TCP, Tuple, UDP, V4, V6};

use crate::{
    FibLookup,
    forward::{
        fib::{look_up_for_all, look_up_from_arrival},
        transit,
    },
    tests::{
        both_families,
        kernel::{CAME_BY, Kernel},
        sample::{CLASS, LABEL, Sample, frame, packet, tuple},
    },
    way::WayQuestion,
};

/// The interface at which the packets are.
const INTERFACE: u32 = 5;

/// A question, without its unions.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    between: WayQuestion,
    protocol: u8,
    /// Host order, the source's first.
    ports: [u16; 2],
    /// The traffic class, and in IPv6 the flow label behind it.
    class: u32,
}

impl Asked {
    fn of(lookup: &FibLookup) -> Self {
        // SAFETY: a word, of whatever field.
        let class = unsafe { lookup.__bindgen_anon_2.flowinfo };
        Self {
            between: WayQuestion::of(lookup),
            protocol: lookup.l4_protocol,
            ports: [lookup.sport, lookup.dport].map(u16::from_be),
            class,
        }
    }
}

/// A family whose packets have a class.
trait Classed: Sample {
    /// The class of the sample's packets, in the word of the question.
    const ASKED: u32;
}

impl Classed for V4 {
    const ASKED: u32 = u32::from_ne_bytes([CLASS, 0, 0, 0]);
}

impl Classed for V6 {
    const ASKED: u32 = ((CLASS as u32) << 20 | LABEL).to_be();
}

/// The tuple with which a packet comes in, and that with which it goes on.
fn tuples<F: Classed>() -> [Tuple<F>; 2] {
    [
        tuple((7, 40_000), (1, 80)),
        tuple((2, 61_000), (0x1_0003, 8080)),
    ]
}

/// Returns the question between the addresses of the second tuple.
fn between<F: Classed>(interface: u32) -> WayQuestion {
    WayQuestion {
        interface,
        source: F::ip(2),
        destination: F::ip(0x1_0003),
        length: 1,
    }
}

both_families!(a_packet_in_transit_goes_by_all_that_rules_look_at:
    a_packet_in_transit_goes_by_all_that_rules_look_at_v4
    a_packet_in_transit_goes_by_all_that_rules_look_at_v6);
fn a_packet_in_transit_goes_by_all_that_rules_look_at<F: Classed>() {
    let kernel = Kernel::new();
    let [came, translated] = tuples::<F>();
    for protocol in [UDP, TCP] {
        let (is_found, _) = kernel.at(INTERFACE, &frame(&came, protocol), |context| {
            transit::find(context, &packet(&came, protocol), &translated).is_ok()
        });
        assert!(is_found);
        let mut between = between::<F>(INTERFACE);
        // A packet that any link of IPv6 takes goes any way.
        if F::LEAST_MTU == 0 {
            between.length = 28;
        }
        let asked: Vec<Asked> = kernel.asked().iter().map(Asked::of).collect();
        let expected = Asked {
            between,
            protocol,
            ports: [61_000, 8080],
            class: F::ASKED,
        };
        assert_eq!(asked, [expected]);
    }
}

both_families!(a_way_for_all_packets_between_two_hosts_depends_on_nothing_else:
    a_way_for_all_packets_between_two_hosts_depends_on_nothing_else_v4
    a_way_for_all_packets_between_two_hosts_depends_on_nothing_else_v6);
fn a_way_for_all_packets_between_two_hosts_depends_on_nothing_else<F: Classed>() {
    let kernel = Kernel::new();
    let [came, translated] = tuples::<F>();
    let (is_found, _) = kernel.at(INTERFACE, &frame(&came, UDP), |context| {
        look_up_for_all(context, &translated, 1).is_ok()
    });
    assert!(is_found);
    let asked: Vec<Asked> = kernel.asked().iter().map(Asked::of).collect();
    let expected = Asked {
        between: between::<F>(INTERFACE),
        protocol: 0,
        ports: [0, 0],
        class: 0,
    };
    assert_eq!(asked, [expected]);
}

both_families!(a_packet_that_leaves_is_looked_up_as_it_came_in_by_its_protocol_and_source_port:
    a_packet_that_leaves_is_looked_up_as_it_came_in_by_its_protocol_and_source_port_v4
    a_packet_that_leaves_is_looked_up_as_it_came_in_by_its_protocol_and_source_port_v6);
fn a_packet_that_leaves_is_looked_up_as_it_came_in_by_its_protocol_and_source_port<F: Classed>() {
    let kernel = Kernel::new();
    let [came, translated] = tuples::<F>();
    let (is_found, _) = kernel.at(INTERFACE, &frame(&came, UDP), |context| {
        look_up_from_arrival(context, &translated, UDP).is_ok()
    });
    assert!(is_found);
    let asked: Vec<Asked> = kernel.asked().iter().map(Asked::of).collect();
    let expected = Asked {
        between: between::<F>(CAME_BY),
        protocol: UDP,
        ports: [61_000, 0],
        class: 0,
    };
    assert_eq!(asked, [expected]);
}
