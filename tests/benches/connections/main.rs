//! The connection table beside the kernel's hash, without packets around them: what a lookup and
//! an insertion take in either, in turn.
//!
//! `cargo bench -p shunt-tests --bench connections -- [ROUNDS] [TITLE]`, as root and after
//! `cargo xtask setup`: what a title begins with is run (`race`, `sizes`, `find v4 65536`, `open`,
//! `flood`), or everything.

#[path = "../packets/clock.rs"]
mod clock;
mod race;
mod study;
mod subject;

use std::{env, path::Path};

use anyhow::{Context as _, Error, Result, anyhow};
use shunt_toolchain::Toolchain;

use crate::{
    study::Study,
    subject::{Kernel, Load},
};

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).filter(|it| it != "--bench").collect();
    let object = &object()?;
    let rounds = match arguments.first() {
        Some(number) => number.parse().context("not a number of rounds")?,
        None => 21,
    };
    let wanted = arguments.get(1).cloned().unwrap_or_default();
    if "race".starts_with(&wanted) {
        race::race(object, 400)?;
    }
    clock::stay_on_this_processor()?;
    if "sizes".starts_with(&wanted) {
        Kernel::load(object, 1 << 19, None)?.print_sizes()?;
    }
    for family in ["v4", "v6"] {
        for (flows, entries) in [
            (1, 1 << 19),
            (65_536, 1 << 17),
            (65_536, 1 << 19),
            (1_048_576, 1 << 22),
        ] {
            let name = format!("find {family} {flows} of {entries}");
            if name.starts_with(&wanted) {
                find(object, family, flows, entries, rounds).context(name)?;
            }
        }
    }
    for family in ["v4", "v6"] {
        for (name, eighths) in [("empty", 0), ("half full", 4), ("7/8 full", 7)] {
            let title = format!("open {family} {name}");
            if title.starts_with(&wanted) {
                open(object, family, name, eighths, rounds).context(title)?;
            }
        }
    }
    if "flood".starts_with(&wanted) {
        flood(object, rounds)?;
    }
    Ok(())
}

/// Builds the programs; gives where they are.
fn object() -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.parent().context("the package is in no workspace")?;
    let toolchain =
        Toolchain::load(root).map_err(|error| anyhow!("{error}: type `cargo xtask setup`"))?;
    let object = toolchain
        .build_object(root, &root.join("target/bpf"), "shunt-connections")
        .map_err(Error::msg)?;
    Ok(object.to_string_lossy().into_owned())
}

/// Packets of open connections, one of each in turn.
fn find(object: &str, family: &str, flows: u32, entries: u32, rounds: usize) -> Result<()> {
    let mut kernel = Kernel::load(object, entries, Some(family))?;
    let load = Load::tcp(flows);
    for program in ["hash_open", "table_open", "table_establish"] {
        kernel.run_each(&format!("{program}_{family}"), &load.in_order())?;
    }
    let mut study = Study::default();
    for _ in 0..rounds {
        let idle = kernel.cost(&format!("idle_{family}"), &load)?;
        let mut sample = vec![("idle", idle)];
        for what in ["request", "reply"] {
            if family == "v6" && what == "reply" {
                continue;
            }
            let hash = kernel.cost(&format!("hash_{what}_{family}"), &load)? - idle;
            let table = kernel.cost(&format!("table_{what}_{family}"), &load)? - idle;
            let names = match what {
                "request" => ["hash request", "table request", "request, table over hash"],
                _ => ["hash reply", "table reply", "reply, table over hash"],
            };
            sample.extend([
                (names[0], hash),
                (names[1], table),
                (names[2], table / hash),
            ]);
        }
        study.add(sample);
    }
    study.print(&format!(
        "{family}, {flows} flows in turn, {entries} entries"
    ));
    Ok(())
}

/// New connections, in a table that is partly full of established ones.
fn open(object: &str, family: &str, name: &str, eighths: u32, rounds: usize) -> Result<()> {
    const ENTRIES: u32 = 1 << 19;
    const OPENED: u32 = ENTRIES / 32;
    let mut study = Study::default();
    for _ in 0..rounds.div_ceil(3) {
        let mut kernel = Kernel::load(object, ENTRIES, Some(family))?;
        let there = ENTRIES / 2 / 8 * eighths;
        if there > 0 {
            let load = Load::tcp(there).in_order();
            for program in ["hash_open", "table_open", "table_establish"] {
                kernel.run_each(&format!("{program}_{family}"), &load)?;
            }
        }
        let load = Load::tcp(OPENED).after(there);
        let idle = kernel.run(&format!("idle_{family}"), &load, OPENED)?;
        let hash = kernel.run_each(&format!("hash_open_{family}"), &load)? - idle;
        let table = kernel.run_each(&format!("table_open_{family}"), &load)? - idle;
        study.add(vec![
            ("hash open", hash),
            ("table open", table),
            ("open, table over hash", table / hash),
        ]);
    }
    study.print(&format!("{family}, new connections, {name}"));
    Ok(())
}

/// Half-open connections without end, beside established ones: what one costs, and whether those
/// stay. A tick is a quarter of a second here, and the table is turned over within some two seconds, or
/// within half a one.
fn flood(object: &str, rounds: usize) -> Result<()> {
    const ENTRIES: u32 = 1 << 19;
    for (name, ticks) in [("100,000/s", 5), ("500,000/s", 1)] {
        let mut kernel = Kernel::load(object, ENTRIES, Some("v4"))?;
        let open = Load::tcp(ENTRIES / 4);
        for program in ["table_open_v4", "table_establish_v4"] {
            kernel.run_each(program, &open)?;
        }
        let mut study = Study::default();
        let mut first = ENTRIES;
        for round in 0..rounds as u32 * 2 {
            let load = Load::tcp(ENTRIES / 4).after(first).at(1000 + round * ticks);
            first += ENTRIES / 4;
            let idle = kernel.run("idle_v4", &load, ENTRIES / 4)?;
            let flood = kernel.run_each("table_open_v4", &load)? - idle;
            // Before that it fills.
            if round > 4 {
                study.add(vec![("half-open connection in a flood", flood)]);
            }
        }
        study.print(&format!(
            "v4, a flood of {name} beside 131,072 established connections (25 %)"
        ));
        let (done, failed) = kernel.count("table_request_v4", &open.at(1000))?;
        println!("of the established connections {done} are there and {failed} are not\n");
    }
    Ok(())
}
