//! Packets at an XDP hook: frames as the driver has them.
//!
//! What stands in the frame is all that is known of a packet. So a checksum is taken for whole: that
//! one is still to be filled in, as on a veth pair, cannot be seen here. There are no segments still
//! to be cut, no sums by the hardware, and nothing that a packet could be marked with.

use aya_ebpf::{
    bindings::{
        bpf_fib_lookup as FibLookup, bpf_redir_neigh as NextHop, xdp_action::XDP_REDIRECT, xdp_md,
    },
    cty::c_long,
    helpers::{
        bpf_fib_lookup, bpf_redirect, bpf_xdp_adjust_head, bpf_xdp_adjust_tail, bpf_xdp_load_bytes,
    },
    programs::XdpContext,
};
use shunt_common::Folded;

use crate::ctx::{
    access::{Access, AccessError, ChecksumField},
    verdict::Verdict,
};

/// Offset of the EtherType in a frame.
const ETHERTYPE: usize = 12;

/// Header before the network header, to be copied by halves of words rather than byte by byte.
type LinkHeader = [u16; 7];

/// A packet at an XDP hook, with an Ethernet header.
pub(crate) struct Xdp(*mut xdp_md);

impl From<XdpContext> for Xdp {
    #[inline(always)]
    fn from(context: XdpContext) -> Self {
        Self(context.ctx)
    }
}

impl Access for Xdp {
    type Raw = xdp_md;

    #[inline(always)]
    fn from_raw(raw: *mut xdp_md) -> Self {
        Self(raw)
    }

    #[inline(always)]
    fn raw(&self) -> *mut xdp_md {
        self.0
    }

    #[inline(always)]
    fn data(&self) -> usize {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).data as usize }
    }

    #[inline(always)]
    fn data_end(&self) -> usize {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).data_end as usize }
    }

    #[inline(always)]
    fn length(&self) -> u32 {
        (self.data_end() - self.data()) as u32
    }

    #[inline(always)]
    unsafe fn read_into(&self, bytes: *mut u8, count: u32) -> bool {
        // SAFETY: the context is the kernel's, and the caller has the room.
        unsafe { bpf_xdp_load_bytes(self.0, 0, bytes.cast(), count) == 0 }
    }

    #[inline(always)]
    fn byte(&self, offset: usize) -> Result<u8, AccessError> {
        self.at::<u8>(offset).copied()
    }

    /// That of a tag, if the frame has one: then it is neither family's.
    #[inline(always)]
    fn ethertype(&self) -> u32 {
        self.at::<u16>(ETHERTYPE)
            .map_or(0, |ethertype| u32::from(*ethertype))
    }

    #[inline(always)]
    fn interface(&self) -> u32 {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).ingress_ifindex }
    }

    #[inline(always)]
    fn came_by(&self) -> u32 {
        self.interface()
    }

    #[inline(always)]
    fn is_of_socket(&self, _: u16) -> bool {
        false
    }

    #[inline(always)]
    fn is_of_vlan(&self) -> bool {
        false
    }

    /// Always false: only the interface's own address, which a table has, shows the station of a frame.
    #[inline(always)]
    fn is_for_other_station(&self) -> bool {
        false
    }

    /// The first bit on the wire, IEEE 802 section 8.2. Of a single byte at the frame's begin the
    /// verifier does not see that it is there (`find_good_pkt_pointers` in kernel/bpf/verifier.c).
    #[inline(always)]
    fn is_for_group(&self) -> bool {
        self.at::<[u8; 6]>(0)
            .is_ok_and(|[first, ..]| *first & 1 != 0)
    }

    #[inline(always)]
    fn tag(&self) -> u16 {
        0
    }

    #[inline(always)]
    fn set_tag(&self, _: u16) {}

    #[inline(always)]
    fn segment_size(&self) -> u32 {
        0
    }

    /// The frame is all there.
    #[inline(always)]
    fn pull(&self, _: u32) -> bool {
        false
    }

    #[inline(always)]
    fn truncate(&self, length: u32) -> Result<(), AccessError> {
        let change = length.wrapping_sub(self.length()).cast_signed();
        // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
        done(unsafe { bpf_xdp_adjust_tail(self.0, change) })
    }

    #[inline(always)]
    fn insert_after_link(&self, length: u32) -> Result<(), AccessError> {
        self.insert_link(length)?;
        let link = *self.at::<LinkHeader>(length as usize)?;
        *self.at_mut::<LinkHeader>(0)? = link;
        Ok(())
    }

    #[inline(always)]
    fn wrap(&self, length: u32) -> Result<(), AccessError> {
        self.insert_link(length)?;
        let ethertype = *self.at::<u16>(length as usize + ETHERTYPE)?;
        *self.at_mut::<u16>(ETHERTYPE)? = ethertype;
        Ok(())
    }

    #[inline(always)]
    fn unwrap(&self, length: u32) -> Result<(), AccessError> {
        let link = *self.at::<LinkHeader>(0)?;
        *self.at_mut::<LinkHeader>(length as usize)? = link;
        // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
        done(unsafe { bpf_xdp_adjust_head(self.0, length.cast_signed()) })
    }

    #[inline(always)]
    fn insert_link(&self, length: u32) -> Result<(), AccessError> {
        // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
        done(unsafe { bpf_xdp_adjust_head(self.0, -length.cast_signed()) })
    }

    #[inline(always)]
    fn adjust_checksum(&self, offset: usize, change: Folded, _: bool) -> Result<(), AccessError> {
        let checksum = self.at_mut::<u16>(offset)?;
        *checksum = change.apply(*checksum);
        Ok(())
    }

    #[inline(always)]
    fn adjust_segment_checksum(
        &self,
        offset: usize,
        was: u16,
        addresses: Folded,
        ports: Folded,
        zero_is_none: bool,
    ) -> Result<ChecksumField, AccessError> {
        let new = ports.apply(addresses.apply(was));
        *self.at_mut::<u16>(offset)? = if zero_is_none && new == 0 { !0 } else { new };
        Ok(ChecksumField::Whole)
    }

    #[inline(always)]
    fn adjust_frame_sum(&self, _: Folded) {}

    #[inline(always)]
    fn fib_lookup(&self, lookup: &mut FibLookup) -> Result<u32, AccessError> {
        // SAFETY: the helper gets the context and the right number of bytes.
        let result =
            unsafe { bpf_fib_lookup(self.0.cast(), lookup, size_of::<FibLookup>() as i32, 0) };
        u32::try_from(result).map_err(|_| AccessError::Refused)
    }

    #[inline(always)]
    fn send_back(&self) -> Result<Verdict, AccessError> {
        Ok(Verdict::BACK)
    }

    #[inline(always)]
    fn send_out(&self, interface: u32) -> Result<Verdict, AccessError> {
        // SAFETY: the helper takes any interface index.
        if unsafe { bpf_redirect(interface, 0) } == c_long::from(XDP_REDIRECT) {
            Ok(Verdict::REDIRECT)
        } else {
            Err(AccessError::Refused)
        }
    }

    /// The kernel gives packets to a peer behind its driver only.
    #[inline(always)]
    fn send_to_peer(&self, _: u32) -> Result<Verdict, AccessError> {
        Err(AccessError::Refused)
    }

    /// The kernel finds out link addresses behind its driver only.
    #[inline(always)]
    fn send_to_neighbour(&self, _: u32, _: &mut NextHop) -> Result<Verdict, AccessError> {
        Err(AccessError::Refused)
    }
}

/// Returns whether a helper that returns 0 or an error has succeeded.
#[inline(always)]
const fn done(result: c_long) -> Result<(), AccessError> {
    if result == 0 {
        Ok(())
    } else {
        Err(AccessError::Refused)
    }
}
