//! The table's slots in BPF arrays.

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::Array,
    cty::{c_long, c_void},
    helpers::bpf_loop,
    macros::btf_map,
};
use shunt_common::connections::{Memory, Meta, Slot, homes_for, place, slots_for_homes};

/// A value area of an array is page aligned if it can be mapped, and not aligned to lines else.
const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// Halves that are never refused; the bench may choose others.
pub const HALVES: u32 = 524_288;

const SLOTS: usize = slots_for_homes(homes_for(HALVES)) as usize;



/// Slots, IPv4.
#[btf_map]
pub static SLOTS_V4: Array<[u64; 8], SLOTS, MMAPABLE> = Array::new();

/// Slots, IPv6.
#[btf_map]
pub static SLOTS_V6: Array<[u64; 16], SLOTS, MMAPABLE> = Array::new();

/// The slots of IPv4.
#[derive(Clone, Copy, Default)]
pub struct SlotsV4;

/// The slots of IPv6.
#[derive(Clone, Copy, Default)]
pub struct SlotsV6;

impl Memory for SlotsV4 {
    type Slot = Words;

    #[inline(always)]
    fn slot(&self, index: u32) -> Option<Words> {
        SLOTS_V4.get_ptr_mut(index).map(|slot| Words(slot.cast()))
    }

    #[inline(always)]
    fn first_to_give_way(&self, begin: u32, end: u32) -> Option<u32> {
        first(*self, begin, end)
    }
}

impl Memory for SlotsV6 {
    type Slot = Words;

    #[inline(always)]
    fn slot(&self, index: u32) -> Option<Words> {
        SLOTS_V6.get_ptr_mut(index).map(|slot| Words(slot.cast()))
    }

    #[inline(always)]
    fn first_to_give_way(&self, begin: u32, end: u32) -> Option<u32> {
        first(*self, begin, end)
    }
}

/// A search, on the caller's stack.
struct Search {
    begin: u32,
    found: u32,
}

/// What a search begins with: no slot's index.
const NOWHERE: u32 = u32::MAX;

#[inline(always)]
fn first<M: Memory + Default>(_: M, begin: u32, end: u32) -> Option<u32> {
    let mut search = Search {
        begin,
        found: NOWHERE,
    };
    // SAFETY: the kernel calls `step` with the search's address, while this function runs.
    unsafe {
        bpf_loop(
            end - begin + 1,
            step::<M> as *mut c_void,
            (&raw mut search).cast(),
            0,
        );
    }
    (search.found != NOWHERE).then_some(search.found)
}

/// Looks at one slot; gives 1 if the search is over. Nothing of the search changes before its last
/// call, so kernels before 6.7, which look at the first call alone, are right about all.
extern "C" fn step<M: Memory + Default>(step: u32, search: *mut c_void) -> c_long {
    // SAFETY: `first` gave its address, and waits.
    let search = unsafe { &mut *search.cast::<Search>() };
    let index = search.begin + step;
    let Some(slot) = M::default().slot(index) else {
        return 1;
    };
    if Meta(slot.load(place::META)).may_give_way() {
        search.found = index;
        return 1;
    }
    0
}

/// The words of a slot. Places are constants wherever one is used, and the verifier checks them.
#[derive(Clone, Copy)]
pub struct Words(*mut u64);

impl Slot for Words {
    #[inline(always)]
    fn load(self, place: usize) -> u64 {
        // SAFETY: within the slot, as the verifier confirms. Volatile: the compiler keeps the
        // order, and x86 does too.
        unsafe { self.0.add(place).read_volatile() }
    }

    #[inline(always)]
    fn store(self, place: usize, value: u64) {
        // SAFETY: as in `load`.
        unsafe { self.0.add(place).write_volatile(value) };
    }

    #[inline(always)]
    fn exchange(self, place: usize, old: u64, new: u64) -> bool {
        exchange(self.0.wrapping_add(place), old, new)
    }
}

/// The kernel's compare-and-exchange (Linux 5.12), which orders everything before and after it.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn exchange(word: *mut u64, old: u64, new: u64) -> bool {
    let found: u64;
    // SAFETY: as in `Words::load`; the compiler is told that memory changes.
    unsafe {
        core::arch::asm!(
            "r0 = cmpxchg_64({word} + 0, r0, {new})",
            word = in(reg) word,
            new = in(reg) new,
            inout("r0") old => found,
        );
    }
    found == old
}

#[cfg(not(target_arch = "bpf"))]
fn exchange(_word: *mut u64, _old: u64, _new: u64) -> bool {
    unreachable!("the host builds this crate only to lint it")
}
