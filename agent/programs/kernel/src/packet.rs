//! A packet in memory whose addresses fit 32 bits: that is how long a kernel's contexts have them.

use core::ptr;
use std::{cell::OnceCell, io};

use crate::bindings::{__sk_buff, xdp_md};

/// Room in front of a packet, for headers that are put there.
const HEADROOM: usize = 4096;

/// Room for a packet.
const LONGEST: usize = 1 << 17;

/// Length of an Ethernet header, IEEE 802.3 section 3.2.
pub(crate) const ETHERNET: usize = 14;

thread_local! {
    static MEMORY: OnceCell<usize> = const { OnceCell::new() };
}

/// Returns the address of the memory for this thread's packets.
fn memory() -> io::Result<usize> {
    MEMORY.with(|memory| {
        if let Some(known) = memory.get() {
            return Ok(*known);
        }
        // Below 4 GiB on every machine, if the kernel heeds it: whether it does is looked at.
        let hint = ptr::without_provenance_mut(0x1000_0000);
        // SAFETY: new memory, which no other code has.
        let address = unsafe {
            libc::mmap(
                hint,
                HEADROOM + LONGEST,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | LOW,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = address.expose_provenance();
        if u32::try_from(address + HEADROOM + LONGEST).is_err() {
            return Err(io::Error::other("there is no memory below 4 GiB"));
        }
        Ok(*memory.get_or_init(|| address))
    })
}

#[cfg(target_arch = "x86_64")]
const LOW: i32 = libc::MAP_32BIT;
#[cfg(not(target_arch = "x86_64"))]
const LOW: i32 = 0;

/// The packet that this thread's programs are at.
#[derive(Debug)]
pub struct Frame {
    begin: usize,
    end: usize,
}

impl Frame {
    /// With these bytes, the first `link` of which are the link's header. What follows it is at an address
    /// that 4 divides, as drivers have it (`NET_IP_ALIGN` of `linux/skbuff.h`).
    ///
    /// # Errors
    ///
    /// There is no memory for it, or it is too long.
    pub fn new(bytes: &[u8], link: usize) -> io::Result<Self> {
        let begin = memory()? + HEADROOM - link % 4;
        if bytes.len() > LONGEST {
            return Err(io::Error::other(format!(
                "{} bytes are too long",
                bytes.len()
            )));
        }
        // SAFETY: the memory is this thread's, and long enough.
        unsafe {
            let to: *mut u8 = ptr::with_exposed_provenance_mut(begin);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(Self {
            begin,
            end: begin + bytes.len(),
        })
    }

    /// Returns the address of its first byte.
    pub const fn begin(&self) -> u32 {
        self.begin as u32
    }

    /// Returns the address behind its last byte.
    pub const fn end(&self) -> u32 {
        self.end as u32
    }
}

/// The bytes from `begin` to `end`, which a context of this thread's has.
///
/// # Safety
///
/// They are of a [`Frame`]'s memory, and nothing writes there while the slice lives.
pub unsafe fn bytes<'a>(begin: u32, end: u32) -> &'a [u8] {
    let from = ptr::with_exposed_provenance(begin as usize);
    // SAFETY: as the caller guarantees.
    unsafe { core::slice::from_raw_parts(from, (end - begin) as usize) }
}

/// A context's packet, to be changed in its length.
pub(crate) struct Bounds<'a> {
    pub(crate) begin: &'a mut u32,
    pub(crate) end: &'a mut u32,
}

impl<'a> Bounds<'a> {
    /// Of a TC program's packet. All of it is linear.
    pub(crate) fn of_skb(skb: &'a mut __sk_buff) -> Self {
        let __sk_buff { data, data_end, .. } = skb;
        Self {
            begin: data,
            end: data_end,
        }
    }

    /// Of an XDP program's frame.
    pub(crate) fn of_xdp(xdp: &'a mut xdp_md) -> Self {
        let xdp_md { data, data_end, .. } = xdp;
        Self {
            begin: data,
            end: data_end,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        (*self.end - *self.begin) as usize
    }

    /// The bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let from = ptr::with_exposed_provenance_mut(*self.begin as usize);
        // SAFETY: the context is of a frame of this thread's.
        unsafe { core::slice::from_raw_parts_mut(from, self.len()) }
    }

    /// Moves the begin by so many bytes, to the front if negative.
    pub(crate) fn move_begin(&mut self, by: i32) -> bool {
        let Some(begin) = self.begin.checked_add_signed(by) else {
            return false;
        };
        let first = MEMORY.with(|memory| memory.get().copied());
        let fits = first.is_some_and(|first| first as u32 <= begin) && begin < *self.end;
        if fits {
            *self.begin = begin;
        }
        fits
    }

    /// Has it be of this length.
    pub(crate) fn set_length(&mut self, length: usize) -> bool {
        let old = self.len();
        if length > LONGEST {
            return false;
        }
        *self.end = *self.begin + length as u32;
        if let Some(new) = self.bytes().get_mut(old..) {
            new.fill(0);
        }
        true
    }
}
