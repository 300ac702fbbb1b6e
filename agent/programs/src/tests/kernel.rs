//! A kernel whose clock and routes a test sets.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use aya_ebpf::{
    bindings::__sk_buff,
    packet::Frame,
    world::{self, Answers, Deed, Place},
};
use bytemuck::{Pod, bytes_of};

use crate::{
    FibLookup,
    ctx::{access::Access as _, tc::Tc},
    programs::Programs,
    way::{Way, WayQuestion},
};

/// Number of the kernel's ticks in a second.
pub(super) const HZ: u32 = 100;

/// The interface by which all packets came into the host.
pub(super) const CAME_BY: u32 = 77;

/// The interface of a rule for which the kernel finds no route.
pub(super) const NO_ROUTE: u32 = u32::MAX;

/// `BPF_FIB_LKUP_RET_NOT_FWDED` of `linux/bpf.h`.
const NOT_FORWARDED: i64 = 4;

/// A rule that maps a question to the interface of the way.
type Route = Box<dyn Fn(&WayQuestion) -> u32>;

/// The kernel, and the programs with their tables.
pub(super) struct Kernel {
    programs: Programs,
    state: Rc<State>,
}

struct State {
    ticks: Cell<u64>,
    route: RefCell<Route>,
    asked: RefCell<Vec<FibLookup>>,
}

impl Kernel {
    /// Empty tables, and no routes.
    pub(super) fn new() -> Self {
        let mut kernel = Self {
            programs: Programs::begin(),
            state: Rc::new(State {
                ticks: Cell::new(1_000_000),
                route: RefCell::new(Box::new(|_| 0)),
                asked: RefCell::default(),
            }),
        };
        kernel.set("CLOCK_HZ", &HZ);
        kernel
    }

    /// Sets a constant.
    #[track_caller]
    pub(super) fn set(&mut self, constant: &str, value: &impl Pod) {
        let set = self.programs.set_constant(constant, bytes_of(value));
        set.unwrap();
    }

    /// Puts a key into a table in which values mean nothing.
    #[track_caller]
    pub(super) fn put(&mut self, table: &str, key: &impl Pod) {
        let put = self.programs.put(table, bytes_of(key), bytes_of(&0_u32));
        put.unwrap();
    }

    /// Returns the number of entries of a table.
    pub(super) fn entries(&self, table: &str) -> usize {
        self.programs.entries(table).len()
    }

    /// Has an array have so many entries.
    #[track_caller]
    pub(super) fn resize(&mut self, table: &str, count: u32) {
        self.programs.resize(table, count).unwrap();
    }

    /// Has the ways lead as `route` describes from now on.
    pub(super) fn route(&self, route: impl Fn(&WayQuestion) -> u32 + 'static) {
        *self.state.route.borrow_mut() = Box::new(route);
    }

    /// Lets so many of the kernel's ticks pass.
    pub(super) fn pass(&self, ticks: u32) {
        self.state.ticks.update(|now| now + u64::from(ticks));
    }

    /// The questions for ways since the last call, as the programs asked them.
    pub(super) fn asked(&self) -> Vec<FibLookup> {
        self.state.asked.take()
    }

    /// Runs `act` on a frame at the ingress of an interface. Returns its result and the actions of the programs.
    pub(super) fn at<T>(
        &self,
        interface: u32,
        frame: &[u8],
        act: impl FnOnce(&Tc) -> T,
    ) -> (T, Vec<Deed>) {
        let link = 14;
        let held = Frame::new(frame, link).unwrap();
        // SAFETY: words and unions of them.
        let mut context: __sk_buff = unsafe { core::mem::zeroed() };
        context.data = held.begin();
        context.data_end = held.end();
        context.len = frame.len() as u32;
        context.ifindex = interface;
        context.ingress_ifindex = CAME_BY;
        let answers = Box::new(Asked(Rc::clone(&self.state)));
        world::run(Place::Tc { link }, answers, || {
            act(&Tc::from_raw(&raw mut context))
        })
    }
}

/// The kernel as programs ask it.
struct Asked(Rc<State>);

impl Answers for Asked {
    fn nanoseconds(&mut self) -> u64 {
        self.ticks() * (1_000_000_000 / u64::from(HZ))
    }

    fn ticks(&mut self) -> u64 {
        self.0.ticks.get()
    }

    fn random(&mut self) -> u32 {
        1
    }

    fn route(&mut self, lookup: &mut FibLookup) -> i64 {
        self.0.asked.borrow_mut().push(*lookup);
        let interface = (self.0.route.borrow())(&WayQuestion::of(lookup));
        if interface == NO_ROUTE {
            return NOT_FORWARDED;
        }
        let way = Way {
            interface,
            gateway: None,
            mtu: 1500,
            link: Some(([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])),
        };
        way.answer(lookup);
        0
    }

    fn namespace(&mut self) -> u64 {
        0
    }
}
