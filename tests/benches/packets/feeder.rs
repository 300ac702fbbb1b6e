//! Runs a program on one packet after the other, by a plan.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, ProgramArray},
    programs::{ProgramFd, SchedClassifier, TestRun as _, TestRunOptions},
};
use shunt_common::feeder::{FIRST_PORT, Floor, Flow, Plan};

use super::{
    clock::thread_time,
    traffic::{Family, Traffic},
};

/// Least duration of a run.
const RUN: Duration = Duration::from_millis(25);

/// Number of packets of a first try, which finds out the number for that duration.
const TRIED: u32 = 20_000;

/// The programs that feed others, those that others are compared with, and how many nanoseconds
/// all of that takes.
pub(crate) struct Feeder {
    ebpf: Ebpf,
    plan: Array<MapData, SharedPlan>,
    fed: ProgramArray<MapData>,
    empty: ProgramFd,
    trivial: ProgramFd,
    floor: ProgramFd,
    lines_v4: ProgramFd,
    lines_v6: ProgramFd,
}

/// The plan, as aya takes values.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct SharedPlan(pub(crate) Plan);

// SAFETY: words without padding.
unsafe impl aya::Pod for SharedPlan {}

/// A flow, as aya takes keys.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct SharedFlow(pub(crate) Flow);

// SAFETY: words without padding.
unsafe impl aya::Pod for SharedFlow {}

/// The floor's translation of it, as aya takes values.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct SharedFloor(Floor);

// SAFETY: words without padding.
unsafe impl aya::Pod for SharedFloor {}

impl Feeder {
    /// Loads the object at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or the kernel does not take it.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let object = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut ebpf = Ebpf::load(&object).context("cannot load the feeder")?;
        let mut load = |name: &str| {
            let program = classifier(&mut ebpf, name)?;
            program
                .load()
                .with_context(|| format!("the kernel does not take {name}"))?;
            let descriptor = program.fd()?.try_clone();
            descriptor.context("cannot keep a program")
        };
        load("feed_v4")?;
        load("feed_v6")?;
        let (empty, trivial, floor) = (load("empty")?, load("trivial")?, load("floor")?);
        let (lines_v4, lines_v6) = (load("lines_v4")?, load("lines_v6")?);
        let mut take = |name| ebpf.take_map(name).context("the feeder lacks a table");
        Ok(Self {
            plan: take("PLAN")?.try_into()?,
            fed: take("FED")?.try_into()?,
            empty,
            trivial,
            floor,
            lines_v4,
            lines_v6,
            ebpf,
        })
    }

    /// The program that does nothing.
    pub(super) const fn empty(&self) -> &ProgramFd {
        &self.empty
    }

    /// The least program that rewrites a packet.
    pub(super) const fn trivial(&self) -> &ProgramFd {
        &self.trivial
    }

    /// The program that looks a flow up and translates it, and does nothing else. Its table has one
    /// flow, over TCP from the client's first port.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the entry.
    pub(super) fn floor(&mut self, client: Ipv4Addr, service: SocketAddrV4) -> Result<ProgramFd> {
        let word = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            u32::from_ne_bytes([a, b, c, d])
        };
        let address = |address: Ipv4Addr| u32::from_ne_bytes(address.octets());
        let flow = Flow {
            addresses: u64::from(address(client)) | u64::from(address(*service.ip())) << 32,
            rest: u64::from(word(FIRST_PORT as u16, service.port())) | 6 << 32,
        };
        let floor = Floor {
            address: address(Ipv4Addr::new(10, 1, 1, 3)),
            port: u16::from_ne_bytes(8080_u16.to_be_bytes()).into(),
        };
        let flows = self.ebpf.map_mut("FLOWS");
        HashMap::try_from(flows.context("the floor has no table")?)?
            .insert(SharedFlow(flow), SharedFloor(floor), 0)
            .context("the floor takes no flow")?;
        self.floor.try_clone().context("cannot keep a program")
    }

    /// The program that reads as many lines as a connection of this family has in a direction, and
    /// does nothing else.
    pub(super) const fn lines(&self, family: Family) -> &ProgramFd {
        match family {
            Family::V4 => &self.lines_v4,
            Family::V6 => &self.lines_v6,
        }
    }

    /// A program of the object.
    ///
    /// # Errors
    ///
    /// If there is none of this name.
    pub(super) fn program(&mut self, name: &str) -> Result<&mut SchedClassifier> {
        classifier(&mut self.ebpf, name)
    }

    /// Measures a run of the empty program, without a feeder, in nanoseconds.
    ///
    /// # Errors
    ///
    /// If the kernel does not run it.
    pub(super) fn bare(&mut self) -> Result<f64> {
        let program = classifier(&mut self.ebpf, "empty")?;
        measured(1, |packets| Ok(timed(program, &[0; 64], packets)?.0))
    }

    /// Measures a program's time for a packet of this traffic, over that of the empty one, in nanoseconds.
    ///
    /// # Errors
    ///
    /// If the kernel does not run it.
    pub(super) fn cost(&mut self, traffic: &Traffic, program: &ProgramFd) -> Result<f64> {
        let empty = self.empty.try_clone().context("cannot keep a program")?;
        let least = traffic.flows();
        let idle = measured(least, |packets| self.feed(traffic, &empty, packets))?;
        let busy = measured(least, |packets| self.feed(traffic, program, packets))?;
        Ok(busy - idle)
    }

    /// As [`Self::cost`], for exactly one packet of each flow.
    ///
    /// # Errors
    ///
    /// If the kernel does not run it.
    pub(crate) fn cost_of_each(&mut self, traffic: &Traffic, program: &ProgramFd) -> Result<f64> {
        let empty = self.empty.try_clone().context("cannot keep a program")?;
        let flows = traffic.flows();
        let idle = self.feed(traffic, &empty, flows)?;
        let busy = self.feed(traffic, program, flows)?;
        Ok((busy.as_nanos() as f64 - idle.as_nanos() as f64) / f64::from(flows))
    }

    /// Feeds the program so many packets. Returns the time that it took.
    ///
    /// # Errors
    ///
    /// If the kernel does not run it.
    pub(super) fn feed(
        &mut self,
        traffic: &Traffic,
        program: &ProgramFd,
        packets: u32,
    ) -> Result<Duration> {
        self.fed.set(0, program, 0).context(
            "the program cannot be called by the feeder: it is of another kind, or not compiled",
        )?;
        self.plan
            .set(0, SharedPlan(traffic.plan()), 0)
            .context("cannot write the plan")?;
        let feeder = classifier(&mut self.ebpf, traffic.feeder())?;
        let (time, verdict) = timed(feeder, &traffic.frame(), packets)?;
        // TC_ACT_SHOT of linux/pkt_cls.h: the feeder's own word that it could not.
        ensure!(verdict != 2, "the packets were dropped");
        Ok(time)
    }
}

/// Nanoseconds a packet of a run of at least [`RUN`] and so many packets.
///
/// As many are tried before: what is measured is not the first packet of a flow since the run before,
/// some seconds ago, which is looked at more closely.
pub(crate) fn measured(least: u32, mut run: impl FnMut(u32) -> Result<Duration>) -> Result<f64> {
    let first = TRIED.max(least);
    let tried = run(first)?.max(Duration::from_nanos(1));
    let packets = f64::from(first) * (RUN.as_secs_f64() / tried.as_secs_f64());
    let packets = (packets.clamp(1.0, 1e8) as u32).max(least);
    let time = run(packets)?;
    Ok(time.as_nanos() as f64 / f64::from(packets))
}

/// Runs a program so many times on a frame. Returns the time and its last verdict.
fn timed(program: &SchedClassifier, frame: &[u8], packets: u32) -> Result<(Duration, u32)> {
    let begin = thread_time();
    let ran = program
        .test_run(TestRunOptions {
            data_in: Some(frame),
            repeat: packets,
            ..TestRunOptions::default()
        })
        .context("the kernel does not run the program")?;
    Ok((thread_time().checked_sub(begin).unwrap(), ran.return_value))
}

fn classifier<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier> {
    let program = ebpf.program_mut(name);
    let program = program.with_context(|| format!("the feeder has no program {name}"))?;
    Ok(program.try_into()?)
}
