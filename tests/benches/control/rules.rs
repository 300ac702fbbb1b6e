//! The same services and changes in kube-proxy's rules, by `nft -f` and `iptables-restore`.
//!
//! Only the tool is timed, with its start: what kube-proxy itself does before is left out. The
//! listings that it asks `nft` for before each change are in a row of their own.

use std::{cell::RefCell, time::Instant};

use anyhow::{Context as _, Result};
use shunt_tests::{
    Namespace,
    rulesets::{Node, Service, iptables, nftables},
};

use super::{
    agent::{self, milliseconds},
    change::Changing,
    cold::cold,
    world::{WIDE, World},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const COLD: &str = "control/rules-cold";
const CHANGE: &str = "control/rules-change";

/// As many services as both tools load in seconds.
const FEW: World = World {
    services: 1_000,
    ..WIDE
};

/// Lists that kube-proxy requests from `nft` before each change, to find chains and sets that nothing uses any longer.
const LISTINGS: [&[&str]; 2] = [
    &["--json", "list", "chains", "ip"],
    &["--json", "list", "sets", "ip"],
];

/// Least ratios of `nft`'s time to the agent's.
const COLD_LIMIT: f64 = 100.0;
const CHANGE_LIMIT: f64 = 200.0;

/// Number of the agent's changes in a round, whose median counts.
const CHANGES: u32 = 100;

/// The tool that loads the rules.
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

/// Runs the studies: with few services and both tools; and with many and `nft` alone, since
/// `iptables-restore` would take a quarter of an hour.
///
/// # Errors
///
/// If an agent does not do as it should, or a tool fails.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let quick = bench.options().quick;
    compare(bench, FEW, &Tool::ALL, if quick { 1 } else { 3 })?;
    if !quick {
        compare(bench, WIDE, &[Tool::Nft], 2)?;
    }
    Ok(())
}

fn compare(bench: &mut Bench, world: World, tools: &[Tool], rounds: usize) -> Result<()> {
    let cold_name = format!("{COLD}-{}", world.services);
    let change_name = format!("{CHANGE}-{}", world.services);
    if !bench.wants(&cold_name) && !bench.wants(&change_name) {
        return Ok(());
    }
    let bound = |limit| {
        let (nft, shunt) = (Tool::Nft.name(), "shunt");
        Bound::ratio("nft over shunt", nft, shunt, "", Limit::AtLeast(limit))
    };
    let binary = bench.options().agent.clone();
    let resync = world.resync();
    let name = world.name();
    // What is loaded last is what is changed afterwards.
    let loaded: Vec<_> = tools
        .iter()
        .map(|tool| (*tool, RefCell::new(None)))
        .collect();

    let unit = format!("ms until {name} backends are in the kernel");
    let mut study = Study::new(cold_name, unit, Better::Lower)
        .rounds(rounds)
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
    if world == WIDE {
        study = study.bound(bound(COLD_LIMIT));
    }
    bench.study(study)?;
    if !bench.wants(&change_name) {
        return Ok(());
    }

    let changing = RefCell::new(Changing::start(&binary, world)?);
    let unit = format!("ms a change of one backend among {name}");
    let mut study = Study::new(change_name, unit, Better::Lower)
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
    if let Some((Tool::Nft, loaded)) = loaded.first() {
        study = study.subject("nft -f, and the listings before", || {
            let mut loaded = loaded.borrow_mut();
            let rules = loaded.as_mut().context("nothing is loaded")?;
            let begin = Instant::now();
            for arguments in LISTINGS {
                rules.namespace.run_with_input("nft", arguments, "")?;
            }
            rules.change()?;
            Ok(sample([("", milliseconds(begin.elapsed()))]))
        });
    }
    if world == WIDE {
        study = study.bound(bound(CHANGE_LIMIT));
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
    /// Loads the rules of a world, and returns how long that took in milliseconds.
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
