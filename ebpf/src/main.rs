//! Shunt's kernel programs: thin entry points over rooms of small modules, which are generic over
//! the address family and over access to the packet.
//!
//! A room knows those below it: `hooks`, `pipeline`, then `lb`, `nat` and `forward`, which do not
//! know each other, then `rewrite` and `maps`, which do not either, `packet`, and `ctx`.
//!
//! Every function is `#[inline(always)]`, for two reasons of the kernel's: a BPF function takes and
//! returns registers, not structures; and a function that is not inlined has its types in the
//! object's BTF, where the kernel refuses a Rust enum with fields ("Invalid member bits_offset").

#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]

mod ctx;
mod forward;
mod hooks;
mod lb;
mod maps;
mod nat;
mod packet;
mod pipeline;
mod rewrite;
mod socket;

use shunt_object as _;

/// The host builds this crate only to lint it; `agent/programs` has the same source run there.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
