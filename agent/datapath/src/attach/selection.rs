//! The interfaces that are to have the programs: names and patterns, and the interfaces that there are.

use std::collections::{BTreeMap, BTreeSet};

use shunt_model::InterfacePattern;

use crate::{attach::client_side::is_client_side, netlink::links::Link};

/// The interfaces that are to have the programs.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Interfaces that never have them, even by name.
    excluded: BTreeSet<InterfacePattern>,
    /// Each interface with the name or pattern that chose it.
    chosen: BTreeMap<String, InterfacePattern>,
    /// Names and patterns that chose no interface.
    idle: BTreeSet<InterfacePattern>,
}

impl Selection {
    /// Nothing is chosen yet.
    pub(crate) const fn new(excluded: BTreeSet<InterfacePattern>) -> Self {
        Self {
            excluded,
            chosen: BTreeMap::new(),
            idle: BTreeSet::new(),
        }
    }

    /// Chooses by `wanted`: each name, and what patterns mean among `links`, if these are known. Returns
    /// the names.
    pub(crate) fn choose(
        &mut self,
        wanted: &BTreeSet<InterfacePattern>,
        links: Option<&[Link]>,
    ) -> BTreeSet<String> {
        let before = std::mem::take(&mut self.chosen);
        // In this order a name is not taken for what a pattern has found.
        for pattern in wanted {
            let found: Vec<&str> = match (pattern, links) {
                (InterfacePattern::Name(name), _) => vec![name],
                // What is not known now stays as it was.
                (_, None) => {
                    let by_this = before.iter().filter(|(_, by)| *by == pattern);
                    by_this.map(|(name, _)| name.as_str()).collect()
                }
                (_, Some(links)) => links
                    .iter()
                    .filter(|link| match pattern {
                        InterfacePattern::Auto => is_client_side(link),
                        InterfacePattern::Name(_) | InterfacePattern::Names(_) => {
                            pattern.matches(&link.name)
                        }
                    })
                    .map(|link| link.name.as_str())
                    .collect(),
            };
            for name in found {
                if !self.excludes(name) && !self.chosen.contains_key(name) {
                    self.chosen.insert(name.to_owned(), pattern.clone());
                }
            }
        }
        let used: BTreeSet<_> = self.chosen.values().collect();
        let idle =
            |pattern: &&InterfacePattern| pattern.name().is_none() && !used.contains(pattern);
        self.idle = wanted.iter().filter(idle).cloned().collect();
        self.chosen.keys().cloned().collect()
    }

    /// Returns whether the interface never has the programs, even by name.
    pub(crate) fn excludes(&self, name: &str) -> bool {
        self.excluded.iter().any(|never| never.matches(name))
    }

    /// The pattern that the interface was chosen by; `None` if that was its name.
    pub(crate) fn pattern_of(&self, name: &str) -> Option<&InterfacePattern> {
        let chosen_by = self.chosen.get(name)?;
        chosen_by.name().is_none().then_some(chosen_by)
    }

    /// The patterns that mean no interface that there is.
    pub(crate) const fn idle(&self) -> &BTreeSet<InterfacePattern> {
        &self.idle
    }
}

#[cfg(test)]
mod tests {
    use libc::{ARPHRD_ETHER, ARPHRD_LOOPBACK};

    use super::*;

    fn patterns(list: &[&str]) -> BTreeSet<InterfacePattern> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn links(names: &[&str]) -> Vec<Link> {
        let link = |name: &&str| Link {
            layer: if *name == "lo" {
                ARPHRD_LOOPBACK
            } else {
                ARPHRD_ETHER
            },
            ..Link::named(1, name)
        };
        names.iter().map(link).collect()
    }

    /// Returns the interfaces that are chosen, each with its pattern, and the patterns that mean nothing.
    fn shown(selection: &Selection) -> (Vec<String>, Vec<String>) {
        let chosen = selection.chosen.iter();
        let idle = selection.idle().iter();
        (
            chosen.map(|(name, by)| format!("{name} {by}")).collect(),
            idle.map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn names_come_before_patterns_and_patterns_before_auto() {
        let there = links(&["lo", "eth0", "eth1", "veth1", "tun0"]);
        for (excluded, wanted, chosen, idle) in [
            (
                &[][..],
                &["eth0", "later"][..],
                &["eth0 eth0", "later later"][..],
                &[][..],
            ),
            (
                &[],
                &["veth*", "eth*", "eth1"],
                &["eth0 eth*", "eth1 eth1", "veth1 veth*"],
                &[],
            ),
            (
                &[],
                &["auto", "veth*", "wg*"],
                &["eth0 auto", "eth1 auto", "tun0 auto", "veth1 veth*"],
                &["wg*"],
            ),
            // The loopback interface is chosen by name.
            (&[], &["l*"], &["lo l*"], &[]),
            (
                &["eth1", "tun*"],
                &["auto", "eth1"],
                &["eth0 auto", "veth1 auto"],
                &[],
            ),
        ] {
            let mut selection = Selection::new(patterns(excluded));
            let names = selection.choose(&patterns(wanted), Some(&there));
            assert_eq!(
                shown(&selection),
                (
                    chosen.iter().map(ToString::to_string).collect(),
                    idle.iter().map(ToString::to_string).collect()
                ),
                "{wanted:?} without {excluded:?}"
            );
            assert_eq!(names.len(), chosen.len());
        }
    }

    #[test]
    fn names_alone_need_no_list_of_interfaces() {
        let mut selection = Selection::default();
        let wanted = patterns(&["eth0"]);
        let names = selection.choose(&wanted, None);
        assert_eq!(names, BTreeSet::from(["eth0".to_owned()]));
        assert_eq!(selection.pattern_of("eth0"), None);
    }

    #[test]
    fn what_a_pattern_meant_stays_when_the_interfaces_cannot_be_listed() {
        let mut selection = Selection::default();
        let wanted = patterns(&["eth*", "wg0"]);
        selection.choose(&wanted, Some(&links(&["eth0", "eth1"])));
        let before = shown(&selection);
        selection.choose(&wanted, None);
        assert_eq!(shown(&selection), before);
        // But not what is no longer wanted.
        let names = selection.choose(&patterns(&["wg*"]), None);
        assert_eq!(names, BTreeSet::new());
    }
}
