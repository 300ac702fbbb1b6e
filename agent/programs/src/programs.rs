//! Running the programs.

use std::{error, fmt, io};

use aya_ebpf::{
    bindings::{__sk_buff, xdp_md},
    packet::{Frame, bytes},
    table::{Entry, Misfit, Table},
    world::{self, Answers, Deed, Place, Turn},
};

use crate::{hooks, tables};

/// The programs with their tables. There is one set of them in a process: a thread that wants another one waits until
/// this is dropped.
#[derive(Debug)]
pub struct Programs {
    _turn: Turn,
}

impl Drop for Programs {
    fn drop(&mut self) {
        // A copy of a node's tables is large, and may not be needed again.
        tables::clear();
    }
}

/// A packet, and what a kernel knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// Its bytes, with the link's header if the interface has one.
    pub frame: &'a [u8],
    /// The index of the interface that it is at.
    pub interface: u32,
    /// The index of the interface that it came in by; 0: the host has made it.
    pub came_by: u32,
    /// True if the interface's packets have an Ethernet header.
    pub is_ethernet: bool,
    /// The receiver by the link's header: `PACKET_HOST` and the others of `linux/if_packet.h`.
    pub kind: u32,
    /// The tag that Shunt has left with it at another hook.
    pub tag: u16,
}

/// Outcome of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The packet as it is then.
    pub frame: Vec<u8>,
    /// The tag that is left with it.
    pub tag: u16,
    /// The program's actions on its way, in its order.
    pub deeds: Vec<Deed>,
}

/// A program's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// On to the next program, then the stack.
    Pass,
    /// Dropped.
    Drop,
    /// Sent out of an interface, see the last [`Deed::Send`].
    Send,
    /// Sent back out of the interface that it came by.
    Back,
    /// Something that no program returns.
    Other(i64),
}

/// The reason for which a table or a constant could not be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetError {
    name: String,
    misfit: Option<Misfit>,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, misfit } = self;
        match misfit {
            Some(misfit) => write!(f, "{name}: {misfit}"),
            None => write!(f, "the programs have no {name}"),
        }
    }
}

impl error::Error for SetError {}

impl Programs {
    /// With empty tables, and the constants as they were set last.
    pub fn begin() -> Self {
        let turn = Turn::take();
        tables::clear();
        Self { _turn: turn }
    }

    /// Returns whether programs that packets meet use the table of this name.
    pub fn uses(&self, name: &str) -> bool {
        tables::table(name).is_some()
    }

    /// Has the array of this name hold these values, one right after the other, and no more.
    ///
    /// # Errors
    ///
    /// There is no such table, or the values have another size.
    pub fn fill(&mut self, name: &str, values: &[u8]) -> Result<(), SetError> {
        let put = |table: &dyn Table| table.put_all(values);
        self.set(name, put)
    }

    /// Has the array of this name have so many entries, each of zeros.
    ///
    /// # Errors
    ///
    /// There is no such table, or it is no array.
    pub fn resize(&mut self, name: &str, count: u32) -> Result<(), SetError> {
        self.set(name, |table| table.resize(count as usize))
    }

    /// Puts a value into the table of this name.
    ///
    /// # Errors
    ///
    /// There is no such table, or key or value have another size.
    pub fn put(&mut self, name: &str, key: &[u8], value: &[u8]) -> Result<(), SetError> {
        self.set(name, |table| table.put(key, value))
    }

    /// Empties the table of this name.
    ///
    /// # Errors
    ///
    /// There is no such table.
    pub fn clear(&mut self, name: &str) -> Result<(), SetError> {
        self.set(name, |table| {
            table.clear();
            Ok(())
        })
    }

    #[expect(clippy::unused_self, reason = "whoever has the turn may set")]
    fn set(
        &mut self,
        name: &str,
        put: impl FnOnce(&dyn Table) -> Result<(), Misfit>,
    ) -> Result<(), SetError> {
        let refused = |misfit| SetError {
            name: name.to_owned(),
            misfit,
        };
        let table = tables::table(name).ok_or_else(|| refused(None))?;
        put(table).map_err(|misfit| refused(Some(misfit)))
    }

    /// Sets the constant of this name.
    ///
    /// # Errors
    ///
    /// There is none, or it has another size.
    pub fn set_constant(&mut self, name: &str, value: &[u8]) -> Result<(), SetError> {
        tables::set_constant(name, value).map_err(|wanted| SetError {
            name: name.to_owned(),
            misfit: wanted.map(|wanted| Misfit {
                wanted,
                given: value.len(),
            }),
        })
    }

    /// Returns the entries of the table of this name; of an array those that are not all zeros.
    pub fn entries(&self, name: &str) -> Vec<Entry> {
        tables::table(name).map_or_else(Vec::new, Table::entries)
    }

    /// The value at a key of the table of this name.
    pub fn value(&self, name: &str, key: &[u8]) -> Option<Box<[u8]>> {
        tables::table(name)?.value(key)
    }

    /// The name of the table that a [`Deed::Lookup`] is about.
    pub fn name_of(&self, table: usize) -> Option<&'static str> {
        tables::name_at(table)
    }

    /// Runs the TC program at an interface's ingress on a packet that comes in.
    ///
    /// # Errors
    ///
    /// There is no memory for the packet.
    pub fn ingress(
        &mut self,
        packet: &Arrival<'_>,
        answers: Box<dyn Answers>,
    ) -> io::Result<Outcome> {
        let program = if packet.is_ethernet {
            hooks::tc::tc_ingress
        } else {
            hooks::tc::tc_ingress_l3
        };
        at_tc(program, packet, answers)
    }

    /// Runs the TC program at an interface's egress on a packet that goes out.
    ///
    /// # Errors
    ///
    /// There is no memory for the packet.
    pub fn egress(
        &mut self,
        packet: &Arrival<'_>,
        answers: Box<dyn Answers>,
    ) -> io::Result<Outcome> {
        let program = if packet.is_ethernet {
            hooks::tc::tc_egress
        } else {
            hooks::tc::tc_egress_l3
        };
        at_tc(program, packet, answers)
    }

    /// Runs the XDP program on a frame that comes in.
    ///
    /// # Errors
    ///
    /// There is no memory for the frame.
    pub fn driver(
        &mut self,
        packet: &Arrival<'_>,
        answers: Box<dyn Answers>,
    ) -> io::Result<Outcome> {
        let frame = Frame::new(packet.frame, 14)?;
        let mut context = xdp_md {
            data: frame.begin(),
            data_end: frame.end(),
            data_meta: frame.begin(),
            ingress_ifindex: packet.interface,
            rx_queue_index: 0,
            egress_ifindex: 0,
        };
        let run = || hooks::xdp::xdp_uplink(&raw mut context);
        let (action, deeds) = world::run(Place::Driver, answers, run);
        Ok(Outcome {
            verdict: Verdict::of_xdp(action),
            // SAFETY: the context is of this thread's frame, and nothing writes there now.
            frame: unsafe { bytes(context.data, context.data_end) }.to_owned(),
            tag: 0,
            deeds,
        })
    }
}

/// Offset of the EtherType in a frame.
const ETHERTYPE: usize = 12;

fn at_tc(
    program: fn(*mut __sk_buff) -> i32,
    packet: &Arrival<'_>,
    answers: Box<dyn Answers>,
) -> io::Result<Outcome> {
    let Arrival {
        frame,
        interface,
        came_by,
        is_ethernet,
        kind,
        tag,
    } = *packet;
    let link = if is_ethernet { 14 } else { 0 };
    let held = Frame::new(frame, link)?;
    // SAFETY: words and unions of them.
    let mut context: __sk_buff = unsafe { core::mem::zeroed() };
    context.data = held.begin();
    context.data_end = held.end();
    context.len = frame.len() as u32;
    context.ifindex = interface;
    context.ingress_ifindex = came_by;
    context.pkt_type = kind;
    context.tc_index = tag.into();
    context.protocol = ethertype(frame, is_ethernet).to_be().into();
    let run = || program(&raw mut context);
    let (action, deeds) = world::run(Place::Tc { link }, answers, run);
    Ok(Outcome {
        verdict: Verdict::of_tc(action),
        // SAFETY: the context is of this thread's frame, and nothing writes there now.
        frame: unsafe { bytes(context.data, context.data_end) }.to_owned(),
        tag: context.tc_index as u16,
        deeds,
    })
}

/// The EtherType of a packet, host order.
fn ethertype(frame: &[u8], is_ethernet: bool) -> u16 {
    if is_ethernet {
        let found = frame.get(ETHERTYPE..ETHERTYPE + 2);
        return found.map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    }
    match frame.first().map(|first| first >> 4) {
        Some(4) => 0x0800,
        Some(6) => 0x86dd,
        _ => 0,
    }
}

impl Verdict {
    /// `TC_ACT_UNSPEC`, `TC_ACT_SHOT`, `TC_ACT_REDIRECT`.
    fn of_tc(action: i32) -> Self {
        match action {
            -1 => Self::Pass,
            2 => Self::Drop,
            7 => Self::Send,
            other => Self::Other(other.into()),
        }
    }

    /// `XDP_DROP`, `XDP_PASS`, `XDP_TX`, `XDP_REDIRECT`.
    fn of_xdp(action: u32) -> Self {
        match action {
            1 => Self::Drop,
            2 => Self::Pass,
            3 => Self::Back,
            4 => Self::Send,
            other => Self::Other(other.into()),
        }
    }
}
