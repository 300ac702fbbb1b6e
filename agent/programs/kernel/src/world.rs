//! A kernel's answers: the time, random numbers, routes; and the actions of programs.

use core::{cell::RefCell, ffi::c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bindings::bpf_fib_lookup as FibLookup;

/// The turn at the programs' tables: the thread that has it is the only one that uses them.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Turn {
    /// Waits until no other thread has it.
    pub fn take() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        // The next run clears the state that a failed one has left behind.
        Self(TURN.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A kernel's answers to programs.
pub trait Answers {
    /// Nanoseconds of the monotonic clock.
    fn nanoseconds(&mut self) -> u64;

    /// The kernel's ticks.
    fn ticks(&mut self) -> u64;

    /// A random number.
    fn random(&mut self) -> u32;

    /// Looks a route up, as `bpf_fib_lookup` does: a `BPF_FIB_LKUP_RET_`, or a negative error.
    fn route(&mut self, lookup: &mut FibLookup) -> i64;

    /// The cookie of the network namespace of the socket at hand.
    fn namespace(&mut self) -> u64;

    /// Returns whether a socket of the host has the address that a program looks for one at. What the host's sockets
    /// are is hardly ever known.
    fn is_served(&mut self) -> bool {
        false
    }
}

/// Something that a program did which no table shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// It looked into the table at this address, at this key, and found something or not.
    Lookup {
        /// Address of the table.
        table: usize,
        /// The key in it.
        key: Box<[u8]>,
        /// True if something was there.
        found: bool,
    },
    /// It drew this number.
    Draw(u32),
    /// It asked for a route to this address, in network order, of so many bytes; this is the answer.
    Route {
        /// The destination.
        destination: Box<[u8]>,
        /// A `BPF_FIB_LKUP_RET_`, or a negative error.
        answer: i64,
        /// The interface that the route leads out of.
        interface: u32,
    },
    /// It has the packet sent out of this interface.
    Send {
        /// The interface's index.
        interface: u32,
        /// Method of sending.
        how: How,
    },
    /// It has the system call fail with this error, a negative number.
    Fail(i32),
}

/// Method of sending a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// With the link header that it has.
    AsItIs,
    /// Into the other end of the interface's pair.
    ToPeer,
    /// To a neighbour whose link address the kernel finds out.
    ToNeighbour,
}

/// Place where programs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At a TC hook of an interface whose packets have a link header of so many bytes.
    Tc {
        /// 14, or 0.
        link: usize,
    },
    /// At the driver.
    Driver,
    /// At a system call.
    Call,
}

struct World {
    place: Place,
    answers: Box<dyn Answers>,
    deeds: Vec<Deed>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Runs `programs` at this place of a world that has these answers. Returns its result, and the actions
/// of the programs.
pub fn run<T>(
    place: Place,
    answers: Box<dyn Answers>,
    programs: impl FnOnce() -> T,
) -> (T, Vec<Deed>) {
    let world = World {
        place,
        answers,
        deeds: Vec::new(),
    };
    WORLD.set(Some(world));
    let given = programs();
    let world = WORLD.take();
    (given, world.map_or_else(Vec::new, |world| world.deeds))
}

/// Returns the world's answer; outside of one, the default.
pub(crate) fn ask<T: Default>(question: impl FnOnce(&mut dyn Answers) -> T) -> T {
    WORLD.with_borrow_mut(|world| {
        world
            .as_mut()
            .map_or_else(T::default, |world| question(&mut *world.answers))
    })
}

/// Returns the length of the link's header.
pub(crate) fn link_length() -> usize {
    WORLD.with_borrow(|world| match world.as_ref().map(|world| world.place) {
        Some(Place::Tc { link }) => link,
        _ => 0,
    })
}

/// Returns whether programs run at the driver.
pub(crate) fn is_at_driver() -> bool {
    WORLD.with_borrow(|world| {
        world
            .as_ref()
            .is_some_and(|world| world.place == Place::Driver)
    })
}

/// Takes note of a deed.
pub(crate) fn note(deed: Deed) {
    WORLD.with_borrow_mut(|world| {
        if let Some(world) = world {
            world.deeds.push(deed);
        }
    });
}

/// Takes note of a look into a table.
pub(crate) fn note_lookup(table: *const c_void, key: &[u8], found: bool) {
    note(Deed::Lookup {
        table: table as usize,
        key: key.into(),
        found,
    });
}
