//! The same services and changes in kube-proxy's rules, by `nft -f` and `iptables-restore`.
//!
//! Only the tool is timed, with its start: what kube-proxy itself does before is left out, and so
//! are the listings that it asks `nft` for.

use std::{cell::RefCell, time::Instant};

use anyhow::{Context as _, Result};
use shunt_tests::Namespace;

use super::{
    agent::{self, milliseconds},
    change::Changing,
    cold::cold,
    world::{WIDE, World},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
    rulesets::{Node, Service, iptables, nftables},
};

const COLD: &str = "control/rules-cold";
const CHANGE: &str = "control/rules-change";

/// As few services as `nft` loads in seconds.
const FEW: World = World {
    services: 1_000,
    ..WIDE
};

/// How many times as long `nft` has to take at least.
const COLD_LIMIT: f64 = 100.0;
const CHANGE_LIMIT: f64 = 200.0;

/// How many changes of the agent's there are in a round, whose median counts.
const CHANGES: u32 = 100;

/// Which tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Nft,
    IptablesRestore,
}

/// A namespace with the rules of all services.
struct Rules {
    tool: Tool,
    services: Vec<Service>,
    namespace: Namespace,
    changes: u32,
}

/// Runs the studies.
///
/// # Errors
///
/// If an agent does not do as it should, or a tool fails.
pub fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(COLD) && !bench.wants(CHANGE) {
        return Ok(());
    }
    let quick = bench.options().quick;
    let world = if quick { FEW } else { WIDE };
    let binary = bench.options().agent.clone();
    let resync = world.resync();
    let name = world.name();
    // What is loaded last is what is changed afterwards.
    let loaded = Tool::ALL.map(|tool| (tool, RefCell::new(None)));

    let mut study = Study::new(
        COLD,
        format!("ms until {name} backends are in the kernel"),
        Better::Lower,
    )
    .rounds(if quick { 3 } else { 2 })
    .slow()
    .subject("shunt", || cold(&binary, world, &resync));
    for (tool, loaded) in &loaded {
        study = study.subject(tool.name(), || {
            // The old one goes before the time begins.
            drop(loaded.borrow_mut().take());
            let (rules, sample) = Rules::load(*tool, world)?;
            *loaded.borrow_mut() = Some(rules);
            Ok(sample)
        });
    }
    if !quick {
        study = study.bound(Bound::ratio(
            "nft over shunt",
            Tool::Nft.name(),
            "shunt",
            "",
            Limit::AtLeast(COLD_LIMIT),
        ));
    }
    bench.study(study)?;
    if !bench.wants(CHANGE) {
        return Ok(());
    }

    let changing = RefCell::new(Changing::start(&binary, world)?);
    let mut study = Study::new(
        CHANGE,
        format!("ms a change of one backend among {name}"),
        Better::Lower,
    )
    .rounds(bench.rounds(5, 3))
    .subject("shunt", || {
        let mut times = changing.borrow_mut().times(CHANGES)?;
        times.sort_by(f64::total_cmp);
        Ok(sample([("", times[times.len() / 2] / 1e3)]))
    });
    for (tool, loaded) in &loaded {
        if loaded.borrow().is_none() {
            *loaded.borrow_mut() = Some(Rules::load(*tool, world)?.0);
        }
        study = study.subject(tool.name(), || {
            let mut loaded = loaded.borrow_mut();
            loaded.as_mut().context("nothing is loaded")?.change()
        });
    }
    if !quick {
        study = study.bound(Bound::ratio(
            "nft over shunt",
            Tool::Nft.name(),
            "shunt",
            "",
            Limit::AtLeast(CHANGE_LIMIT),
        ));
    }
    bench.study(study)
}

impl Tool {
    const ALL: [Self; 2] = [Self::Nft, Self::IptablesRestore];

    const fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft -f",
            Self::IptablesRestore => "iptables-restore",
        }
    }

    /// Hands it a ruleset.
    fn run(self, namespace: &Namespace, text: &str) -> Result<Sample> {
        let (program, arguments) = match self {
            Self::Nft => ("nft", ["-f", "-"]),
            Self::IptablesRestore => ("iptables-restore", ["--noflush", "--counters"]),
        };
        let begin = Instant::now();
        namespace.run_with_input(program, &arguments, text)?;
        Ok(sample([("", milliseconds(begin.elapsed()))]))
    }
}

impl Rules {
    /// Loads the rules of a world, and says how long that took in milliseconds.
    fn load(tool: Tool, world: World) -> Result<(Self, Sample)> {
        let services: Vec<_> = (0..world.services)
            .map(|number| world.rules(number, None))
            .collect();
        let text = match tool {
            Tool::Nft => nftables::load(&node(), &services),
            Tool::IptablesRestore => iptables::load(&node(), &services),
        };
        let namespace = Namespace::new(agent::next_number(), "rules")?;
        let sample = tool.run(&namespace, &text)?;
        let rules = Self {
            tool,
            services,
            namespace,
            changes: 0,
        };
        Ok((rules, sample))
    }

    /// Changes one backend.
    fn change(&mut self) -> Result<Sample> {
        let Self {
            tool,
            services,
            namespace,
            changes,
        } = self;
        *changes += 1;
        let world = World {
            services: services.len() as u32,
            ..WIDE
        };
        let number = world.changed(*changes);
        let after = world.rules(number, Some(*changes));
        let before = std::mem::replace(&mut services[number as usize], after.clone());
        let text = match tool {
            Tool::Nft => nftables::change(&node(), &before, &after),
            Tool::IptablesRestore => iptables::change(&node(), services, &[after]),
        };
        tool.run(namespace, &text)
    }
}

fn node() -> Node {
    Node {
        address: [192, 168, 16, 10].into(),
        pod_cidr: "10.128.0.0/9".to_owned(),
        service_cidr: "10.96.0.0/12".to_owned(),
    }
}
