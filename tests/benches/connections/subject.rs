//! The programs in the kernel, and what they are run on.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, MapData},
    programs::{SchedClassifier, TestRun as _, TestRunOptions},
};

use shunt_common::connections::bench_plan::Plan;

use crate::clock::thread_time;

/// How long a run is at least.
const RUN: Duration = Duration::from_millis(20);

/// How far a half may be from its home, and one: what a table has behind its homes.
const TAIL: u32 = 256;

/// The plan, as aya takes values.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct SharedPlan(Plan);

// SAFETY: words without padding.
unsafe impl aya::Pod for SharedPlan {}

/// Flows whose packets come in turn.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    flows: u32,
    first: u32,
    now: u32,
    protocol: u32,
    in_order: bool,
}

impl Load {
    /// TCP connections.
    pub(crate) const fn tcp(flows: u32) -> Self {
        Self {
            flows,
            first: 0,
            now: 1000,
            protocol: 6,
            in_order: false,
        }
    }

    /// As many others, which begin after so many.
    #[must_use]
    pub(crate) const fn after(self, first: u32) -> Self {
        Self { first, ..self }
    }

    /// The same, each flow after its neighbour: who opens connections in the order in which their
    /// packets come finds the entries of the kernel's hash one behind the other.
    #[must_use]
    pub(crate) const fn in_order(self) -> Self {
        Self {
            in_order: true,
            ..self
        }
    }

    /// The same at another tick.
    #[must_use]
    pub(crate) const fn at(self, now: u32) -> Self {
        Self { now, ..self }
    }

    fn plan(&self) -> Plan {
        Plan {
            flows: self.flows,
            step: if self.in_order {
                1 % self.flows
            } else {
                step(self.flows)
            },
            first: self.first,
            now: self.now,
            protocol: self.protocol,
            ..Plan::default()
        }
    }
}

/// The programs and their tables.
pub(crate) struct Kernel {
    ebpf: Ebpf,
    plan: Array<MapData, SharedPlan>,
}

impl Kernel {
    /// Loads the object, with tables for so many halves: of one family, the other's being small.
    pub(crate) fn load(object: &str, entries: u32, family: Option<&str>) -> Result<Self> {
        let object = std::fs::read(object).with_context(|| format!("cannot read {object}"))?;
        let homes = entries + entries / 2;
        let mut loader = EbpfLoader::new();
        let size = |name| if family == Some(name) { entries } else { 1024 };
        loader
            .override_global("HOMES", &homes, true)
            .map_max_entries("HASH_V4", size("v4"))
            .map_max_entries("HASH_V6", size("v6"));
        for name in ["v4", "v6"] {
            let slots = if family == Some(name) {
                homes + TAIL
            } else {
                1024
            };
            loader.map_max_entries(if name == "v4" { "SLOTS_V4" } else { "SLOTS_V6" }, slots);
        }
        let mut ebpf = loader.load(&object).context("cannot load the object")?;
        for (name, program) in ebpf.programs_mut() {
            let wanted = family.is_none_or(|family| name.ends_with(family));
            if wanted {
                let program: &mut SchedClassifier = program.try_into()?;
                program
                    .load()
                    .with_context(|| format!("the kernel does not take {name}"))?;
            }
        }
        let plan = ebpf.take_map("PLAN").context("no plan")?.try_into()?;
        Ok(Self { ebpf, plan })
    }

    /// What the verifier says of the programs.
    pub(crate) fn print_sizes(&mut self) -> Result<()> {
        for (name, program) in self.ebpf.programs_mut() {
            let program: &mut SchedClassifier = program.try_into()?;
            let info = program.info()?;
            println!(
                "{name:<20} {:>6} instructions, {:>7} bytes of machine code, {:>7} verified",
                info.size_translated().unwrap_or(0) / 8,
                info.size_jitted(),
                info.verified_instruction_count().unwrap_or(0),
            );
        }
        println!();
        Ok(())
    }

    /// Nanoseconds a packet, in a run that is long enough.
    pub(crate) fn cost(&mut self, program: &str, load: &Load) -> Result<f64> {
        let tried = 20_000.max(load.flows.min(100_000));
        let time = self.run(program, load, tried)?.max(1.0);
        let packets = (RUN.as_nanos() as f64 / time).clamp(1.0, 1e7) as u32;
        self.run(program, load, packets.max(load.flows))
    }

    /// Nanoseconds a packet, for one of each flow, all of which have to go well.
    pub(crate) fn run_each(&mut self, program: &str, load: &Load) -> Result<f64> {
        let time = self.run(program, load, load.flows)?;
        let plan = self.plan.get(&0, 0)?.0;
        ensure!(
            plan.failed == 0 && plan.done == u64::from(load.flows),
            "{program}: of {} packets {} went well, {} did not",
            load.flows,
            plan.done,
            plan.failed
        );
        Ok(time)
    }

    /// How many of the flows' packets go well and how many do not.
    pub(crate) fn count(&mut self, program: &str, load: &Load) -> Result<(u64, u64)> {
        self.run(program, load, load.flows)?;
        let plan = self.plan.get(&0, 0)?.0;
        Ok((plan.done, plan.failed))
    }

    /// Sets what the next run is on.
    pub(crate) fn plan(&mut self, load: &Load) -> Result<()> {
        Ok(self.plan.set(0, SharedPlan(load.plan()), 0)?)
    }

    /// Runs a program, maybe on several CPUs at once, on what is planned.
    pub(crate) fn run_shared(&self, program: &str, packets: u32) -> Result<()> {
        let found = self.ebpf.program(program);
        let found: &SchedClassifier = found
            .with_context(|| format!("no program {program}"))?
            .try_into()?;
        found.test_run(TestRunOptions {
            data_in: Some(&[0; 64]),
            repeat: packets,
            ..TestRunOptions::default()
        })?;
        Ok(())
    }

    /// The slots of the table, IPv4.
    pub(crate) fn slots(&self) -> Result<Vec<[u64; 8]>> {
        let map = self.ebpf.map("SLOTS_V4").context("no slots")?;
        let slots: Array<_, [u64; 8]> = map.try_into()?;
        Ok(slots.iter().collect::<Result<_, _>>()?)
    }

    /// Nanoseconds a packet.
    pub(crate) fn run(&mut self, program: &str, load: &Load, packets: u32) -> Result<f64> {
        self.plan.set(0, SharedPlan(load.plan()), 0)?;
        let found = self.ebpf.program_mut(program);
        let found: &mut SchedClassifier = found
            .with_context(|| format!("no program {program}"))?
            .try_into()?;
        let begin = thread_time();
        found
            .test_run(TestRunOptions {
                data_in: Some(&[0; 64]),
                repeat: packets,
                ..TestRunOptions::default()
            })
            .context("the kernel does not run the program")?;
        Ok(thread_time().checked_sub(begin).unwrap().as_nanos() as f64 / f64::from(packets))
    }
}

/// How far apart flows are that come one after the other: about the golden section of them all, and
/// without a common divisor, so that each has its turn.
fn step(flows: u32) -> u32 {
    let golden = (f64::from(flows) * 0.618_034) as u32;
    (golden.max(1)..=flows)
        .find(|&step| divisor(flows, step) == 1)
        .map_or(0, |step| step % flows)
}

const fn divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
