//! Minimum cost of translation, written by hand: a packet's flow is looked up in a kernel hash
//! with a 16-byte key, and gets another destination with right checksums, for which one helper is
//! called.

use aya_ebpf::{
    bindings::{BPF_F_PSEUDO_HDR, TC_ACT_SHOT, TC_ACT_UNSPEC},
    btf_maps::HashMap,
    helpers::bpf_l4_csum_replace,
    macros::{btf_map, classifier},
    programs::TcContext,
};
use shunt_common::feeder::{Floor, Flow};

use crate::{read, write};

const PROTOCOL: usize = 14 + 9;
const NETWORK_CHECKSUM: usize = 14 + 10;
const ADDRESSES: usize = 14 + 12;
const DESTINATION: usize = 14 + 16;
const PORTS: usize = 14 + 20;
const DESTINATION_PORT: usize = PORTS + 2;
const TRANSPORT_CHECKSUM: usize = PORTS + 16;
const LENGTH: usize = PORTS + 20;

/// Flows, and where they go.
#[btf_map]
pub(crate) static FLOWS: HashMap<Flow, Floor, 1024> = HashMap::new();

/// Translates TCP over IPv4 without options. Another packet, and one of an unknown flow, is
/// `TC_ACT_SHOT`, so that a bench sees it.
#[classifier]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor(context: TcContext) -> i32 {
    let start = context.data();
    if start + LENGTH > context.data_end() {
        return TC_ACT_SHOT;
    }
    // SAFETY: the comparison above.
    let (addresses, ports, protocol) = unsafe {
        (
            read::<u64>(start + ADDRESSES),
            read::<u32>(start + PORTS),
            read::<u8>(start + PROTOCOL),
        )
    };
    let flow = Flow {
        addresses,
        rest: u64::from(ports) | u64::from(protocol) << 32,
    };
    // SAFETY: the value is read before it can be replaced, and a bench replaces none.
    let Some(&Floor { address, port }) = (unsafe { FLOWS.get(flow) }) else {
        return TC_ACT_SHOT;
    };
    let (old_address, old_port) = ((addresses >> 32) as u32, ports >> 16);
    // The change of the checksums, as `bpf_csum_diff` would return it.
    let of_address = u64::from(!old_address) + u64::from(address);
    let of_both = of_address + u64::from(!old_port & 0xffff) + u64::from(port);
    // SAFETY: the comparison above.
    unsafe {
        let checksum: u16 = read(start + NETWORK_CHECKSUM);
        let sum = u64::from(!checksum) + (of_address & 0xffff_ffff) + (of_address >> 32);
        let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        write(
            start + NETWORK_CHECKSUM,
            !((sum & 0xffff) + (sum >> 16)) as u16,
        );
        write(start + DESTINATION, address);
        write(start + DESTINATION_PORT, port as u16);
    }
    // SAFETY: the context is the kernel's, and the offset is inside the packet.
    unsafe {
        bpf_l4_csum_replace(
            context.skb.skb,
            TRANSPORT_CHECKSUM as u32,
            0,
            (of_both & 0xffff_ffff) + (of_both >> 32),
            u64::from(BPF_F_PSEUDO_HDR),
        );
    }
    TC_ACT_UNSPEC
}
