//! The programs built for the host, over copies of the kernel's tables: for a system call they must return what
//! the kernel's did.

use std::{collections::BTreeMap, net::SocketAddr};

use shunt_common::registry::{self, FamilyMaps};
use shunt_datapath::{Contents, Jiffies, TableCopies};
use shunt_programs::{Answers, Call, Deed, FibLookup, Programs, Remembered};

use crate::twin::put;

/// Number of values that are tried for the number that the kernel has drawn. Each entry of a Maglev table of up
/// to 16,381 gets one: a backend of a small share may have a single entry.
const DRAWS: u32 = 1 << 14;

/// The tables that a call depends on and changes.
const WRITTEN: [&str; 2] = [FamilyMaps::V4.affinity.name, FamilyMaps::V6.affinity.name];

/// Offset of the second in which an entry of these was used last.
const LAST_USED: usize = 4;

/// The clients that stay with their backends: in each table, by their keys.
pub(crate) type Clients = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The address that it goes on with, or the error that it fails with.
    pub result: Result<SocketAddr, i32>,
    pub remembered: Remembered,
    pub clients: Clients,
    /// Its counts.
    pub counted: BTreeMap<u32, u64>,
    /// True if a number was drawn.
    pub is_drawn: bool,
}

/// The programs with copies of an agent's tables.
pub(crate) struct Twin {
    programs: Programs,
    /// True if the agent may have written something.
    pub is_stale: bool,
    jiffies: Jiffies,
    /// The cookie of the node's own network namespace.
    host: u64,
    hz: u64,
    clients: Clients,
}

impl Twin {
    /// Of the agent with these tables. No other thread of this process has one as long as it lives.
    pub(crate) fn new(copies: &TableCopies) -> Self {
        let mut programs = Programs::begin();
        let (mut host, mut hz) = (0, 1);
        for (name, value) in copies.constants() {
            if *name == registry::HOST_NETNS.name {
                host = u64::from_ne_bytes(value[..].try_into().unwrap());
            }
            if *name == registry::CLOCK_HZ.name {
                hz = u32::from_ne_bytes(value[..].try_into().unwrap()).into();
            }
            // The log's is none of the programs' own.
            if *name != "AYA_LOG_LEVEL" {
                programs.set_constant(name, value).unwrap();
            }
        }
        Self {
            programs,
            is_stale: true,
            jiffies: Jiffies::open().unwrap(),
            host,
            hz,
            clients: Clients::default(),
        }
    }

    /// Copies what the tables hold before a call. Returns the kernel's ticks.
    pub(crate) fn look_at(&mut self, copies: &TableCopies) -> u64 {
        if std::mem::take(&mut self.is_stale) {
            for (number, name) in copies.names().enumerate() {
                if !WRITTEN.contains(&name) {
                    let table = copies.copy(number).unwrap().unwrap();
                    put(&mut self.programs, name, &table.contents);
                }
            }
        }
        self.clients = clients(copies);
        self.ticks()
    }

    /// The kernel's ticks.
    pub(crate) fn ticks(&self) -> u64 {
        self.jiffies.read().unwrap()
    }

    /// Looks for what a call came to that was made between these ticks, among all that it may have come to:
    /// `is_that` selects it. Returns what was found that it is not.
    pub(crate) fn find(
        &mut self,
        call: &Call,
        is_of_pod: bool,
        ticks: [u64; 2],
        is_that: impl Fn(&Found) -> bool,
    ) -> Result<Found, Vec<Found>> {
        let [before, after] = ticks;
        // Where a second ended meanwhile, it may have been either.
        let seconds = if before / self.hz == after / self.hz {
            &[before][..]
        } else {
            &[before, after]
        };
        let mut others = Vec::new();
        // A socket of another call may have a loopback address and the port.
        let times = seconds
            .iter()
            .flat_map(|ticks| [(ticks, false), (ticks, true)]);
        for (ticks, is_served) in times {
            for number in 0..DRAWS {
                let kernel = Kernel {
                    ticks: *ticks,
                    // Each of them is in another slot's share, and those in between come later.
                    drawn: number.reverse_bits() | 1,
                    namespace: if is_of_pod { !self.host } else { self.host },
                    is_served,
                };
                let found = self.run(call, kernel);
                if is_that(&found) {
                    return Ok(found);
                }
                let is_drawn = found.is_drawn;
                if !others.contains(&found) {
                    others.push(found);
                }
                if !is_drawn {
                    break;
                }
            }
        }
        Err(others)
    }

    fn run(&mut self, call: &Call, kernel: Kernel) -> Found {
        let programs = &mut self.programs;
        programs.clear(registry::COUNTERS.name).unwrap();
        for (name, clients) in WRITTEN.iter().zip(&self.clients) {
            programs.clear(name).unwrap();
            for (key, value) in clients {
                programs.put(name, key, value).unwrap();
            }
        }
        let outcome = programs.call(call, Box::new(kernel));
        let permission = -libc::EPERM;
        let counted = programs.entries(registry::COUNTERS.name).into_iter();
        Found {
            result: outcome.to.ok_or(-outcome.error.unwrap_or(permission)),
            remembered: outcome.remembered,
            clients: WRITTEN.map(|name| {
                let entries = programs.entries(name).into_iter();
                entries
                    .map(|(key, value)| (key.into(), value.into()))
                    .collect()
            }),
            counted: counted
                .map(|(counter, count)| {
                    (
                        u32::from_ne_bytes(counter[..].try_into().unwrap()),
                        u64::from_ne_bytes(count[..].try_into().unwrap()),
                    )
                })
                .collect(),
            is_drawn: outcome
                .deeds
                .iter()
                .any(|deed| matches!(deed, Deed::Draw(_))),
        }
    }
}

/// The clients that stay with their backends now.
pub(crate) fn clients(copies: &TableCopies) -> Clients {
    WRITTEN.map(|name| {
        let number = copies.names().position(|known| known == name).unwrap();
        match copies.copy(number).unwrap().unwrap().contents {
            Contents::Entries(entries) => entries.into_iter().collect(),
            Contents::Values(_) => panic!("{name} is an array"),
        }
    })
}

/// Returns whether these are the same clients with the same backends, last seen in the same second or in the next.
pub(crate) fn are_same(one: &Clients, other: &Clients) -> bool {
    let used = |value: &[u8]| u32::from_ne_bytes(*value[LAST_USED..].first_chunk().unwrap());
    let rest = |value: &[u8]| [&value[..LAST_USED], &value[LAST_USED + 4..]].concat();
    one.iter().zip(other).all(|(one, other)| {
        one.len() == other.len()
            && one.iter().zip(other).all(|((key, value), (own, others))| {
                key == own
                    && rest(value) == rest(others)
                    && used(others).wrapping_sub(used(value)) <= 1
            })
    })
}

/// The kernel's answers.
struct Kernel {
    ticks: u64,
    drawn: u32,
    namespace: u64,
    is_served: bool,
}

impl Answers for Kernel {
    fn nanoseconds(&mut self) -> u64 {
        0
    }

    fn ticks(&mut self) -> u64 {
        self.ticks
    }

    fn random(&mut self) -> u32 {
        self.drawn
    }

    fn route(&mut self, _: &mut FibLookup) -> i64 {
        unreachable!("a call asks for no route")
    }

    fn namespace(&mut self) -> u64 {
        self.namespace
    }

    fn is_served(&mut self) -> bool {
        self.is_served
    }
}
