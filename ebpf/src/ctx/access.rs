//! The trait through which all other code reads, changes and sends a packet.

use aya_ebpf::bindings::{bpf_fib_lookup as FibLookup, bpf_redir_neigh as NextHop};
use shunt_common::Folded;

use crate::ctx::verdict::Verdict;

/// Why something could not be done to a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessError {
    /// The place is beyond the packet's linear part.
    OutOfBounds,
    /// A helper of the kernel's failed, or what was asked is impossible for this packet.
    Refused,
}

/// Content of the checksum field of a segment or datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumField {
    /// A checksum; or a field of unknown content.
    Whole,
    /// Only the pseudo header's part: the hardware is to fill in the rest, and there is no sum over
    /// the frame.
    Partial,
}

/// A packet in the hands of a program, whatever the program's type.
///
/// What only some program types have stands behind a method of its own: sums that the hardware
/// has taken (`skb->csum`), checksums that it is still to fill in (`CHECKSUM_PARTIAL`), segments
/// that are still to be cut (GSO). A type without them has nothing to do there.
pub(crate) trait Access {
    /// Type of the kernel's context, to which a program gets a pointer; BPF subprograms are given the same.
    type Raw;

    /// The context of a BPF subprogram, from what its caller's [`Self::raw`] gave.
    fn from_raw(raw: *mut Self::Raw) -> Self;

    /// The context as the kernel gave it.
    fn raw(&self) -> *mut Self::Raw;

    /// Returns the address of the packet's linear part.
    fn data(&self) -> usize;

    /// Returns the address of its end.
    fn data_end(&self) -> usize;

    /// The length of the whole frame in bytes.
    fn length(&self) -> u32;

    /// Copies the first `count` bytes of the frame, which are at most 128, to `bytes`, wherever they are. Returns
    /// whether it could.
    ///
    /// # Safety
    ///
    /// There is room for as many.
    unsafe fn read_into(&self, bytes: *mut u8, count: u32) -> bool;

    /// The byte at `offset` of the frame, whether it is in the linear part or not.
    fn byte(&self, offset: usize) -> Result<u8, AccessError>;

    /// The EtherType, in network order: a `__be16` in a word, as `__sk_buff::protocol` holds it.
    fn ethertype(&self) -> u32;

    /// The index of the interface that the packet is at.
    fn interface(&self) -> u32;

    /// The index of the interface by which the packet came into this host; 0: the host has made it.
    fn came_by(&self) -> u32;

    /// Returns whether a socket of this host's at this port, network order, has sent the packet. Of one whose socket
    /// the kernel has let go by now, that is not known.
    fn is_of_socket(&self, port: u16) -> bool;

    /// Returns whether the packet is of a VLAN: it only passes this interface, and is the VLAN's
    /// interface's, which has programs of its own. VLAN 0 is none, but a priority (IEEE 802.1Q
    /// section 9.6).
    fn is_of_vlan(&self) -> bool;

    /// Returns whether the link's header names another station, so that the packet was only overheard.
    fn is_for_other_station(&self) -> bool;

    /// Returns whether the link's header names several stations: broadcast or multicast.
    fn is_for_group(&self) -> bool;

    /// Returns the number that [`Self::set_tag`] has left with the packet, wherever it was; 0 if nothing.
    fn tag(&self) -> u16;

    /// Leaves a number with the packet. It stays with it, and with its fragments, through the
    /// stack.
    fn set_tag(&self, tag: u16);

    /// Returns the number of payload bytes of each segment into which the kernel is still to cut the
    /// packet; 0: it is not to be cut.
    fn segment_size(&self) -> u32;

    /// Moves the first `length` bytes into the linear part, or all there are; of a packet that is still to be cut, none
    /// of its second segment. Returns whether more of them are there now.
    fn pull(&self, length: u32) -> bool;

    /// Cuts the packet off behind its first `length` bytes.
    fn truncate(&self, length: u32) -> Result<(), AccessError>;

    /// Makes room for `length` bytes between the link's header and what follows it.
    fn insert_after_link(&self, length: u32) -> Result<(), AccessError>;

    /// Makes room for the network header of `length` bytes of an envelope, behind the link's header, whose
    /// addresses are for the sender of the packet to write. The packet stays of the same family.
    fn wrap(&self, length: u32) -> Result<(), AccessError>;

    /// Takes the `length` bytes behind the link's header away, the network header of an envelope.
    fn unwrap(&self, length: u32) -> Result<(), AccessError>;

    /// Makes room for a link header of `length` bytes in front of a packet that has none.
    fn insert_link(&self, length: u32) -> Result<(), AccessError>;

    /// Makes the checksum at `offset` follow a change of what it covers. `is_address`: the change
    /// is one of the pseudo header.
    fn adjust_checksum(
        &self,
        offset: usize,
        change: Folded,
        is_address: bool,
    ) -> Result<(), AccessError>;

    /// Makes the checksum of a segment or datagram, at `offset` and until now `was`, follow a change
    /// of the addresses and one of the ports, which have been written already. `zero_is_none`: 0
    /// would mean that there is no checksum; `was` is another value then. Returns what the field was
    /// seen to hold.
    fn adjust_segment_checksum(
        &self,
        offset: usize,
        was: u16,
        addresses: Folded,
        ports: Folded,
        zero_is_none: bool,
    ) -> Result<ChecksumField, AccessError>;

    /// Notifies the kernel that the sum over the frame has changed, if it has one from the hardware
    /// (`CHECKSUM_COMPLETE`). The methods above do so by themselves, for the checksum's field.
    fn adjust_frame_sum(&self, change: Folded);

    /// Looks up the way that `lookup` describes in the kernel's routing tables. Returns a
    /// `BPF_FIB_LKUP_RET_`; the way is in `lookup` then.
    fn fib_lookup(&self, lookup: &mut FibLookup) -> Result<u32, AccessError>;

    /// Has the kernel send the packet out of the interface that it came in by, as it is.
    fn send_back(&self) -> Result<Verdict, AccessError>;

    /// Has the kernel send the packet out of `interface`, with the link's header that it has.
    fn send_out(&self, interface: u32) -> Result<Verdict, AccessError>;

    /// Has the kernel hand the packet to the other end of a veth pair or of a netkit pair, whose
    /// end here is `interface`.
    fn send_to_peer(&self, interface: u32) -> Result<Verdict, AccessError>;

    /// Has the kernel send the packet to a neighbour behind `interface`, whose link address it
    /// finds out itself.
    fn send_to_neighbour(
        &self,
        interface: u32,
        next_hop: &mut NextHop,
    ) -> Result<Verdict, AccessError>;

    /// The `T` at `offset` of the packet's linear part.
    ///
    /// A header may stand at any address. Its fields are loaded in their whole width all the same:
    /// BPF has no alignment faults on a packet where the machine has none, and where it has, the
    /// verifier rejects the program. Byte-wise loads would cost four instructions for one.
    #[inline(always)]
    fn at<T>(&self, offset: usize) -> Result<&T, AccessError> {
        let pointer = checked::<T>(self, offset)?;
        // SAFETY: `checked` compared the end of `T` with the end of the packet, every bit pattern
        // is a header, and the alignment is as explained above.
        Ok(unsafe { &*pointer })
    }

    /// As [`Self::at`], for writing.
    #[inline(always)]
    #[expect(
        clippy::mut_from_ref,
        reason = "the packet is not the context's own memory"
    )]
    fn at_mut<T>(&self, offset: usize) -> Result<&mut T, AccessError> {
        let pointer = checked::<T>(self, offset)?;
        // SAFETY: as in `at`; the caller holds no other reference into the packet.
        Ok(unsafe { &mut *pointer.cast_mut() })
    }
}

/// Returns a pointer to a `T` at `offset`, within the bounds that the verifier demands.
#[inline(always)]
fn checked<T>(context: &(impl Access + ?Sized), offset: usize) -> Result<*const T, AccessError> {
    let start = context.data() + offset;
    if start + size_of::<T>() > context.data_end() {
        return Err(AccessError::OutOfBounds);
    }
    Ok(core::ptr::with_exposed_provenance(start))
}
