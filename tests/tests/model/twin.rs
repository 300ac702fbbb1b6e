//! The programs built for the host, over copies of the kernel's tables: they must do to a frame what the
//! kernel's do.

use std::cell::{Cell, RefCell};

use shunt_datapath::{Contents, Jiffies, RouteLookup, TableCopies, TableCopy};
use shunt_programs::{Answers, Arrival, FibLookup, Outcome, Programs};
use shunt_tests::by_length;

use super::{
    kernel::Door,
    model::{Hook, Verdict},
    packet,
};

/// The index of the loopback interface, where the kernel runs the programs.
const LOOPBACK: u32 = 1;

/// `PACKET_HOST`, `PACKET_BROADCAST`, `PACKET_MULTICAST` and `PACKET_OTHERHOST` of `linux/if_packet.h`.
const HOST: u32 = 0;
const BROADCAST: u32 = 1;
const MULTICAST: u32 = 2;
const OTHER_HOST: u32 = 3;

/// Number of values that are tried for the number that the kernel has drawn: a backend has a slot of this
/// many at least.
const DRAWS: u32 = 1024;

/// Less than the shortest time, in jiffies, that the programs distinguish: 256 ms at 100 Hz.
const TICK: usize = 25;

/// Tables that the programs write. What only the agent writes is copied when it has.
const WRITTEN: [&str; 10] = [
    "CONNTRACK_V4",
    "CONNTRACK_V6",
    "AFFINITY_V4",
    "AFFINITY_V6",
    "FRAGMENTS_V4",
    "FRAGMENTS_V6",
    "HALFWAY_V4",
    "HALFWAY_V6",
    "DIRECT",
    "REACHED",
];

thread_local! {
    /// One in so many is compared: each takes copies of tables.
    static EACH: Cell<u64> = Cell::new(by_length(64, 8));
    /// Number of packets that this thread has compared.
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

/// Has this thread compare one packet in so many.
pub(crate) fn compare_one_in(each: u64) {
    EACH.set(each);
}

/// Returns the number of packets that this thread has compared.
pub(crate) fn compared() -> u64 {
    COMPARED.get()
}

/// Copies of an object's tables.
pub(crate) struct Twin {
    /// True if the agent may have written something.
    pub(crate) is_stale: bool,
    packets: u64,
    constants: Vec<(&'static str, Box<[u8]>)>,
    tables: Vec<(&'static str, Contents)>,
    ticks: u64,
    /// Number of packets compared.
    compared: u64,
}

impl Twin {
    /// With nothing in it.
    pub(crate) fn new() -> Self {
        Self {
            is_stale: true,
            packets: 0,
            constants: Vec::new(),
            tables: Vec::new(),
            ticks: 0,
            compared: 0,
        }
    }

    /// Returns whether the next packet is one of those that are compared.
    pub(crate) fn is_next(&mut self) -> bool {
        self.packets += 1;
        self.packets.is_multiple_of(EACH.get())
    }

    /// Copies what the tables hold.
    pub(crate) fn look_at(&mut self, copies: &TableCopies) {
        let is_stale = std::mem::take(&mut self.is_stale);
        if is_stale {
            self.tables.clear();
            self.constants = copies.constants().to_vec();
        } else {
            self.tables.retain(|(name, _)| !WRITTEN.contains(name));
        }
        for (number, name) in copies.names().enumerate() {
            if is_stale || WRITTEN.contains(&name) {
                let TableCopy { contents, .. } = copies.copy(number).unwrap().unwrap();
                self.tables.push((name, contents));
            }
        }
        self.ticks = Jiffies::open().unwrap().read().unwrap();
    }

    /// Compares what the kernel's programs did to a frame with what these do.
    pub(crate) fn compare(
        &mut self,
        hook: Hook,
        has_driver: bool,
        frame: &[u8],
        verdict: &Verdict,
        door: Door,
    ) -> Result<(), String> {
        let mut programs = Programs::begin();
        for (name, value) in &self.constants {
            // The log's is none of the programs' own.
            if *name != "AYA_LOG_LEVEL" {
                programs.set_constant(name, value).unwrap();
            }
        }
        // The clock may have gone on before the kernel's programs looked at it, and the choice with it.
        let now = Jiffies::open().unwrap().read().unwrap();
        let times = (self.ticks..now).step_by(TICK).chain([now]);
        let mut seen = Vec::new();
        // Of each way, the kernel's driver leaves a packet in ten seconds to TC. Copies have no such past.
        let may_be_left = has_driver && door == Door::Tc;
        let drivers = [has_driver, false].into_iter();
        let drivers = drivers.take(if may_be_left { 2 } else { 1 });
        for (ticks, has_driver) in
            times.flat_map(|ticks| drivers.clone().map(move |it| (ticks, it)))
        {
            for number in 0..DRAWS {
                for (name, contents) in &self.tables {
                    if seen.is_empty() || WRITTEN.contains(name) {
                        put(&mut programs, name, contents);
                    }
                }
                let kernel = Kernel {
                    ticks,
                    // Each of them is in another slot's share, and those in between come later.
                    drawn: number.reverse_bits() | 1,
                };
                let (found, drew) = run(&mut programs, hook, has_driver, frame, kernel);
                if found == (verdict.clone(), door) {
                    self.compared += 1;
                    COMPARED.set(COMPARED.get() + 1);
                    return Ok(());
                }
                seen.push(found);
                if !drew {
                    break;
                }
            }
        }
        seen.dedup();
        Err(format!(
            "the kernel's programs: {verdict:?} by {door:?}; built for the host: {seen:?}"
        ))
    }
}

/// Runs the programs as the kernel does. Returns whether they have drawn a number.
fn run(
    programs: &mut Programs,
    hook: Hook,
    has_driver: bool,
    frame: &[u8],
    kernel: Kernel,
) -> ((Verdict, Door), bool) {
    let arrival = Arrival {
        frame,
        interface: LOOPBACK,
        came_by: LOOPBACK,
        is_ethernet: true,
        kind: kind(frame),
        tag: 0,
    };
    let answers = || Box::new(kernel);
    let drew = |outcome: &Outcome| {
        let deeds = &outcome.deeds;
        deeds
            .iter()
            .any(|deed| matches!(deed, shunt_programs::Deed::Draw(_)))
    };
    let mut has_drawn = false;
    if has_driver && hook == Hook::Ingress {
        let outcome = programs.driver(&arrival, answers()).unwrap();
        has_drawn |= drew(&outcome);
        match outcome.verdict {
            shunt_programs::Verdict::Pass => {}
            shunt_programs::Verdict::Drop => return ((Verdict::Drop, Door::Driver), has_drawn),
            shunt_programs::Verdict::Back => {
                return ((Verdict::Redirect(outcome.frame), Door::Driver), has_drawn);
            }
            shunt_programs::Verdict::Send => {
                let mut sent = outcome.frame;
                // As the tests' driver shows it: the link's header is the next hop's.
                sent[..12].copy_from_slice(&frame[..12]);
                return ((Verdict::Redirect(sent), Door::Driver), has_drawn);
            }
            shunt_programs::Verdict::Other(number) => {
                panic!("the XDP program returned {number}")
            }
        }
    }
    let outcome = match hook {
        Hook::Ingress => programs.ingress(&arrival, answers()),
        Hook::Egress => programs.egress(&arrival, answers()),
    };
    let outcome = outcome.unwrap();
    has_drawn |= drew(&outcome);
    let verdict = match outcome.verdict {
        shunt_programs::Verdict::Pass => Verdict::Pass(outcome.frame),
        shunt_programs::Verdict::Drop => Verdict::Drop,
        shunt_programs::Verdict::Send => Verdict::Redirect(outcome.frame),
        other => panic!("the TC program returned {other:?}"),
    };
    ((verdict, Door::Tc), has_drawn)
}

impl Drop for Twin {
    fn drop(&mut self) {
        if self.compared > 0 {
            println!(
                "{} packets through the programs built for the host",
                self.compared
            );
        }
    }
}

pub(crate) fn put(programs: &mut Programs, name: &str, contents: &Contents) {
    match contents {
        Contents::Values(values) => programs.fill(name, values).unwrap(),
        Contents::Entries(entries) => {
            programs.clear(name).unwrap();
            for (key, value) in entries {
                programs.put(name, key, value).unwrap();
            }
        }
    }
}

/// For whom the frame is at an interface whose address is all zeros, as `eth_type_trans` of
/// net/ethernet/eth.c has it.
fn kind(frame: &[u8]) -> u32 {
    match frame.get(..6) {
        Some(to) if to == packet::TO => HOST,
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => BROADCAST,
        Some(to) if to[0] & 1 != 0 => MULTICAST,
        _ => OTHER_HOST,
    }
}

thread_local! {
    static ROUTES: RefCell<Option<RouteLookup>> = const { RefCell::new(None) };
}

/// The kernel's answers, but for the number that is drawn.
#[derive(Clone, Copy)]
struct Kernel {
    ticks: u64,
    drawn: u32,
}

impl Answers for Kernel {
    fn nanoseconds(&mut self) -> u64 {
        // Nothing is limited here.
        0
    }

    fn ticks(&mut self) -> u64 {
        self.ticks
    }

    fn random(&mut self) -> u32 {
        self.drawn
    }

    fn route(&mut self, lookup: &mut FibLookup) -> i64 {
        ROUTES.with_borrow_mut(|routes| {
            let routes = routes.get_or_insert_with(|| RouteLookup::open().unwrap());
            // SAFETY: as many bytes, of which each value is one.
            let bytes = unsafe { &mut *(&raw mut *lookup).cast::<[u8; size_of::<FibLookup>()]>() };
            routes.look_up(bytes).unwrap().into()
        })
    }

    fn namespace(&mut self) -> u64 {
        0
    }
}
