//! The real thing: an agent with the real object in the kernel, attached to nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
};

use aya::{TestRun as _, TestRunOptions, maps::Array};
use shunt_common::{
    Counter, V4, V6,
    registry::{self, FamilyMaps},
};
use shunt_datapath::{Datapath, DatapathOptions, RejectLimit, TableSizes, XdpMode, XdpOptions};
use shunt_model::{self, Balancing, InterfacePattern, RenderError, RenderOptions, Renderer};
use shunt_runtime::{Agent, ApplyError};
use shunt_tests::{
    ConnectionSlots, NO_INTERFACE, Taken, Uplinks, passing, run_driver, set_stations,
};

use super::{
    addresses,
    contents::Contents,
    model::{Hook, Verdict},
    packet,
    twin::Twin,
};

/// Limit of the number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// More than a case opens.
    Roomy,
    /// Fewer: some give way to others, and some find no room.
    Small,
}

impl Size {
    /// Returns the number of halves that have room in a family's table.
    pub(crate) const fn entries(self) -> u32 {
        match self {
            Self::Roomy => 65_536,
            Self::Small => 64,
        }
    }
}

/// Sizes that every event of a case fits into.
const SIZES: TableSizes = TableSizes {
    frontends: 1024,
    // A Maglev table takes 257.
    slots: 65_536,
    backends: 2048,
    conntrack: Size::Roomy.entries(),
    affinity: 1024,
    source_ranges: 1024,
    // More than cases make while one is remembered.
    fragments: 65_536,
    services: 1024,
};

/// Longer than any connection is remembered.
pub(crate) const LONG: u32 = 1_000_000;

/// The hooks that have programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hooks {
    Tc,
    /// The driver, too: what it leaves, TC's programs get.
    XdpAndTc,
}

/// The program whose verdict a packet got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Driver,
    Tc,
}

/// An agent and its programs.
pub(crate) struct Kernel {
    agent: Agent,
    /// If there is the XDP program.
    uplinks: Option<Uplinks>,
    size: Size,
    has_dsr_sources: bool,
    tables: (ConnectionSlots<V4>, ConnectionSlots<V6>),
    /// The same programs, run by this process.
    twin: Twin,
    /// The counters when the node was last [cleared](Self::clear).
    before: BTreeMap<&'static str, u64>,
}

impl Kernel {
    /// Loads the object with connection tables of this size. Envelopes come from ranges for every other pair of
    /// size and hooks, so that each has them and has not.
    pub(crate) fn load(size: Size, hooks: Hooks) -> Self {
        let has_dsr_sources = (size == Size::Roomy) == (hooks == Hooks::XdpAndTc);
        let ranges: &[&str] = if has_dsr_sources {
            &addresses::DSR_SOURCES
        } else {
            &[]
        };
        let options = DatapathOptions {
            xdp: XdpOptions {
                mode: match hooks {
                    Hooks::Tc => XdpMode::Off,
                    Hooks::XdpAndTc => XdpMode::Native,
                },
                interfaces: BTreeSet::from([InterfacePattern::Name(NO_INTERFACE.to_owned())]),
            },
            pod_cidrs: addresses::POD_CIDRS
                .map(|cidr| cidr.parse().unwrap())
                .into(),
            dsr_sources: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            hairpin_v4: addresses::HAIRPIN.v4,
            hairpin_v6: addresses::HAIRPIN.v6,
            // The time that passes here is not counted.
            rejects: RejectLimit { rate: 0 },
            sizes: TableSizes {
                conntrack: size.entries(),
                ..SIZES
            },
            ..DatapathOptions::default()
        };
        let renderer = Renderer::new(RenderOptions {
            node_ips: BTreeSet::from(addresses::NODE.both()),
            balancing: Balancing {
                local_backend_weight: NonZeroU32::new(addresses::LOCAL_BACKEND_WEIGHT).unwrap(),
                ..Balancing::default()
            },
            ..RenderOptions::default()
        });
        let mut datapath = Datapath::load(&options).unwrap();
        let ebpf = datapath.ebpf_mut();
        let open = |map| passing::of_object(ebpf, map).unwrap();
        let tables = (
            ConnectionSlots::map(&open(FamilyMaps::V4.conntrack)).unwrap(),
            ConnectionSlots::map(&open(FamilyMaps::V6.conntrack)).unwrap(),
        );
        // At a port of a bridge there is no driver's program.
        set_stations(open(registry::STATIONS), hooks == Hooks::Tc).unwrap();
        let uplinks = (hooks == Hooks::XdpAndTc)
            .then(|| Uplinks::of(datapath.xdp_program().unwrap()).unwrap());
        Self {
            agent: Agent::new(renderer, datapath, BTreeSet::new()),
            uplinks,
            size,
            has_dsr_sources,
            tables,
            twin: Twin::new(),
            before: BTreeMap::new(),
        }
    }

    /// Forgets all services, connections and counts.
    pub(crate) fn clear(&mut self, resync: &str) {
        assert!(self.apply(resync), "an empty snapshot is not refused");
        self.pass(LONG);
        self.forget_direct();
        let connections = self.agent.datapath().connections();
        assert!(connections.is_empty().unwrap(), "all connections are over");
        if self.size == Size::Small {
            let (v4, v6) = &self.tables;
            v4.clear();
            v6.clear();
        }
        self.before = self.read_counters();
    }

    /// Returns the limit of the number of connections.
    pub(crate) const fn size(&self) -> Size {
        self.size
    }

    /// Returns whether envelopes come from ranges of addresses.
    pub(crate) const fn has_dsr_sources(&self) -> bool {
        self.has_dsr_sources
    }

    /// Returns whether packets come in by a port of a bridge.
    pub(crate) const fn is_at_port(&self) -> bool {
        self.uplinks.is_none()
    }

    /// Returns the contents of the connection tables.
    pub(crate) fn contents(&self) -> Result<Contents, String> {
        let mut contents = Contents::default();
        let (v4, v6) = &self.tables;
        contents.read(v4, |ip| Ipv4Addr::from(ip.to_ne_bytes()).into())?;
        contents.read(v6, |ip| {
            let octets: Vec<u8> = ip.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let octets: [u8; 16] = octets.try_into().unwrap();
            Ipv6Addr::from(octets).into()
        })?;
        let mut list = self.agent.datapath().connections().list();
        while let Some(piece) = list.next_piece().unwrap() {
            for connection in &piece {
                contents.list(connection);
            }
        }
        Ok(contents)
    }

    /// Makes the programs not know that a connection to a backend itself was ever given a port.
    fn forget_direct(&mut self) {
        let ebpf = self.agent.datapath_mut().ebpf_mut();
        let map = ebpf.map_mut("DIRECT").unwrap();
        let mut direct = Array::<_, u32>::try_from(map).unwrap();
        direct.set(0, 0, 0).unwrap();
    }

    /// Applies an event; `false` if its weights are refused.
    pub(crate) fn apply(&mut self, event: &str) -> bool {
        let decoded = shunt_model::decode(event).unwrap_or_else(|error| panic!("{error}: {event}"));
        let applied = self.agent.apply(decoded);
        self.twin.is_stale = true;
        if let Some(uplinks) = &mut self.uplinks {
            uplinks.set_all(packet::TO).unwrap();
        }
        match applied {
            Ok(_) => true,
            Err(ApplyError::Render(RenderError::WeightOverflow { .. })) => false,
            Err(error) => panic!("{error}: {event}"),
        }
    }

    /// Waits for a grace period and frees what was replaced.
    pub(crate) fn reclaim(&mut self) {
        self.agent.datapath_mut().reclaim().unwrap();
        self.twin.is_stale = true;
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, seconds: u32) {
        let ebpf = self.agent.datapath_mut().ebpf_mut();
        passing::let_pass(|map| passing::of_object(ebpf, map), seconds).unwrap();
    }

    /// Returns the counts since the node was cleared, without zeros.
    pub(crate) fn counters(&self) -> BTreeMap<&'static str, u64> {
        let mut counters = self.read_counters();
        for (name, count) in &mut counters {
            *count -= self.before.get(name).copied().unwrap_or_default();
        }
        counters.retain(|_, count| *count > 0);
        counters
    }

    fn read_counters(&self) -> BTreeMap<&'static str, u64> {
        let counters = self.agent.datapath().counters().read().unwrap();
        counters
            .into_iter()
            .filter(|(counter, _)| *counter != Counter::Xdp)
            .map(|(counter, packets)| (counter.name(), packets))
            .collect()
    }

    /// Returns the number of packets that got no further than the driver.
    pub(crate) fn taken_by_driver(&self) -> u64 {
        let counters = self.agent.datapath().counters().read().unwrap();
        let counted = counters.into_iter();
        counted
            .filter_map(|(counter, packets)| (counter == Counter::Xdp).then_some(packets))
            .sum()
    }

    /// Runs the programs of a hook on a frame, and returns the verdict; an error if the kernel takes
    /// none, or for another verdict.
    pub(crate) fn run(&mut self, hook: Hook, frame: &[u8]) -> Result<(Verdict, Door), String> {
        // With large tables it takes too long.
        let is_compared = self.size == Size::Small && self.twin.is_next();
        if is_compared {
            self.twin.look_at(self.agent.datapath().copies());
        }
        let (verdict, door) = self.run_in_kernel(hook, frame)?;
        if is_compared {
            let has_driver = self.uplinks.is_some();
            self.twin.compare(hook, has_driver, frame, &verdict, door)?;
        }
        Ok((verdict, door))
    }

    fn run_in_kernel(&mut self, hook: Hook, frame: &[u8]) -> Result<(Verdict, Door), String> {
        if self.uplinks.is_some() && hook == Hook::Ingress {
            let program = self.agent.datapath_mut().xdp_program().unwrap();
            match run_driver(program, frame).map_err(|error| format!("{error:#}"))? {
                None => {}
                Some(Taken::Dropped) => return Ok((Verdict::Drop, Door::Driver)),
                Some(Taken::Back(frame) | Taken::Sent(frame)) => {
                    return Ok((Verdict::Redirect(frame), Door::Driver));
                }
            }
        }
        let program = match hook {
            Hook::Ingress => Datapath::INGRESS,
            Hook::Egress => Datapath::EGRESS,
        };
        let mut output = vec![0; frame.len() + 256];
        let result = self
            .agent
            .datapath_mut()
            .program(program)
            .unwrap()
            .test_run(TestRunOptions {
                data_in: Some(frame),
                data_out: Some(&mut output),
                ..TestRunOptions::new()
            })
            .map_err(|error| error.to_string())?;
        output.truncate(result.data_size_out as usize);
        let verdict = match result.return_value.cast_signed() {
            // TCX_NEXT, TCX_DROP and TCX_REDIRECT of linux/bpf.h.
            -1 => Verdict::Pass(output),
            2 => Verdict::Drop,
            7 => Verdict::Redirect(output),
            other => return Err(format!("the verdict {other}")),
        };
        Ok((verdict, Door::Tc))
    }
}
