//! The XDP program, run on single frames.

use anyhow::{Context as _, Result, bail, ensure};
use aya::{
    TestRun as _, TestRunOptions,
    maps::{HashMap, Map, MapData},
    programs::{ProgramError, Xdp},
};
use nix::net::if_::if_nameindex;
use shunt_common::{Uplink, registry};

/// The link address of every next hop in a test's network.
pub const NEXT_HOP: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// The same, as `ip` writes it.
pub const NEXT_HOP_TEXT: &str = "02:00:00:00:00:09";

/// For how many bytes a test run's driver keeps room before a frame: XDP_PACKET_HEADROOM of linux/bpf.h, of
/// which the kernel takes what an `xdp_frame` is long.
const ROOM: u32 = 256 - 40;

/// Uplink of the agent in tests of single frames: none that is there, for the tests themselves name the uplinks.
pub const NO_INTERFACE: &str = "nowhere0";

/// Outcome of a frame that got no further than the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is lost.
    Dropped,
    /// It leaves by the interface that it came in by (`XDP_TX`), as this frame.
    Back(Vec<u8>),
    /// It leaves by another one (`XDP_REDIRECT`), as this frame.
    Sent(Vec<u8>),
}

/// Runs the program on a frame that comes in by the loopback. `None`: it is passed on, as it is. The
/// link's header of what leaves by another interface is put back: behind TC the kernel writes it later.
///
/// # Errors
///
/// If the kernel does not run it, or if the program does what it never may.
pub fn run_driver(program: &Xdp, frame: &[u8]) -> Result<Option<Taken>> {
    run_driver_at(program, 0, frame)
}

/// As [`run_driver`], on a frame that comes in by the interface of this index of the calling thread's
/// network namespace; 0 is the loopback.
///
/// # Errors
///
/// As [`run_driver`].
pub fn run_driver_at(program: &Xdp, interface: u32, frame: &[u8]) -> Result<Option<Taken>> {
    let (verdict, output) = run(program, interface, 0, frame).context("running the XDP program")?;
    taken(verdict, output, frame)
}

/// As [`run_driver`], by a driver that has kept room for so many bytes before the frame, a multiple of four, and
/// not more than there is.
///
/// # Errors
///
/// As [`run_driver`].
pub fn run_driver_with_room(program: &Xdp, room: u32, frame: &[u8]) -> Result<Option<Taken>> {
    // Metadata takes the rest, if the kernel has `Ability::LongMetadata`.
    let metadata = ROOM.checked_sub(room).context("there is no more room")?;
    let (verdict, output) = run(program, 0, metadata, frame).context("running the XDP program")?;
    taken(verdict, output, frame)
}

/// Runs the program on a frame behind this much metadata, which takes room from it. Returns its verdict and what
/// has become of the frame.
fn run(
    program: &Xdp,
    interface: u32,
    metadata: u32,
    frame: &[u8],
) -> Result<(u32, Vec<u8>), ProgramError> {
    let behind = metadata as usize;
    let data = [&vec![0; behind], frame].concat();
    let mut output = vec![0; data.len() + 256];
    // struct xdp_md of linux/bpf.h: data, data_end, data_meta, ingress_ifindex, and two more.
    let context = [metadata, data.len() as u32, 0, interface, 0, 0].map(u32::to_ne_bytes);
    let ran = program.test_run(TestRunOptions {
        data_in: Some(&data),
        data_out: Some(&mut output),
        ctx_in: Some(context.as_flattened()),
        ..TestRunOptions::new()
    })?;
    output.truncate(ran.data_size_out as usize);
    output.drain(..behind);
    Ok((ran.return_value, output))
}

/// Returns the outcome of a verdict on a frame.
fn taken(verdict: u32, mut output: Vec<u8>, frame: &[u8]) -> Result<Option<Taken>> {
    // xdp_action of linux/bpf.h.
    match verdict {
        1 => Ok(Some(Taken::Dropped)),
        2 => {
            ensure!(output == frame, "what is passed on is touched: {output:?}");
            Ok(None)
        }
        3 => Ok(Some(Taken::Back(output))),
        4 => {
            ensure!(output[..6] == NEXT_HOP, "it goes elsewhere: {output:?}");
            output[..12].copy_from_slice(&frame[..12]);
            Ok(Some(Taken::Sent(output)))
        }
        other => bail!("the XDP program returned {other}"),
    }
}

/// The program's table of uplinks, written in the agent's place: nothing is attached in these tests.
#[derive(Debug)]
pub struct Uplinks(HashMap<MapData, u32, [u8; size_of::<Uplink>()]>);

impl Uplinks {
    /// That of a loaded program.
    ///
    /// # Errors
    ///
    /// If it has no such table, or the kernel refuses.
    pub fn of(program: &Xdp) -> Result<Self> {
        let tables = program.info()?.map_ids()?.unwrap_or_default();
        let tables = tables.into_iter().map(MapData::from_id);
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        let named = |table: &MapData| {
            let info = table.info();
            info.is_ok_and(|info| info.name_as_str() == Some(registry::UPLINKS.name))
        };
        let table = tables.into_iter().find(named).context("no such table")?;
        Ok(Self(HashMap::try_from(Map::HashMap(table))?))
    }

    /// Reports that all interfaces of the network namespace have the program, and this address. Whatever
    /// has the agent look at its interfaces undoes it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn set_all(&mut self, address: [u8; 6]) -> Result<()> {
        // The address stands first, and zeros behind it.
        let mut uplink = [0; size_of::<Uplink>()];
        uplink[..address.len()].copy_from_slice(&address);
        for interface in &if_nameindex()? {
            self.0.insert(interface.index(), uplink, 0)?;
        }
        Ok(())
    }
}
