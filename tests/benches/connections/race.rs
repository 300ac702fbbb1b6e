//! Two CPUs that open the same flows in a small table at once, and what is left of them.

use std::{collections::HashSet, thread};

use anyhow::{Result, ensure};
use shunt_common::{
    V4,
    connections::{Key, Kind, Link, Memory, Meta, Role, Slot, place},
};

use crate::subject::{Kernel, Load};

/// A copy of the table, at rest.
struct Copy(Vec<[u64; 8]>);

#[derive(Clone, Copy)]
struct Words<'a>(&'a [u64; 8]);

impl Slot for Words<'_> {
    fn load(self, place: usize) -> u64 {
        self.0[place]
    }

    fn store(self, _place: usize, _value: u64) {}

    fn exchange(self, _place: usize, _old: u64, _new: u64) -> bool {
        false
    }
}

impl<'a> Memory for &'a Copy {
    type Family = V4;
    type Slot = Words<'a>;

    fn slot(&self, index: u32) -> Option<Words<'a>> {
        self.0.get(index as usize).map(Words)
    }
}

/// Runs the race so many times, and checks the table after each.
///
/// # Errors
///
/// If a slot is held by nobody, a half is alone, or a key is there twice.
pub(crate) fn race(object: &str, rounds: u32) -> Result<()> {
    const ENTRIES: u32 = 1 << 10;
    let mut kernel = Kernel::load(object, ENTRIES, Some("v4"))?;
    let mut left = 0;
    for round in 0..rounds {
        // Some fit, some are too many: then they displace each other.
        let flows = (ENTRIES / 4) << (round % 4);
        let load = Load::tcp(flows).after(round * 7).at(1000 + round * 2);
        kernel.plan(&load)?;
        thread::scope(|scope| {
            let runs = [0, 1].map(|_| {
                let kernel = &kernel;
                scope.spawn(move || kernel.run_shared("table_open_v4", flows * 8))
            });
            runs.into_iter()
                .try_for_each(|run| run.join().expect("no panic"))
        })?;
        left += check(&Copy(kernel.slots()?))?;
    }
    println!("two CPUs, {rounds} rounds: whole, {left} connections in all\n");
    Ok(())
}

/// Gives the number of connections.
fn check(copy: &Copy) -> Result<usize> {
    let mut keys = HashSet::new();
    let mut forward = 0;
    for index in 0..copy.0.len() as u32 {
        let Some(slot) = copy.slot(index) else { break };
        let meta = Meta(slot.load(place::META));
        match meta.kind() {
            Kind::Free => continue,
            Kind::Busy | Kind::Pending => anyhow::bail!("slot {index} is held by nobody"),
            Kind::Live => {}
        }
        let key = Key::<V4>::of_slot(slot);
        ensure!(keys.insert(format!("{key:?}")), "{key:?} is there twice");
        let link = Link(slot.load(place::LINK));
        let other = copy.slot(link.index()).map(|other| {
            let back = Link(other.load(place::LINK));
            let whole = Meta(other.load(place::META)).version() == link.version();
            whole && (back.index(), back.version()) == (index, meta.version())
        });
        ensure!(other == Some(true), "half {index} is alone");
        forward += usize::from(meta.role() == Role::Forward);
    }
    ensure!(
        keys.len() == 2 * forward,
        "{} halves of {forward}",
        keys.len()
    );
    Ok(forward)
}
