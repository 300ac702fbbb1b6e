//! Requests, connections and bytes through a node, in network namespaces: without any translation,
//! through Shunt, and through the rulesets of kube-proxy.
//!
//! Each subject has namespaces of its own, and all of them are there at once.

mod generator;
mod path;
mod raw;
pub(crate) mod services;
mod studies;
mod subject;

use std::thread;

use anyhow::{Result, anyhow};
use shunt_tests::interrupt;

pub(crate) use self::{
    path::Path,
    raw::{hardware_address, packet_socket},
    studies::measure,
    subject::{Kind, Proxy, Subject},
};
use crate::bench::Bench;

/// Runs the suite.
///
/// # Errors
///
/// When a subject cannot be set up or measured, or the user stops it.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("traffic") {
        return Ok(());
    }
    raw::run(bench)?;
    // The others' nodes take minutes to set up.
    if bench.wants_only(raw::NAME) {
        return Ok(());
    }
    let agent = &bench.options().agent;
    eprintln!("traffic: setting up");
    let mut subjects = Vec::new();
    for kind in kinds(bench.options().quick, has_redirect(agent)?) {
        for _ in 0..instances(kind) {
            interrupt::check()?;
            subjects.push(Subject::new(kind)?);
        }
    }
    load_rules(&subjects)?;
    for subject in &mut subjects {
        interrupt::check()?;
        subject.start_agent(agent, &[])?;
    }
    if let [direct, ..] = subjects.as_slice() {
        bench.facts(generator::facts(direct)?);
    }
    studies::run(bench, &subjects)
}

/// The kinds of subjects, each baseline before what is compared to it.
fn kinds(quick: bool, redirect: bool) -> Vec<Kind> {
    let kind = |proxy, others, masquerade| Kind {
        proxy,
        others,
        masquerade,
    };
    let mut kinds = vec![kind(Proxy::Direct, 0, false)];
    for proxy in [Proxy::Shunt, Proxy::Nftables, Proxy::Iptables] {
        for others in [0, 1_000, 10_000] {
            if !quick || others < 10_000 || proxy == Proxy::Shunt {
                kinds.push(kind(proxy, others, false));
            }
        }
    }
    kinds.extend(redirect.then_some(kind(Proxy::Redirect, 0, false)));
    kinds.push(kind(Proxy::Direct, 0, true));
    kinds.extend(redirect.then_some(kind(Proxy::Redirect, 0, true)));
    let proxies = [Proxy::Shunt, Proxy::Nftables, Proxy::Iptables];
    kinds.extend(proxies.map(|proxy| kind(proxy, 0, true)));
    kinds
}

/// Returns the number of subjects of a kind, which take turns round by round.
///
/// Two nodes that differ in nothing but where in memory they are may be as far apart as some of
/// the bounds are from 1.
const fn instances(kind: Kind) -> usize {
    match kind.proxy {
        Proxy::Direct | Proxy::Shunt | Proxy::Redirect
            if !kind.masquerade && kind.others != 1_000 =>
        {
            3
        }
        _ => 1,
    }
}

/// Returns whether this agent can hand packets straight to pods.
fn has_redirect(agent: &std::path::Path) -> Result<bool> {
    Ok(shunt_tests::run(&agent.to_string_lossy(), &["agent", "--help"])?.contains("--redirect"))
}

/// Loads all rules, as many at a time as there are CPUs, the largest first.
fn load_rules(subjects: &[Subject]) -> Result<()> {
    let mut rules: Vec<_> = subjects.iter().filter_map(Subject::rules).collect();
    rules.sort_by_key(subject::Rules::size);
    let rules = std::sync::Mutex::new(rules);
    let next = || rules.lock().ok()?.pop();
    let work = || -> Result<()> {
        while let Some(rules) = next() {
            interrupt::check()?;
            rules.load()?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            let worked = worker.join();
            worked.map_err(|_panic| anyhow!("a thread that loads rules panicked"))?
        })
    })
}
