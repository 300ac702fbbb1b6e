//! The conntrack table: slots in an array, see [`shunt_common::connections`].
//!
//! What the table does rarely are global functions here, which the verifier looks at by themselves.

use aya_ebpf::{
    Global,
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, PerCpuArray},
    cty::{c_long, c_void},
    helpers::bpf_loop,
    macros::btf_map,
};
use shunt_common::{
    Counter, EndCause, V4, V6,
    connections::{
        Connection, Key, Memory, Meta, Refused, Seeds, Signal, Slot, Survey, Table, Timeouts, Wide,
        index_of, slots_for,
    },
};

use crate::maps::{
    clock::now,
    constants::{CONNTRACK_HOMES_V4, CONNTRACK_HOMES_V6, CONNTRACK_SEEDS, CONNTRACK_TIMEOUTS},
    counters::count,
    flows,
    handover::{PREVIOUS_HOMES_V4, PREVIOUS_HOMES_V6},
};

/// An array's values begin at a page if it can be mapped; else their lines are the cache's by
/// chance.
const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// A default that the agent overrides.
const SLOTS: usize = slots_for(524_288) as usize;

/// Slots, IPv4.
#[btf_map]
pub(crate) static CONNTRACK_V4: Array<[u64; V4::SLOT_WORDS], SLOTS, MMAPABLE> = Array::new();

/// Slots, IPv6.
#[btf_map]
pub(crate) static CONNTRACK_V6: Array<[u64; V6::SLOT_WORDS], SLOTS, MMAPABLE> = Array::new();

/// A table of another size that hands over, IPv4; the agent puts the one that was pinned here.
#[btf_map]
pub(crate) static RESIZED_CONNTRACK_V4: Array<[u64; V4::SLOT_WORDS], 1, MMAPABLE> = Array::new();

/// The same for IPv6.
#[btf_map]
pub(crate) static RESIZED_CONNTRACK_V6: Array<[u64; V6::SLOT_WORDS], 1, MMAPABLE> = Array::new();

/// A family whose connections are tracked.
pub(crate) trait Tracked: Wide {
    /// Memory of the family's connections.
    type Memory: Memory<Family = Self, Slot = Words> + 'static;
    /// Memory of their table of another size, where they were before.
    type Resized: Memory<Family = Self, Slot = Words> + 'static;

    /// The family's connections.
    fn connections() -> Table<'static, Self::Memory>;

    /// The connections of a table of another size that hands over.
    fn resized() -> Table<'static, Self::Resized>;

    /// Returns the place for the key of a packet: `own`, if it fits the registers.
    fn sought(own: &mut Key<Self>) -> Option<&mut Key<Self>>;
}

/// The times after which connections end.
#[inline(always)]
pub(crate) fn timeouts() -> &'static Timeouts {
    setting(&CONNTRACK_TIMEOUTS)
}

/// The words without which the homes of keys are not known.
#[inline(always)]
pub(crate) fn seeds() -> &'static Seeds {
    setting(&CONNTRACK_SEEDS)
}

/// The value of a constant that the agent sets. The compiler does not know whose it is: it would
/// take the value that stands there now for the one that will.
#[inline(always)]
fn setting<T>(constant: &'static Global<T>) -> &'static T {
    let hidden = hide((&raw const *constant).cast::<T>());
    // SAFETY: a global is as the value in it, which does not change while programs run.
    unsafe { &*hidden }
}

#[cfg(target_arch = "bpf")]
#[inline(always)]
fn hide<T>(mut pointer: *const T) -> *const T {
    // SAFETY: no instruction at all.
    unsafe { core::arch::asm!("/* {0} */", inout(reg) pointer, options(pure, nomem, nostack)) };
    pointer
}

#[cfg(not(target_arch = "bpf"))]
const fn hide<T>(pointer: *const T) -> *const T {
    pointer
}

/// Memory that is a map.
trait InMap: Memory + 'static {
    /// The table in it.
    fn table() -> Table<'static, Self>;
}

// Of `nat::again`, which knows services and backends. The table knows neither.
unsafe extern "C" {
    fn again_v4(index: u32) -> u64;
    fn again_v6(index: u32) -> u64;
}

/// A family's memory.
macro_rules! memory {
    ($slots:ident, $map:ident, $homes:ident, $family:ty, $tells:literal: $find:ident, $near:ident, $crowd:ident, $survey:ident,
     $dismiss:ident, $win:ident, $leave:ident, $expire:ident, $forget:ident, $observe:ident,
     $open:ident, $foresee:ident, $end:ident, $lapse:ident, $again:ident) => {
        /// The slots in this map.
        #[derive(Clone, Copy, Default)]
        pub(crate) struct $slots;

        impl InMap for $slots {
            #[inline(always)]
            fn table() -> Table<'static, Self> {
                Table::new(Self, $homes.load(), seeds(), timeouts())
            }
        }

        impl Memory for $slots {
            type Family = $family;
            type Slot = Words;

            #[inline(always)]
            fn slot(&self, index: u32) -> Option<Words> {
                $map.get_ptr_mut(index).map(|slot| Words(slot.cast()))
            }

            #[inline(always)]
            fn search(_: &Table<'_, Self>, key: &Key<$family>, home: u32) -> u64 {
                $find(key, home)
            }

            #[inline(always)]
            fn survey_near(_: &Table<'_, Self>, begin: u32, now: u32) -> u64 {
                $near(begin, now, Survey::NOTHING)
            }

            #[inline(always)]
            fn survey_crowd(_: &Table<'_, Self>, begin: u32, now: u32) -> u64 {
                $crowd(begin, now, Survey::NOTHING)
            }

            #[inline(always)]
            fn survey(_: &Table<'_, Self>, begin: u32, end: u32, _now: u32) -> u64 {
                $survey(begin, end, Survey::NOTHING)
            }

            #[inline(always)]
            fn dismiss(_: &Table<'_, Self>, seen: u64, begin: u32, _now: u32) -> u64 {
                // Later than the slot was seen: what was over then is over.
                let taken = $dismiss(seen, begin, now());
                if $tells && flows::is_on() {
                    $end(taken);
                }
                taken
            }

            #[inline(always)]
            fn win(_: &Table<'_, Self>, index: u32, spilled: bool) -> u32 {
                $win(index, spilled.into()) as u32
            }

            #[inline(always)]
            fn leave(_: &Table<'_, Self>, index: u32, meta: u64) {
                $leave(index, meta);
            }

            #[inline(always)]
            fn expire(_: &Table<'_, Self>, index: u32, meta: u64, opens: bool, now: u32) -> bool {
                $expire(index, meta, opens.into(), now) != 0
            }

            #[inline(always)]
            fn forget(_: &Table<'_, Self>, index: u32, meta: u64) {
                $forget(index, meta);
            }

            #[inline(always)]
            fn lapse(_: &Table<'_, Self>, index: u32, meta: u64) {
                if $tells && flows::is_on() {
                    $lapse(index);
                }
                $forget(index, meta);
            }

            #[inline(always)]
            fn observe(_: &Table<'_, Self>, index: u32, meta: u64, signal: u64, now: u64) {
                if $tells && flows::is_on() {
                    $foresee(index, meta, signal);
                }
                let has_begun_again = $observe(index, meta, signal, now) != 0;
                if $tells && flows::is_on() {
                    $end(1);
                }
                // Not called by the function before it: there the stack has no room.
                if $tells && has_begun_again {
                    // SAFETY: takes a number.
                    unsafe { $again(index) };
                }
            }

            #[inline(always)]
            fn open(_: &Table<'_, Self>, new: &Connection<$family>, now: u32) -> u32 {
                $open(new, now)
            }

            #[inline(always)]
            fn dropped_early(&self) {
                count(Counter::ConntrackEarlyDrop);
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $near(begin: u32, now: u32, nothing: u64) -> u64 {
            $slots::table().survey_near_here(begin, now, nothing)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $crowd(begin: u32, now: u32, nothing: u64) -> u64 {
            $slots::table().survey_crowd_here(begin, now, nothing)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $survey(begin: u32, end: u32, nothing: u64) -> u64 {
            survey::<$slots>(begin, end, nothing)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $open(new: *const Connection<$family>, now: u32) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            let Some(new) = (unsafe { new.as_ref() }) else {
                return Refused::Full as u32;
            };
            let opened = $slots::table().open(new, now);
            opened.map_or_else(|refused| refused as u32, |()| 0)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $dismiss(seen: u64, begin: u32, now: u32) -> u64 {
            let table = $slots::table();
            if $tells && flows::is_on() {
                let index = index_of(seen, begin);
                flows::doubt(flows::judge(&table, index, now, EndCause::EarlyDrop));
            }
            table.dismiss_here(seen, begin, now)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $end(has_ended: u64) -> u64 {
            if $tells && flows::is_on() {
                flows::tell_ended(&$slots::table(), has_ended != 0);
            }
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $foresee(index: u32, meta: u64, signal: u64) -> u64 {
            if $tells && flows::is_on() {
                flows::doubt(flows::foresee(index, Meta(meta), Signal(signal)));
            }
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $lapse(index: u32) -> u64 {
            if $tells && flows::is_on() {
                let table = $slots::table();
                flows::doubt(flows::judge(&table, index, now(), EndCause::Replaced));
                flows::tell_ended(&table, true);
            }
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $win(index: u32, spilled: u32) -> u64 {
            $slots::table().win_here(index, spilled != 0).into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $leave(index: u32, meta: u64) -> u64 {
            $slots::table().leave_here(index, meta);
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $expire(index: u32, meta: u64, opens: u32, now: u32) -> u64 {
            $slots::table()
                .expire_here(index, meta, opens != 0, now)
                .into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $forget(index: u32, meta: u64) -> u64 {
            $slots::table().forget_here(index, meta);
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $observe(index: u32, meta: u64, signal: u64, now: u64) -> u64 {
            $slots::table()
                .observe_here(index, meta, signal, now)
                .into()
        }
    };
}

memory!(SlotsV4, CONNTRACK_V4, CONNTRACK_HOMES_V4, V4, true:
    elsewhere_v4, survey_near_v4, survey_crowd_v4, survey_v4, dismiss_v4, win_v4, leave_v4, expire_v4, forget_v4, observe_v4,
    enter_v4, foresee_v4, ended_v4, lapse_v4, again_v4);
memory!(SlotsV6, CONNTRACK_V6, CONNTRACK_HOMES_V6, V6, true:
    elsewhere_v6, survey_near_v6, survey_crowd_v6, survey_v6, dismiss_v6, win_v6, leave_v6, expire_v6, forget_v6, observe_v6,
    enter_v6, foresee_v6, ended_v6, lapse_v6, again_v6);
memory!(ResizedV4, RESIZED_CONNTRACK_V4, PREVIOUS_HOMES_V4, V4, false:
    resized_elsewhere_v4, resized_survey_near_v4, resized_survey_crowd_v4, resized_survey_v4, resized_dismiss_v4, resized_win_v4, resized_leave_v4,
    resized_expire_v4, resized_forget_v4, resized_observe_v4, resized_enter_v4, resized_foresee_v4, resized_ended_v4, resized_lapse_v4, again_v4);
memory!(ResizedV6, RESIZED_CONNTRACK_V6, PREVIOUS_HOMES_V6, V6, false:
    resized_elsewhere_v6, resized_survey_near_v6, resized_survey_crowd_v6, resized_survey_v6, resized_dismiss_v6, resized_win_v6, resized_leave_v6,
    resized_expire_v6, resized_forget_v6, resized_observe_v6, resized_enter_v6, resized_foresee_v6, resized_ended_v6, resized_lapse_v6, again_v6);

/// Assigns its memory to each family.
macro_rules! tracked {
    ($family:ty: $slots:ident, $resized:ident, $sought:ident) => {
        impl Tracked for $family {
            type Memory = $slots;
            type Resized = $resized;

            #[inline(always)]
            fn connections() -> Table<'static, $slots> {
                $slots::table()
            }

            #[inline(always)]
            fn resized() -> Table<'static, $resized> {
                $resized::table()
            }

            #[inline(always)]
            fn sought(own: &mut Key<Self>) -> Option<&mut Key<Self>> {
                $sought(own)
            }
        }
    };
}

tracked!(V4: SlotsV4, ResizedV4, Some);
tracked!(V6: SlotsV6, ResizedV6, sought_v6);

/// The key of the packet that a CPU is at. On the stack it would take a good part of it.
#[btf_map]
pub(crate) static SOUGHT_V6: PerCpuArray<Key<V6>, 1> = PerCpuArray::new();

#[inline(always)]
fn sought_v6(own: &mut Key<V6>) -> Option<&mut Key<V6>> {
    let key = SOUGHT_V6.get_ptr_mut(0)?;
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let key = unsafe { &mut *key };
    *key = *own;
    Some(key)
}

/// [`Table::search_here`] of IPv4. The key is handed over in registers: it would be memory of the
/// caller's.
macro_rules! searches_v4 {
    ($slots:ident: $elsewhere:ident, $find:ident) => {
        #[inline(always)]
        fn $elsewhere(key: &Key<V4>, home: u32) -> u64 {
            let [addresses] = key.addresses;
            $find(addresses, key.ports_and_kind(), home)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $find(addresses: u64, ports_and_kind: u64, home: u32) -> u64 {
            let key = Key::of_numbers([addresses], ports_and_kind);
            $slots::table().search_here(&key, home)
        }
    };
}

/// [`Table::search_here`] of IPv6.
macro_rules! searches_v6 {
    ($slots:ident: $elsewhere:ident, $find:ident) => {
        #[inline(always)]
        fn $elsewhere(key: &Key<V6>, home: u32) -> u64 {
            $find(key, home)
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $find(key: *const Key<V6>, home: u32) -> u64 {
            // SAFETY: null, or the reference that the only caller has.
            match unsafe { key.as_ref() } {
                Some(key) => $slots::table().search_here(key, home),
                None => u64::MAX,
            }
        }
    };
}

searches_v4!(SlotsV4: elsewhere_v4, find_v4);
searches_v4!(ResizedV4: resized_elsewhere_v4, resized_find_v4);
searches_v6!(SlotsV6: elsewhere_v6, find_v6);
searches_v6!(ResizedV6: resized_elsewhere_v6, resized_find_v6);

/// [`Table::survey_here`].
#[inline(always)]
fn survey<M: InMap>(begin: u32, end: u32, nothing: u64) -> u64 {
    let mut survey = Survey::new(begin, nothing);
    // SAFETY: the kernel calls `step` with the survey's address, while this function runs.
    unsafe {
        bpf_loop(
            end.wrapping_sub(begin),
            step::<M> as *mut c_void,
            (&raw mut survey).cast(),
            0,
        );
    }
    survey.verdict(M::table().lasting())
}

/// Looks at one slot; returns 1 if the survey is over. It begins with numbers of which the verifier knows
/// nothing, so kernels before 6.7, which look at the first call alone, are right about all.
extern "C" fn step<M: InMap>(step: u32, survey: *mut c_void) -> c_long {
    // SAFETY: `survey` gave its address, and waits.
    let survey = unsafe { &mut *survey.cast::<Survey>() };
    M::table().look(survey, step, now()).into()
}

/// The words of a slot. Places are constants wherever one is used, and the verifier checks them.
#[derive(Clone, Copy)]
pub(crate) struct Words(*mut u64);

impl Words {
    /// The words from here on.
    #[inline(always)]
    pub(crate) const fn at(words: *mut u64) -> Self {
        Self(words)
    }
}

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
    fn store_half(self, place: usize, value: u32) {
        // SAFETY: as in `load`. The lower half comes first, on the machines that there are programs
        // for (`bpfel`).
        unsafe { self.0.add(place).cast::<u32>().write_volatile(value) };
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
    // SAFETY: as in `Words::load`; the compiler knows that memory changes.
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
fn exchange(word: *mut u64, old: u64, new: u64) -> bool {
    // SAFETY: as in `Words::load`; nothing else writes there.
    unsafe {
        let found = word.read();
        if found == old {
            word.write(new);
        }
        found == old
    }
}
