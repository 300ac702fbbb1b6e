//! Runs a program at the driver on one packet after the other, by a plan.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, Map, MapData, MapError, ProgramArray},
    programs::{ProgramFd, TestRun as _, TestRunAttrs, TestRunOptions, Xdp},
};
use shunt_common::feeder::{
    Choices, EnvelopeV6, Flow, FlowV6, LENGTH_V4, LENGTH_V6, Plan, Translation,
};
use shunt_datapath::TableSizes;

use crate::packets::{
    clock::thread_time,
    feeder::{SharedFlow, SharedPlan, measured},
    traffic::Family,
};

/// Verdicts, the kernel's `xdp_action` of linux/bpf.h.
const ABORTED: u32 = 0;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

/// Number of frames that a driver hands on at once: the budget of NAPI.
const BATCH: u32 = 64;

/// The feeding programs.
const FEED: &str = "feed_xdp_v4";
const FEED_V6: &str = "feed_xdp_v6";

/// The program that does what ours does for a frontend in mode dsr.
pub(super) const CHOICE: &str = "floor_xdp_choice";

/// The table that has the flows of a program written by hand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Table {
    Hash,
    /// As large as the connection table.
    Lru,
}

impl Table {
    const fn name(self) -> &'static str {
        match self {
            Self::Hash => "TRANSLATIONS",
            Self::Lru => "RECENT_TRANSLATIONS",
        }
    }

    /// The program that has it.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Hash => "floor_xdp",
            Self::Lru => "floor_xdp_lru",
        }
    }

    /// The same of flows of IPv6, which go into envelopes.
    const fn name_v6(self) -> &'static str {
        match self {
            Self::Hash => "TRANSLATIONS_V6",
            Self::Lru => "RECENT_TRANSLATIONS_V6",
        }
    }

    /// The program that has it, and puts packets into envelopes.
    pub(super) const fn envelope_program(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::Hash, Family::V4) => "floor_xdp_envelope",
            (Self::Lru, Family::V4) => "floor_xdp_envelope_lru",
            (Self::Hash, Family::V6) => "floor_xdp_envelope_v6",
            (Self::Lru, Family::V6) => "floor_xdp_envelope_lru_v6",
        }
    }
}

/// A translation, as aya takes values.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct SharedTranslation(Translation);

// SAFETY: words without padding.
unsafe impl aya::Pod for SharedTranslation {}

/// A flow of IPv6, as aya takes keys.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct SharedFlowV6(FlowV6);

// SAFETY: words without padding.
unsafe impl aya::Pod for SharedFlowV6 {}

/// An envelope of IPv6, as aya takes values.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct SharedEnvelopeV6(EnvelopeV6);

// SAFETY: words without padding.
unsafe impl aya::Pod for SharedEnvelopeV6 {}

/// A frontend's slots, as aya takes values.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct SharedChoices(Choices);

// SAFETY: words without padding.
unsafe impl aya::Pod for SharedChoices {}

/// A program's verdict on every packet that it is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// It is passed on.
    Pass,
    /// It is sent by another interface.
    Redirect,
    /// One thing of one, another of another.
    Various,
}

impl Said {
    const fn is(self, verdict: u32) -> bool {
        match self {
            Self::Pass => verdict == PASS,
            Self::Redirect => verdict == REDIRECT,
            Self::Various => verdict != ABORTED,
        }
    }
}

/// A program and its expected verdict.
#[derive(Debug)]
pub(super) struct Fed {
    pub program: ProgramFd,
    pub says: Said,
}

/// The programs that feed others, and those that others are compared with.
pub(super) struct Feeder {
    ebpf: Ebpf,
    plan: Array<MapData, SharedPlan>,
    ports: Array<MapData, u32>,
    fed: ProgramArray<MapData>,
    empty: Fed,
}

impl Feeder {
    /// Loads the object at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or the kernel does not take it.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let object = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut ebpf = EbpfLoader::new()
            .map_max_entries(Table::Lru.name(), TableSizes::default().conntrack)
            .map_max_entries(Table::Lru.name_v6(), TableSizes::default().conntrack)
            .load(&object)
            .context("cannot load the feeder")?;
        for name in [
            FEED,
            FEED_V6,
            CHOICE,
            "empty_xdp",
            "drop_xdp",
            "floor_xdp",
            "floor_xdp_lru",
            "floor_xdp_envelope",
            "floor_xdp_envelope_lru",
            "floor_xdp_envelope_v6",
            "floor_xdp_envelope_lru_v6",
            "stranger_xdp",
            "stranger_xdp_hashes",
        ] {
            driver(&mut ebpf, name)?
                .load()
                .with_context(|| format!("the kernel does not take {name}"))?;
        }
        let empty = Fed {
            program: driver(&mut ebpf, "empty_xdp")?.fd()?.try_clone()?,
            says: Said::Pass,
        };
        let mut take = |name| ebpf.take_map(name).context("the feeder lacks a table");
        Ok(Self {
            plan: take("PLAN")?.try_into()?,
            ports: take("HIDDEN_PORTS")?.try_into()?,
            fed: take("FED_XDP")?.try_into()?,
            empty,
            ebpf,
        })
    }

    /// A program of the object.
    ///
    /// # Errors
    ///
    /// If there is none of this name.
    pub(super) fn program(&mut self, name: &str) -> Result<&Xdp> {
        Ok(driver(&mut self.ebpf, name)?)
    }

    /// The same, to be attached.
    ///
    /// # Errors
    ///
    /// If there is none of this name.
    pub(super) fn program_mut(&mut self, name: &str) -> Result<&mut Xdp> {
        driver(&mut self.ebpf, name)
    }

    /// The same, for others to call.
    ///
    /// # Errors
    ///
    /// If there is none of this name.
    pub(super) fn keep(&mut self, name: &str, says: Said) -> Result<Fed> {
        let program = self.program(name)?.fd()?.try_clone();
        let program = program.context("cannot keep a program")?;
        Ok(Fed { program, says })
    }

    /// Writes the translations of flows to the tables of the programs written by hand.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn learn(
        &mut self,
        table: Table,
        flows: impl IntoIterator<Item = (Flow, Translation)>,
    ) -> Result<()> {
        let map = self.ebpf.map_mut(table.name());
        let mut map = HashMap::<_, SharedFlow, SharedTranslation>::try_from(
            map.context("the floor has no table")?,
        )?;
        for (flow, translation) in flows {
            map.insert(SharedFlow(flow), SharedTranslation(translation), 0)
                .context("the floor takes no flow")?;
        }
        Ok(())
    }

    /// The same of flows of IPv6, which go into these envelopes.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn learn_v6(
        &mut self,
        table: Table,
        flows: impl IntoIterator<Item = (FlowV6, EnvelopeV6)>,
    ) -> Result<()> {
        let map = self.ebpf.map_mut(table.name_v6());
        let mut map = HashMap::<_, SharedFlowV6, SharedEnvelopeV6>::try_from(
            map.context("the floor has no table")?,
        )?;
        for (flow, envelope) in flows {
            map.insert(SharedFlowV6(flow), SharedEnvelopeV6(envelope), 0)
                .context("the floor takes no flow")?;
        }
        Ok(())
    }

    /// Writes the addresses of frontends for the program that chooses, as packets have them, at a port and of a
    /// protocol. Each has as many slots, one a backend, and all backends are at the node with this envelope.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or there is no room.
    pub(super) fn learn_choices(
        &mut self,
        frontends: &[u64],
        backends: u32,
        envelope: Translation,
    ) -> Result<()> {
        for (index, frontend) in (0..).zip(frontends) {
            let first = index * backends;
            self.choice("CHOICE_FRONTENDS", |map| {
                HashMap::<_, u64, u32>::try_from(map)?.insert(frontend, index, 0)
            })?;
            let choices = Choices {
                first,
                count: backends,
            };
            self.choice("CHOICE_CELLS", |map| {
                Array::<_, SharedChoices>::try_from(map)?.set(index, SharedChoices(choices), 0)
            })?;
            for backend in first..first + backends {
                self.choice("CHOICE_SLOTS", |map| {
                    Array::<_, [u32; 4]>::try_from(map)?.set(backend, [backend; 4], 0)
                })?;
                self.choice("CHOICE_BACKENDS", |map| {
                    Array::<_, [u32; 8]>::try_from(map)?.set(backend, [0; 8], 0)
                })?;
            }
        }
        self.choice("CHOICE_NODES", |map| {
            Array::<_, SharedTranslation>::try_from(map)?.set(0, SharedTranslation(envelope), 0)
        })
    }

    fn choice(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut Map) -> Result<(), MapError>,
    ) -> Result<()> {
        let map = self.ebpf.map_mut(name);
        write(map.context("the feeder lacks a table")?)
            .with_context(|| format!("{name} takes no entry"))
    }

    /// Writes to the feeder the ports of the flows whose clients are hidden.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn hide(&mut self, ports: &[u16]) -> Result<()> {
        for (flow, port) in (0..).zip(ports) {
            self.ports.set(flow, u32::from(port.to_be()), 0)?;
        }
        Ok(())
    }

    /// Measures a run of the empty program, without a feeder, in nanoseconds.
    ///
    /// # Errors
    ///
    /// If the kernel does not run it.
    pub(super) fn bare(&mut self) -> Result<f64> {
        let program = driver(&mut self.ebpf, "empty_xdp")?;
        measured(1, |packets| Ok(timed(program, &frame(FEED), packets)?.0))
    }

    /// Measures a program's time for a packet of this plan, over that of the empty one, in nanoseconds.
    ///
    /// # Errors
    ///
    /// If the kernel does not run it, or it returns another verdict on a packet.
    pub(super) fn cost(&mut self, plan: &Plan, fed: &Fed) -> Result<f64> {
        let least = plan.flows;
        let idle = measured(least, |packets| self.feed_empty(plan, packets))?;
        let busy = measured(least, |packets| self.feed(plan, fed, packets))?;
        Ok(busy - idle)
    }

    /// As [`Self::cost`], for exactly one packet of each flow.
    ///
    /// # Errors
    ///
    /// As for [`Self::cost`].
    pub(super) fn cost_of_each(&mut self, plan: &Plan, fed: &Fed) -> Result<f64> {
        let idle = self.feed_empty(plan, plan.flows)?;
        let busy = self.feed(plan, fed, plan.flows)?;
        Ok((busy.as_nanos() as f64 - idle.as_nanos() as f64) / f64::from(plan.flows))
    }

    /// Feeds the program a frame of each flow as the driver of an interface would, by its index, and has
    /// the kernel carry out the program's verdict. Returns the time that this took.
    ///
    /// # Errors
    ///
    /// If the kernel does not run it.
    pub(super) fn feed_live(
        &mut self,
        plan: &Plan,
        program: &ProgramFd,
        interface: u32,
    ) -> Result<Duration> {
        self.prepare(plan, program)?;
        let feeder = driver(&mut self.ebpf, FEED)?;
        let length = u32::try_from(LENGTH_V4).context("a frame is too long")?;
        // The kernel's `xdp_md` of linux/bpf.h: where the packet begins and ends, where metadata begins,
        // the interface and the queue that it came by, and the one that it leaves by.
        let context = [0, length, 0, interface, 0, 0].map(u32::to_ne_bytes);
        let begin = Instant::now();
        feeder
            .test_run(TestRunOptions {
                data_in: Some(&frame(FEED)),
                ctx_in: Some(context.as_flattened()),
                repeat: plan.flows,
                attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
                ..TestRunOptions::default()
            })
            .context("the kernel sends no frames through the program")?;
        Ok(begin.elapsed())
    }

    fn feed_empty(&mut self, plan: &Plan, packets: u32) -> Result<Duration> {
        let empty = self.empty.program.try_clone();
        let empty = Fed {
            program: empty.context("cannot keep a program")?,
            says: self.empty.says,
        };
        self.feed(plan, &empty, packets)
    }

    /// Feeds the program so many packets. Returns the time that it took.
    ///
    /// # Errors
    ///
    /// If the kernel does not run it, or it returns another verdict on the last packet.
    pub(super) fn feed(&mut self, plan: &Plan, fed: &Fed, packets: u32) -> Result<Duration> {
        let Fed { program, says } = fed;
        self.prepare(plan, program)?;
        let name = if plan.length as usize == LENGTH_V6 {
            FEED_V6
        } else {
            FEED
        };
        let (time, verdict) = timed(driver(&mut self.ebpf, name)?, &frame(name), packets)?;
        ensure!(says.is(verdict), "the program says {verdict}, not {says:?}");
        Ok(time)
    }

    /// Has the feeder feed the program by the plan.
    fn prepare(&mut self, plan: &Plan, program: &ProgramFd) -> Result<()> {
        self.fed.set(0, program, 0).context(
            "the program cannot be called by the feeder: it is of another kind, or not compiled",
        )?;
        self.plan
            .set(0, SharedPlan(*plan), 0)
            .context("cannot write the plan")
    }
}

/// A frame for the feeder of this name to fill.
fn frame(feeder: &str) -> Vec<u8> {
    let (length, ethertype): (usize, u16) = if feeder == FEED_V6 {
        (LENGTH_V6, 0x86dd)
    } else {
        (LENGTH_V4, 0x0800)
    };
    let mut frame = vec![0; length];
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

/// Runs a program so many times. Returns the time and its last verdict.
fn timed(program: &Xdp, frame: &[u8], packets: u32) -> Result<(Duration, u32)> {
    let begin = thread_time();
    let ran = program
        .test_run(TestRunOptions {
            data_in: Some(frame),
            repeat: packets,
            ..TestRunOptions::default()
        })
        .context("the kernel does not run the program")?;
    Ok((thread_time().saturating_sub(begin), ran.return_value))
}

fn driver<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp> {
    let program = ebpf.program_mut(name);
    let program = program.with_context(|| format!("the feeder has no program {name}"))?;
    Ok(program.try_into()?)
}
