//! The table's slots in BPF arrays.

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::Array,
    cty::{c_long, c_void},
    helpers::bpf_loop,
    macros::btf_map,
};
use shunt_common::{
    V4, V6,
    connections::{Memory, Meta, Slot, Table, Wanted, homes_for, place, slots_for_homes},
};

use crate::Tracked as _;

/// A value area of an array is page aligned if it can be mapped, and not aligned to lines else.
const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// Halves that are never refused; the bench may choose others.
pub(crate) const HALVES: u32 = 524_288;

const SLOTS: usize = slots_for_homes(homes_for(HALVES)) as usize;

/// Slots, IPv4.
#[btf_map]
pub(crate) static SLOTS_V4: Array<[u64; 8], SLOTS, MMAPABLE> = Array::new();

/// Slots, IPv6.
#[btf_map]
pub(crate) static SLOTS_V6: Array<[u64; 16], SLOTS, MMAPABLE> = Array::new();

/// The slots of IPv4.
#[derive(Clone, Copy, Default)]
pub(crate) struct SlotsV4;

/// The slots of IPv6.
#[derive(Clone, Copy, Default)]
pub(crate) struct SlotsV6;

/// A family's memory, and what is done rarely as functions that the verifier looks at by
/// themselves: they are global.
macro_rules! memory {
    ($slots:ident, $map:ident, $family:ty: $search:ident, $dismiss:ident, $win:ident,
     $leave:ident, $expire:ident, $observe:ident) => {
        impl Memory for $slots {
            type Family = $family;
            type Slot = Words;

            #[inline(always)]
            fn slot(&self, index: u32) -> Option<Words> {
                $map.get_ptr_mut(index).map(|slot| Words(slot.cast()))
            }

            #[inline(always)]
            fn first_of(&self, wanted: Wanted, begin: u32, end: u32) -> Option<u32> {
                first(*self, wanted, begin, end)
            }

            #[inline(always)]
            fn search_near(_: &Table<'_, Self>, begin: u32, now: u32) -> u64 {
                $search(begin, now)
            }

            #[inline(always)]
            fn dismiss(_: &Table<'_, Self>, index: u32, begin: u32, now: u32) -> u64 {
                $dismiss(index, begin, now)
            }

            #[inline(always)]
            fn win(_: &Table<'_, Self>, index: u32, home: u32, spilled: bool) -> u32 {
                $win(index, home, spilled.into()) as u32
            }

            #[inline(always)]
            fn leave(_: &Table<'_, Self>, index: u32, meta: u64) {
                $leave(index, meta);
            }

            #[inline(always)]
            fn expire(_: &Table<'_, Self>, index: u32, meta: u64, now: u32) -> bool {
                $expire(index, meta, now) != 0
            }

            #[inline(always)]
            fn observe(_: &Table<'_, Self>, index: u32, meta: u64, signal: u64, now: u64) {
                $observe(index, meta, signal, now);
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $search(begin: u32, now: u32) -> u64 {
            <$family>::table().search_near_here(begin, now)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $dismiss(index: u32, begin: u32, now: u32) -> u64 {
            <$family>::table().dismiss_here(index, begin, now)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $win(index: u32, home: u32, spilled: u32) -> u64 {
            <$family>::table()
                .win_here(index, home, spilled != 0)
                .into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $leave(index: u32, meta: u64) -> u64 {
            <$family>::table().leave_here(index, meta);
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $expire(index: u32, meta: u64, now: u32) -> u64 {
            <$family>::table().expire_here(index, meta, now).into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $observe(index: u32, meta: u64, signal: u64, now: u64) -> u64 {
            <$family>::table().observe_here(index, meta, signal, now);
            0
        }
    };
}

memory!(SlotsV4, SLOTS_V4, V4:
    search_v4, dismiss_v4, win_v4, leave_v4, expire_v4, observe_v4);
memory!(SlotsV6, SLOTS_V6, V6:
    search_v6, dismiss_v6, win_v6, leave_v6, expire_v6, observe_v6);

/// A search, on the caller's stack.
struct Search {
    begin: u32,
    free_only: u32,
    found: u32,
}

/// What a search begins with: no slot's index.
const NOWHERE: u32 = u32::MAX;

#[inline(always)]
fn first<M: Memory + Default>(_: M, wanted: Wanted, begin: u32, end: u32) -> Option<u32> {
    let mut search = Search {
        begin,
        free_only: (wanted == Wanted::Free).into(),
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
    let wanted = if search.free_only == 0 {
        Wanted::GivesWay
    } else {
        Wanted::Free
    };
    if wanted.fits(Meta(slot.load(place::META))) {
        search.found = index;
        return 1;
    }
    0
}

/// The words of a slot. Places are constants wherever one is used, and the verifier checks them.
#[derive(Clone, Copy)]
pub(crate) struct Words(*mut u64);

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
