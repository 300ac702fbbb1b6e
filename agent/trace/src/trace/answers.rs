//! A kernel's answers to the programs, by a dump.

use std::sync::Arc;

use shunt_programs::{Answers, FibLookup, WayQuestion};

use crate::{dump::record::Dump, trace::fib::Fib};

/// Random numbers that are the same for the same question: splitmix64 (G. Steele and others, 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next one.
    pub(crate) const fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 32) as u32
    }
}

/// Answers of a kernel.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) dump: Arc<Dump>,
    pub(crate) random: Random,
    /// Later than the dump by so many nanoseconds.
    pub(crate) later: u64,
    /// The network namespace of the socket at hand.
    pub(crate) namespace: u64,
}

impl Answers for Told {
    fn nanoseconds(&mut self) -> u64 {
        self.dump.node.nanoseconds.saturating_add(self.later)
    }

    fn ticks(&mut self) -> u64 {
        self.dump.node.ticks
    }

    fn random(&mut self) -> u32 {
        self.random.next()
    }

    fn route(&mut self, lookup: &mut FibLookup) -> i64 {
        let (result, way) = Fib(&self.dump).ask(&WayQuestion::of(lookup));
        if let Some(way) = way {
            way.answer(lookup);
        }
        result
    }

    fn namespace(&mut self) -> u64 {
        self.namespace
    }
}
