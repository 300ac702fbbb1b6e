//! Comparison of the skips of a run with those that are accepted.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use shunt_skip::Skip;

use crate::{privilege, process, workspace};

/// The program that probes the kernel; cargo builds it beside the tests.
const PROBE: &str = "abilities";

/// Returns whether this run has to account for each skip: `.ci/run` sets `CI`.
pub(super) fn is_due() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Prints that a group of tests will do nothing.
///
/// # Errors
///
/// If the run has to account for each skip.
pub(super) fn leave_out(reason: &str, is_due: bool) -> Result<()> {
    if is_due {
        bail!("{reason}");
    }
    eprintln!("some tests will be skipped: {reason}");
    Ok(())
}

/// Outcome of the tests that ran one by one, and all skips.
#[derive(Debug, Default)]
pub(super) struct Run<'a> {
    /// The tests that passed and did not skip.
    pub(super) done: BTreeSet<&'a str>,
    /// The skips of all tests.
    pub(super) skips: &'a [Skip],
    /// True if every test was chosen.
    pub(super) is_whole: bool,
}

/// Abilities of the kernel: the reason of each, and whether the kernel has the ability.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Abilities(BTreeMap<String, bool>);

impl Abilities {
    /// Probes the kernel.
    ///
    /// # Errors
    ///
    /// If a probe fails.
    pub(super) fn probe() -> Result<Self> {
        let probe = Command::new(workspace::output("debug")?.join(PROBE));
        Self::parse(&process::output(&mut privilege::as_root(probe))?)
    }

    /// Parses lines of `has` or `lacks`, a tab and the reason.
    fn parse(text: &str) -> Result<Self> {
        let ability = |line: &str| {
            let (state, reason) = line.split_once('\t')?;
            let is_there = match state {
                "has" => true,
                "lacks" => false,
                _ => return None,
            };
            Some((reason.to_owned(), is_there))
        };
        let abilities: Option<_> = text.lines().map(ability).collect();
        abilities
            .map(Self)
            .with_context(|| format!("{PROBE} printed `{text}`"))
    }

    /// Returns a line for each skip that is not accepted, and for each accepted one that did not happen.
    pub(super) fn faults<'s>(
        &self,
        run: &Run<'_>,
        accepted: impl Iterator<Item = (&'s str, &'s str)>,
    ) -> Vec<String> {
        let Run {
            done,
            skips,
            is_whole,
        } = run;
        let accepted: BTreeSet<_> = accepted.collect();
        let mut faults = Vec::new();
        for Skip { test, reason } in *skips {
            if !accepted.contains(&(reason.as_str(), test.as_str())) {
                faults.push(format!("{test} was skipped, and is on no list: {reason}"));
            } else if self.0.get(reason) != Some(&false) {
                faults.push(format!(
                    "{test} was skipped, but a probe found otherwise: {reason}"
                ));
            }
        }
        let skipped: BTreeSet<_> = skips.iter().map(|skip| skip.test.as_str()).collect();
        for (reason, test) in accepted {
            match self.0.get(reason) {
                None => faults.push(format!(
                    "no ability of the kernel has this reason: {reason}"
                )),
                Some(false) if done.contains(test) => {
                    faults.push(format!("{test} ran, and is on a list: {reason}"));
                }
                Some(_) if *is_whole && !done.contains(test) && !skipped.contains(test) => {
                    faults.push(format!("{test} is on a list, and did not pass: {reason}"));
                }
                Some(_) => {}
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: [(&str, &str); 2] = [("no gre", "e gre"), ("no vlan", "e vlan")];

    fn skip(test: &str, reason: &str) -> Skip {
        Skip {
            test: test.to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// Returns the faults of a run on a kernel without gre and with vlan.
    fn faults(done: &[&str], skips: &[Skip], is_whole: bool) -> Vec<String> {
        let abilities = Abilities::parse("lacks\tno gre\nhas\tno vlan").unwrap();
        let done = done.iter().copied().collect();
        let run = Run {
            done,
            skips,
            is_whole,
        };
        abilities.faults(&run, LIST.into_iter())
    }

    #[test]
    fn a_test_without_its_ability_is_skipped_and_one_with_it_runs() {
        let skips = [skip("e gre", "no gre")];
        assert_eq!(faults(&["e vlan", "e other"], &skips, true), [""; 0]);
    }

    #[test]
    fn a_skip_on_no_list_is_a_fault() {
        let expected = ["e other was skipped, and is on no list: needs consul"];
        let skips = [skip("e gre", "no gre"), skip("e other", "needs consul")];
        assert_eq!(faults(&["e vlan"], &skips, true), expected);
        // Another test, and another reason.
        for other in [skip("e other", "no gre"), skip("e gre", "needs ip")] {
            let skips = [skip("e gre", "no gre"), other];
            assert_eq!(faults(&["e vlan"], &skips, true).len(), 1, "{skips:?}");
        }
    }

    #[test]
    fn a_skip_for_an_ability_that_is_there_is_a_fault() {
        let skips = [skip("e gre", "no gre"), skip("e vlan", "no vlan")];
        let expected = ["e vlan was skipped, but a probe found otherwise: no vlan"];
        assert_eq!(faults(&[], &skips, true), expected);
    }

    #[test]
    fn a_listed_test_that_ran_is_a_fault() {
        let expected = ["e gre ran, and is on a list: no gre"];
        assert_eq!(faults(&["e gre", "e vlan"], &[], true), expected);
    }

    #[test]
    fn a_listed_test_that_is_gone_is_a_fault_of_a_whole_run() {
        let skips = [skip("e gre", "no gre")];
        let expected = ["e vlan is on a list, and did not pass: no vlan"];
        assert_eq!(faults(&[], &skips, true), expected);
        assert_eq!(faults(&[], &skips, false), [""; 0]);
    }

    #[test]
    fn a_reason_that_no_probe_knows_is_a_fault() {
        let abilities = Abilities::parse("lacks\tno gre").unwrap();
        let list = [("no grey", "e gre")];
        let faults = abilities.faults(&Run::default(), list.into_iter());
        assert_eq!(
            faults,
            ["no ability of the kernel has this reason: no grey"]
        );
        assert!(Abilities::parse("has no gre").is_err());
        assert!(Abilities::parse("had\tno gre").is_err());
    }

    #[test]
    fn a_group_that_is_left_out_fails_a_run_that_accounts_for_it() {
        assert!(leave_out("no cases", true).is_err());
        leave_out("no cases", false).unwrap();
    }
}
