//! Packets that go through the stack half translated, and others whose entry in the table has the same number.

use shunt_common::{TCP, Tuple, UDP, V4, V6};

use crate::{
    ctx::{access::Access as _, tc::Tc},
    forward::{
        origin::is_let_through,
        stack::{hand_over, take_back},
    },
    packet::parsed::{Form, Packet},
    tests::{
        both_families,
        kernel::{CAME_BY, HZ, Kernel},
        sample::{Sample, frame, packet, tuple},
    },
};

/// The interface at which the packets are.
const INTERFACE: u32 = 5;

/// The seconds after which the stack holds a packet no longer.
const HELD: u32 = 33;

/// A flow's tuples: as it comes in, and as it goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Flow<F: Sample> {
    came: Tuple<F>,
    goes: Tuple<F>,
}

impl<F: Sample> Flow<F> {
    fn new(client: (u32, u16), backend: (u32, u16)) -> Self {
        Self {
            came: tuple(client, (1, 80)),
            goes: tuple((2, 61_000), backend),
        }
    }

    fn packet(&self) -> Packet<F> {
        packet(&self.came, UDP)
    }

    /// Hands a packet over. Returns its tag, and the tuple that it has in the stack.
    fn hand_over(&self, context: &Tc) -> (u16, Tuple<F>) {
        let mut translated = self.goes;
        hand_over(context, &self.packet(), &mut translated);
        (context.tag(), translated)
    }
}

/// The client and the backend of the flow.
const CLIENT: (u32, u16) = (7, 40_000);
const BACKEND: (u32, u16) = (0x1_0003, 8080);

/// The flow, and those that differ from it in one field each and have an entry of the same number: in the client's
/// address, its port, the backend's address, its port.
fn flows<F: Sample>(context: &Tc) -> (Flow<F>, [Flow<F>; 4]) {
    let flow = Flow::new(CLIENT, BACKEND);
    let (tag, _) = flow.hand_over(context);
    let find = |other: &dyn Fn(u16) -> Flow<F>| {
        let others = (1..=u16::MAX).map(other);
        let mut others = others.filter(|other| *other != flow);
        let same = others.find(|other| other.hand_over(context).0 == tag);
        same.expect("sixteen times as many flows as there are numbers")
    };
    let others = [
        find(&|number| Flow::new((u32::from(number) << 4, CLIENT.1), BACKEND)),
        find(&|number| Flow::new((CLIENT.0, number), BACKEND)),
        find(&|number| Flow::new(CLIENT, (0x10_0000 | u32::from(number), BACKEND.1))),
        find(&|number| Flow::new(CLIENT, (BACKEND.0, number))),
    ];
    (flow, others)
}

/// Takes a packet back that leaves the stack with this tag. Returns the tuple with which it goes on.
fn taken_back<F: Sample>(context: &Tc, tag: u16, packet: &Packet<F>) -> Option<Tuple<F>> {
    context.set_tag(tag);
    let mut translated = packet.tuple;
    take_back(context, packet, &mut translated).then_some(translated)
}

/// Runs a test at a frame of the flow.
fn at_frame<F: Sample>(kernel: &Kernel, test: impl FnOnce(&Tc)) {
    let came = tuple::<F>(CLIENT, (1, 80));
    kernel.at(INTERFACE, &frame(&came, UDP), test);
}

both_families!(of_two_packets_with_one_number_none_gets_the_other_ones_source:
    of_two_packets_with_one_number_none_gets_the_other_ones_source_v4
    of_two_packets_with_one_number_none_gets_the_other_ones_source_v6);
fn of_two_packets_with_one_number_none_gets_the_other_ones_source<F: Sample>() {
    let kernel = Kernel::new();
    at_frame::<F>(&kernel, |context| {
        let (flow, others) = flows::<F>(context);
        for other in others {
            let (tag, halfway) = flow.hand_over(context);
            let of_flow = packet(&halfway, UDP);
            assert!(taken_back(context, tag, &of_flow) == Some(flow.goes));
            let (_, halfway) = other.hand_over(context);
            let of_other = packet(&halfway, UDP);
            assert!(taken_back(context, tag, &of_flow).is_none());
            assert!(taken_back(context, tag, &of_other) == Some(other.goes));
        }
        let (tag, halfway) = flow.hand_over(context);
        assert!(taken_back(context, tag, &packet(&halfway, TCP)).is_none());
        assert!(taken_back(context, 0, &packet(&halfway, UDP)).is_none());
    });
}

both_families!(a_source_that_the_hosts_rules_have_changed_counts_if_no_other_flow_had_the_entry:
    a_source_that_the_hosts_rules_have_changed_counts_if_no_other_flow_had_the_entry_v4
    a_source_that_the_hosts_rules_have_changed_counts_if_no_other_flow_had_the_entry_v6);
fn a_source_that_the_hosts_rules_have_changed_counts_if_no_other_flow_had_the_entry<F: Sample>() {
    let kernel = Kernel::new();
    at_frame::<F>(&kernel, |context| {
        let (flow, others) = flows::<F>(context);
        for other in others {
            kernel.pass(HELD * HZ);
            let (tag, halfway) = flow.hand_over(context);
            let changed = Tuple {
                source: F::host(2),
                source_port: 50_000_u16.to_be(),
                ..halfway
            };
            let changed = packet(&changed, UDP);
            assert!(taken_back(context, tag, &changed) == Some(flow.goes));
            other.hand_over(context);
            flow.hand_over(context);
            assert!(taken_back(context, tag, &changed).is_none());
            kernel.pass((HELD - 1) * HZ);
            assert!(taken_back(context, tag, &changed).is_none());
            kernel.pass(HZ);
            assert!(taken_back(context, tag, &changed) == Some(flow.goes));
        }
    });
}

both_families!(an_error_is_translated_as_the_packet_that_it_is_about:
    an_error_is_translated_as_the_packet_that_it_is_about_v4
    an_error_is_translated_as_the_packet_that_it_is_about_v6);
fn an_error_is_translated_as_the_packet_that_it_is_about<F: Sample>() {
    let kernel = Kernel::new();
    at_frame::<F>(&kernel, |context| {
        let (flow, others) = flows::<F>(context);
        let error = |halfway: Tuple<F>, protocol| Packet {
            form: Form::Error,
            ..packet(&halfway.reversed(), protocol)
        };
        let halfways = others.map(|other| other.hand_over(context).1);
        let (_, halfway) = flow.hand_over(context);
        let expected = flow.came.reversed();
        assert!(taken_back(context, 0, &error(halfway, UDP)) == Some(expected));
        assert!(taken_back(context, 0, &error(halfway, TCP)).is_none());
        for halfway in halfways {
            assert!(taken_back(context, 0, &error(halfway, UDP)).is_none());
        }
    });
}

#[test]
fn what_has_left_the_stack_shows_that_its_source_may_come_in_there_for_a_second() {
    let kernel = Kernel::new();
    at_frame::<V4>(&kernel, |context| {
        let (flow, others) = flows::<V4>(context);
        let is_through = |source, interface| is_let_through::<V4>(&source, interface);
        let client = flow.came.source;
        let (tag, halfway) = flow.hand_over(context);
        assert!(!is_through(client, CAME_BY), "still in the stack");
        assert!(taken_back(context, tag, &packet(&halfway, UDP)).is_some());
        kernel.pass(HZ - 1);
        assert!(is_through(client, CAME_BY));
        assert!(!is_through(client, CAME_BY + 1), "by another interface");
        assert!(
            !is_through(others[0].came.source, CAME_BY),
            "another source"
        );
        // What other flows do in the stack changes nothing.
        for other in others {
            other.hand_over(context);
        }
        assert!(is_through(client, CAME_BY));
        kernel.pass(1);
        assert!(!is_through(client, CAME_BY), "a second later");
    });
}

#[test]
fn the_stack_judges_no_source_of_ipv6() {
    let kernel = Kernel::new();
    at_frame::<V6>(&kernel, |context| {
        let (flow, _) = flows::<V6>(context);
        let (tag, halfway) = flow.hand_over(context);
        assert!(taken_back(context, tag, &packet(&halfway, UDP)).is_some());
        assert!(!is_let_through::<V6>(&flow.came.source, CAME_BY));
    });
    assert_eq!(kernel.entries("LET_THROUGH"), 0);
}
