//! The kernel programs as the build script made them, and what they are called.

use crate::object::embedded::Embedded;

/// The object.
pub(crate) static OBJECT: Embedded =
    Embedded::new(include_bytes!(concat!(env!("OUT_DIR"), "/shunt.o.gz")));
/// The object with programs that report connections and packets, and do all that the others do.
pub(crate) static FLOW_OBJECT: Embedded = Embedded::new(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/shunt-flows.o.gz"
)));

/// The object with programs that do nothing.
pub(crate) static SPARE_OBJECT: Embedded = Embedded::new(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/shunt-spare.o.gz"
)));
/// Their names.
pub(crate) const SPARES: [&str; 4] = ["spare0", "spare1", "spare2", "spare3"];

/// The program at the ingress of a client's interface.
pub(crate) const INGRESS: &str = "tc_ingress";
/// The program at its egress.
pub(crate) const EGRESS: &str = "tc_egress";
/// The program at the ingress of an interface whose packets have no link-layer header.
pub(crate) const INGRESS_L3: &str = "tc_ingress_l3";
/// The program at its egress.
pub(crate) const EGRESS_L3: &str = "tc_egress_l3";
/// The programs that these hand packets of IPv6 over to.
pub(crate) const INGRESS_V6: &str = "ingress_v6";
pub(crate) const EGRESS_V6: &str = "egress_v6";
pub(crate) const INGRESS_V6_L3: &str = "ingress_v6_l3";
pub(crate) const EGRESS_V6_L3: &str = "egress_v6_l3";
/// The program at the drivers of uplinks.
pub(crate) const XDP: &str = "xdp_uplink";
