//! Constants that the agent sets before it loads the programs; the verifier removes what they
//! switch off.

use aya_ebpf::Global;
use shunt_common::{PodCidrs, PortRange, V4};

/// Where this node's IPv4 pods take their addresses from.
#[unsafe(no_mangle)]
pub static POD_CIDRS_V4: Global<PodCidrs<V4>> = Global::new(PodCidrs::none(0));

/// The address that a pod sees when it reaches itself through its service, network order.
#[unsafe(no_mangle)]
pub static HAIRPIN_IP_V4: Global<u32> = Global::new(0);

/// The source ports that connections are given.
#[unsafe(no_mangle)]
pub static SNAT_PORTS: Global<PortRange> = Global::new(PortRange { first: 0, count: 1 });
