//! The XDP program.

use aya_ebpf::{macros::xdp, programs::XdpContext};

use crate::{ctx::xdp::Xdp, pipeline::uplink::entry};

/// Hook: the driver of an interface with clients outside and backends elsewhere behind it, before
/// the kernel makes anything of a frame.
#[xdp]
#[inline(always)]
pub(crate) fn xdp_uplink(context: XdpContext) -> u32 {
    entry::handle(&Xdp::from(context)).xdp_action()
}
