//! Direct server return over a path that is narrower than the first node's interface.

use shunt_tests::{Transport, by_length};

use crate::{
    dsr::connection_to,
    dsr_world::{A, B, World},
    dual_stack::Family,
};

/// MTU between the router and the backend's node.
const NARROW: u16 = 1400;

/// Sizes of a transfer, in bytes: several congestion windows.
const BYTES: (u64, u64) = ((4 << 20) + 321, (64 << 20) + 321);

#[test]
fn an_upload_fits_a_path_whose_route_has_its_mtu() {
    upload("off");
}

#[test]
fn an_upload_in_envelopes_of_the_drivers_fits_a_path_whose_route_has_its_mtu() {
    upload("native");
}

fn upload(xdp: &str) {
    let Some(world) = World::new(Transport::Tcp, "dsr", xdp) else {
        return;
    };
    let narrow = |interface| format!("link set {interface} mtu {NARROW}\n");
    world.router.configure(&narrow("node-b")).unwrap();
    world.node(B).configure(&narrow("eth0")).unwrap();
    for family in Family::BOTH {
        // Not locked: the kernel would heed it for its own packets alone.
        let [to, via] = [B.address(), A.router()].map(|address| family.of(address));
        let route = format!("route add {to} via {via} mtu {NARROW}\n");
        world.node(A).configure(&route).unwrap();
    }
    let bytes = by_length(BYTES.0, BYTES.1);
    for family in Family::BOTH {
        let before = world.counted(A, "wrapped");
        let (mut connection, _) = connection_to(&world, family, "node-b");
        connection.send(bytes).unwrap();
        connection.fetch(bytes).unwrap();
        assert!(world.counted(A, "wrapped") > before, "{family:?}");
    }
    assert!(world.counted(A, "reject_too_long") > 0);
}
