//! Packets at a TC hook.

use aya_ebpf::{
    bindings::{
        __sk_buff, BPF_F_ADJ_ROOM_ENCAP_L3_IPV4, BPF_F_ADJ_ROOM_ENCAP_L3_IPV6,
        BPF_F_ADJ_ROOM_FIXED_GSO, BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR, TC_ACT_REDIRECT,
        bpf_adj_room_mode::BPF_ADJ_ROOM_MAC, bpf_fib_lookup as FibLookup,
        bpf_redir_neigh as NextHop,
    },
    cty::{c_long, c_void},
    helpers::{
        bpf_csum_update, bpf_fib_lookup, bpf_l4_csum_replace, bpf_redirect, bpf_redirect_neigh,
        bpf_redirect_peer, bpf_skb_adjust_room, bpf_skb_change_head, bpf_skb_change_tail,
        bpf_skb_load_bytes, bpf_skb_pull_data,
    },
    programs::TcContext,
};
use shunt_common::Folded;

use crate::ctx::{
    access::{Access, AccessError, ChecksumField},
    verdict::Verdict,
};

/// `PACKET_BROADCAST`, `PACKET_MULTICAST` and `PACKET_OTHERHOST` of `linux/if_packet.h`.
const PACKET_BROADCAST: u32 = 1;
const PACKET_MULTICAST: u32 = 2;
const PACKET_OTHERHOST: u32 = 3;

/// `GSO_BY_FRAGS` of `linux/skbuff.h`: each segment is a packet of its own in the list, as long as it likes.
const GSO_BY_FRAGS: u32 = 0xffff;
/// Minimum length of the headers of a packet that is still to be cut: IPv4's and UDP's.
const SHORTEST_HEADERS: u32 = 20 + 8;

/// Length of an IPv4 header without options, RFC 791 section 3.1.
const IPV4_HEADER: u32 = 20;

/// A packet at a TC hook. Helpers with `skb` in their names are there for no other program type.
pub(crate) struct Tc(*mut __sk_buff);

impl From<TcContext> for Tc {
    #[inline(always)]
    fn from(context: TcContext) -> Self {
        Self(context.skb.skb)
    }
}

impl Tc {
    /// [`Access::adjust_checksum`] with the helper's own flags.
    #[inline(always)]
    fn replace_checksum(
        &self,
        offset: usize,
        change: Folded,
        flags: u64,
    ) -> Result<(), AccessError> {
        let change = u64::from(change.to_wsum());
        // SAFETY: the context is the kernel's; the helper looks at the bounds itself.
        done(unsafe { bpf_l4_csum_replace(self.0.cast(), offset as u32, 0, change, flags) })
    }
}

impl Access for Tc {
    type Raw = __sk_buff;

    #[inline(always)]
    fn from_raw(raw: *mut __sk_buff) -> Self {
        Self(raw)
    }

    #[inline(always)]
    fn raw(&self) -> *mut __sk_buff {
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
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).len }
    }

    #[inline(always)]
    unsafe fn read_into(&self, bytes: *mut u8, count: u32) -> bool {
        // SAFETY: the context is the kernel's, and the caller has the room.
        unsafe { bpf_skb_load_bytes(self.0.cast(), 0, bytes.cast(), count) == 0 }
    }

    #[inline(always)]
    fn byte(&self, offset: usize) -> Result<u8, AccessError> {
        let mut byte = 0;
        // SAFETY: the context is the kernel's, and there is room for one byte.
        done(unsafe {
            bpf_skb_load_bytes(
                self.0.cast(),
                offset as u32,
                (&raw mut byte).cast::<c_void>(),
                1,
            )
        })?;
        Ok(byte)
    }

    #[inline(always)]
    fn ethertype(&self) -> u32 {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).protocol }
    }

    #[inline(always)]
    fn interface(&self) -> u32 {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).ifindex }
    }

    #[inline(always)]
    fn came_by(&self) -> u32 {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).ingress_ifindex }
    }

    #[inline(always)]
    fn is_of_socket(&self, port: u16) -> bool {
        // SAFETY: the context is the kernel's, and so is the socket, if there is one.
        unsafe {
            let socket = (*self.0).__bindgen_anon_2.sk;
            // Its port in host order.
            (*self.0).ingress_ifindex == 0
                && !socket.is_null()
                && (*socket).src_port == u32::from(u16::from_be(port))
        }
    }

    #[inline(always)]
    fn is_of_vlan(&self) -> bool {
        // Linux before 6.2 leaves the number standing when it takes the tag off.
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).vlan_tci & 0x0fff != 0 && (*self.0).vlan_present != 0 }
    }

    #[inline(always)]
    fn is_for_other_station(&self) -> bool {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).pkt_type == PACKET_OTHERHOST }
    }

    #[inline(always)]
    fn is_for_group(&self) -> bool {
        // SAFETY: the context is the kernel's.
        let kind = unsafe { (*self.0).pkt_type };
        kind == PACKET_BROADCAST || kind == PACKET_MULTICAST
    }

    #[inline(always)]
    fn tag(&self) -> u16 {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).tc_index as u16 }
    }

    /// In `skb->tc_index`, which `ip_copy_metadata` gives each fragment, and which nothing in the
    /// stack reads. A program behind ours that returns `TC_ACT_OK` makes it what `tc_classid` is
    /// (`tcx_run` in net/core/dev.c), so that is written too.
    #[inline(always)]
    fn set_tag(&self, tag: u16) {
        // SAFETY: the context is the kernel's.
        unsafe {
            (*self.0).tc_index = tag.into();
            (*self.0).tc_classid = tag.into();
        }
    }

    #[inline(always)]
    fn segment_size(&self) -> u32 {
        // SAFETY: the context is the kernel's.
        unsafe { (*self.0).gso_size }
    }

    /// The segments of a packet that is still to be cut may be packets of a list (`frag_list`), and stay whole only as
    /// long as nothing is pulled out of that. What comes before the list has at least the shortest headers and one
    /// segment's payload. SCTP's has the transport header and no payload at all.
    #[inline(always)]
    fn pull(&self, length: u32) -> bool {
        let length = match self.segment_size() {
            0 => length,
            GSO_BY_FRAGS => return false,
            segment => length.min(SHORTEST_HEADERS + segment),
        };
        let linear = self.data_end() - self.data();
        let whole = self.length();
        // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
        linear < whole as usize && unsafe { bpf_skb_pull_data(self.0, whole.min(length)) } == 0
    }

    #[inline(always)]
    fn truncate(&self, length: u32) -> Result<(), AccessError> {
        // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
        done(unsafe { bpf_skb_change_tail(self.0, length, 0) })
    }

    #[inline(always)]
    fn insert_after_link(&self, length: u32) -> Result<(), AccessError> {
        // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
        done(unsafe { bpf_skb_adjust_room(self.0, length as i32, BPF_ADJ_ROOM_MAC, 0) })
    }

    /// The kernel has to know that it is an envelope: it cuts the inner packet into segments, each with a
    /// copy of the header. They stay as long as they are, since an envelope holds what was sent. Of a packet that
    /// [`Self::unwrap`] has taken out of another envelope it knows that still, and refuses to be notified again
    /// (`bpf_skb_net_grow` of net/core/filter.c).
    #[inline(always)]
    fn wrap(&self, length: u32) -> Result<(), AccessError> {
        let encapsulation = if length == IPV4_HEADER {
            BPF_F_ADJ_ROOM_ENCAP_L3_IPV4
        } else {
            BPF_F_ADJ_ROOM_ENCAP_L3_IPV6
        };
        let grow = |flags: u32| {
            let flags = u64::from(flags | BPF_F_ADJ_ROOM_FIXED_GSO);
            // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
            done(unsafe { bpf_skb_adjust_room(self.0, length as i32, BPF_ADJ_ROOM_MAC, flags) })
        };
        grow(encapsulation).or_else(|_| grow(0))
    }

    #[inline(always)]
    fn unwrap(&self, length: u32) -> Result<(), AccessError> {
        let flags = u64::from(BPF_F_ADJ_ROOM_FIXED_GSO);
        // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
        done(unsafe { bpf_skb_adjust_room(self.0, -(length as i32), BPF_ADJ_ROOM_MAC, flags) })
    }

    #[inline(always)]
    fn insert_link(&self, length: u32) -> Result<(), AccessError> {
        // SAFETY: the context is the kernel's, and no reference into the packet outlives this.
        done(unsafe { bpf_skb_change_head(self.0, length, 0) })
    }

    #[inline(always)]
    fn adjust_checksum(
        &self,
        offset: usize,
        change: Folded,
        is_address: bool,
    ) -> Result<(), AccessError> {
        let flags = if is_address { PSEUDO_HEADER } else { 0 };
        self.replace_checksum(offset, change, flags)
    }

    /// The kernel's helper alone knows whether the field holds a whole checksum or, with
    /// `CHECKSUM_PARTIAL`, only the pseudo header's part, which addresses change and ports do not;
    /// and it keeps `skb->csum` of `CHECKSUM_COMPLETE` true.
    #[inline(always)]
    fn adjust_segment_checksum(
        &self,
        offset: usize,
        was: u16,
        addresses: Folded,
        ports: Folded,
        zero_is_none: bool,
    ) -> Result<ChecksumField, AccessError> {
        let flags = if zero_is_none {
            u64::from(BPF_F_MARK_MANGLED_0)
        } else {
            0
        };
        self.replace_checksum(offset, addresses, flags | PSEUDO_HEADER)?;
        // What the helper did shows what the field holds: a checksum went down by the addresses'
        // difference, the pseudo header's part went up. A checksum covers the ports too, and has
        // their difference at once, which saves a second call of the helper.
        let checksum = self.at_mut::<u16>(offset)?;
        let whole = addresses.apply(was);
        if *checksum == whole && !addresses.is_zero() {
            let new = ports.apply(whole);
            // 0 would mean that there is none.
            *checksum = if zero_is_none && new == 0 { !0 } else { new };
        } else if *checksum == addresses.add_to(was) && !addresses.is_zero() {
            return Ok(ChecksumField::Partial);
        } else {
            self.replace_checksum(offset, ports, flags)?;
        }
        Ok(ChecksumField::Whole)
    }

    #[inline(always)]
    fn adjust_frame_sum(&self, change: Folded) {
        // SAFETY: the context is the kernel's. The helper fails where there is no such sum.
        let _ = unsafe { bpf_csum_update(self.0, change.to_wsum()) };
    }

    #[inline(always)]
    fn fib_lookup(&self, lookup: &mut FibLookup) -> Result<u32, AccessError> {
        // SAFETY: the helper gets the context and the right number of bytes.
        let result =
            unsafe { bpf_fib_lookup(self.0.cast(), lookup, size_of::<FibLookup>() as i32, 0) };
        u32::try_from(result).map_err(|_| AccessError::Refused)
    }

    #[inline(always)]
    fn send_back(&self) -> Result<Verdict, AccessError> {
        self.send_out(self.interface())
    }

    #[inline(always)]
    fn send_out(&self, interface: u32) -> Result<Verdict, AccessError> {
        // SAFETY: the helper takes any interface index.
        redirected(unsafe { bpf_redirect(interface, 0) })
    }

    #[inline(always)]
    fn send_to_peer(&self, interface: u32) -> Result<Verdict, AccessError> {
        // SAFETY: the helper takes any interface index.
        redirected(unsafe { bpf_redirect_peer(interface, 0) })
    }

    #[inline(always)]
    fn send_to_neighbour(
        &self,
        interface: u32,
        next_hop: &mut NextHop,
    ) -> Result<Verdict, AccessError> {
        let length = size_of::<NextHop>() as i32;
        // SAFETY: the helper gets the right number of bytes.
        redirected(unsafe { bpf_redirect_neigh(interface, next_hop, length, 0) })
    }
}

const PSEUDO_HEADER: u64 = BPF_F_PSEUDO_HDR as u64;

/// Returns whether a helper that returns 0 or an error has succeeded.
#[inline(always)]
const fn done(result: c_long) -> Result<(), AccessError> {
    if result == 0 {
        Ok(())
    } else {
        Err(AccessError::Refused)
    }
}

/// Returns the verdict after a helper that redirects.
#[inline(always)]
fn redirected(result: c_long) -> Result<Verdict, AccessError> {
    if result == c_long::from(TC_ACT_REDIRECT) {
        Ok(Verdict::REDIRECT)
    } else {
        Err(AccessError::Refused)
    }
}
