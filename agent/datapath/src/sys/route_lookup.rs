//! Routes as a program looks them up: the kernel is asked with the very helper that the programs call.

use std::io;

use crate::sys::handwritten::{Handwritten, Kind, instruction};

/// Length of a `struct bpf_fib_lookup` of `linux/bpf.h`, in bytes.
const LENGTH: u32 = 64;

/// Minus so many.
const fn minus(number: u32) -> u32 {
    number.wrapping_neg()
}

/// Takes a `struct bpf_fib_lookup` out of the packet, looks it up, puts it back, and returns what the helper
/// did:
///
/// ```text
/// r6 = r1
/// bpf_skb_load_bytes(r6, 0, r10 - 64, 64)
/// r7 = bpf_fib_lookup(r6, r10 - 64, 64, 0)
/// bpf_skb_store_bytes(r6, 0, r10 - 64, 64, 0)
/// r0 = r7; exit
/// ```
const PROGRAM: [u64; 22] = [
    instruction(0xbf, 6, 1, 0),
    instruction(0xb7, 2, 0, 0),
    instruction(0xbf, 3, 10, 0),
    instruction(0x07, 3, 0, minus(LENGTH)),
    instruction(0xb7, 4, 0, LENGTH),
    instruction(0x85, 0, 0, 26),
    instruction(0xbf, 1, 6, 0),
    instruction(0xbf, 2, 10, 0),
    instruction(0x07, 2, 0, minus(LENGTH)),
    instruction(0xb7, 3, 0, LENGTH),
    instruction(0xb7, 4, 0, 0),
    instruction(0x85, 0, 0, 69),
    instruction(0xbf, 7, 0, 0),
    instruction(0xbf, 1, 6, 0),
    instruction(0xb7, 2, 0, 0),
    instruction(0xbf, 3, 10, 0),
    instruction(0x07, 3, 0, minus(LENGTH)),
    instruction(0xb7, 4, 0, LENGTH),
    instruction(0xb7, 5, 0, 0),
    instruction(0x85, 0, 0, 9),
    instruction(0xbf, 0, 7, 0),
    instruction(0x95, 0, 0, 0),
];

/// A way to look routes up in the caller's network namespace.
#[derive(Debug)]
pub struct RouteLookup(Handwritten);

impl RouteLookup {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it: it needs `CAP_BPF` and `CAP_NET_ADMIN`.
    pub fn open() -> io::Result<Self> {
        Handwritten::load(Kind::Packet, &PROGRAM).map(Self)
    }

    /// Looks up what a `struct bpf_fib_lookup` asks, and leaves the answer in it. Returns a
    /// `BPF_FIB_LKUP_RET_`, or a negative error.
    ///
    /// # Errors
    ///
    /// If the kernel does not run the program.
    pub fn look_up(&self, question: &mut [u8; LENGTH as usize]) -> io::Result<i32> {
        self.0.run(question)
    }
}
