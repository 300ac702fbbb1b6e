//! Parts that every object needs besides its programs: a binary has a `use shunt_object as _`.

#![cfg_attr(target_arch = "bpf", no_std)]

/// License with which the kernel lets a program call its GPL-only helpers.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier rejects any program in which this could be reached.
    loop {}
}
