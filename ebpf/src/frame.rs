//! Access to the bytes of a frame, within the bounds that the verifier demands.

use core::ptr;

use aya_ebpf::programs::TcContext;

/// Why a packet could not be read.
pub enum Unreadable {
    /// Its headers go beyond what is there.
    Truncated,
    /// It has more extension headers than are walked.
    TooManyHeaders,
    /// It is something that we do not translate.
    Foreign,
}

/// Where a header begins in the frame, remembered in a structure.
///
/// The verifier forgets the bounds of what is copied there; they are said again at each use.
#[derive(Clone, Copy)]
pub struct Offset(u16);

impl Offset {
    /// All headers that are read begin below this: twice the longest network header, with an
    /// ICMP error's own between, in the longer of the families.
    const BOUND: u16 = 0x3ff;

    #[inline(always)]
    pub const fn new(offset: usize) -> Self {
        Self(offset as u16)
    }

    #[inline(always)]
    pub fn get(self) -> usize {
        usize::from(self.0 & Self::BOUND)
    }
}

/// The addresses of an Ethernet header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EthernetAddresses {
    pub destination: [u8; 6],
    pub source: [u8; 6],
}

/// How much of a packet is headers.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Where the network header begins.
    pub network: usize,
    /// Where what follows the transport header begins.
    pub payload: usize,
}

/// The `T` at `offset` of the packet's linear part.
///
/// A header may stand at any address. Its fields are loaded in their whole width all the same:
/// BPF has no alignment faults on a packet where the machine has none, and where it has, the
/// verifier rejects the program. Byte-wise loads would cost four instructions for one.
#[inline(always)]
pub fn at<T>(context: &TcContext, offset: usize) -> Result<&T, Unreadable> {
    let pointer = checked::<T>(context, offset)?;
    // SAFETY: `checked` compared the end of `T` with the end of the packet, every bit pattern is
    // a header, and the alignment is as said above.
    Ok(unsafe { &*pointer })
}

/// As [`at`], for writing.
#[inline(always)]
#[expect(
    clippy::mut_from_ref,
    reason = "the packet is not the context's own memory"
)]
pub fn at_mut<T>(context: &TcContext, offset: usize) -> Result<&mut T, Unreadable> {
    let pointer = checked::<T>(context, offset)?;
    // SAFETY: as in `at`; the caller holds no other reference into the packet.
    Ok(unsafe { &mut *pointer.cast_mut() })
}

#[inline(always)]
fn checked<T>(context: &TcContext, offset: usize) -> Result<*const T, Unreadable> {
    let start = context.data() + offset;
    if start + size_of::<T>() > context.data_end() {
        return Err(Unreadable::Truncated);
    }
    Ok(ptr::with_exposed_provenance(start))
}

/// The end of a packet whose length does not fit into its header: the kernel has put it together
/// of segments and takes it apart again. Of any other packet it is an error.
#[inline(always)]
pub fn longer_than_said(context: &TcContext) -> Result<usize, Unreadable> {
    // SAFETY: the context is the kernel's.
    if unsafe { (*context.skb.skb).gso_size } == 0 {
        return Err(Unreadable::Truncated);
    }
    Ok(context.len() as usize)
}
