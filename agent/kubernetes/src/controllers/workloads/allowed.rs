//! Addresses that a workload may have: all but those that are the cluster's own, or that no host has for others.
//!
//! An endpoint is reached by every client of its Service, and a probe leaves from the controller's namespace. So
//! a user that may write a workload must not reach by it what a network policy keeps from them (CVE-2021-25740).

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use ipnet::IpNet;

use crate::watch::step::Step;

/// Reasons why a workload may not have an address. The first of several is the one that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// No other host reaches a host at it: loopback, link-local, multicast, unspecified, broadcast.
    Unusable,
    /// A flag refuses it.
    Flag,
    /// The API server answers at it.
    ApiServer,
    /// A Node has it.
    Node,
    /// It is in the range of a Node's pods.
    Pods,
    /// A Service has it as its ClusterIP.
    ClusterIp,
    /// It is in a range that ClusterIPs are taken of.
    ServiceCidr,
}

impl Refusal {
    /// Returns what an address is, for its users: it follows "it is".
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Unusable => "no address that a host has for others",
            Self::Flag => "in a range that --refuse-workload-ranges names",
            Self::ApiServer => "an address of the API server",
            Self::Node => "an address of a Node",
            Self::Pods => "in the range of a Node's pods",
            Self::ClusterIp => "the ClusterIP of a Service",
            Self::ServiceCidr => "in the range of ClusterIPs",
        }
    }
}

/// The ranges of two flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeOptions {
    /// Ranges that a workload may have whatever the cluster has of them.
    pub allowed: Vec<IpNet>,
    /// Ranges that it may not have, besides the cluster's own.
    pub refused: Vec<IpNet>,
}

/// Known addresses of the cluster's own, and the flags' ranges.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    flags: RangeOptions,
    /// The ranges of each object.
    objects: BTreeMap<(Refusal, String), Vec<IpNet>>,
    /// Number of objects that have a range, by the kind of refusal.
    held: HashMap<IpNet, BTreeMap<Refusal, usize>>,
    /// Number of ranges of each family (true: IPv4) and length.
    lengths: BTreeMap<(bool, u8), usize>,
}

impl Allowed {
    pub(super) fn new(flags: RangeOptions) -> Self {
        Self {
            flags,
            ..Self::default()
        }
    }

    /// Returns why a workload may not have an address, or `None` if it may.
    pub(super) fn refusal(&self, address: IpAddr) -> Option<Refusal> {
        // A connection to ::ffff:10.0.0.1 goes to 10.0.0.1.
        let address = address.to_canonical();
        if is_unusable(address) {
            return Some(Refusal::Unusable);
        }
        let longest = |ranges: &[IpNet]| {
            let own = ranges.iter().filter(|range| range.contains(&address));
            own.map(IpNet::prefix_len).max()
        };
        match (longest(&self.flags.refused), longest(&self.flags.allowed)) {
            (Some(refused), allowed) if allowed.is_none_or(|allowed| allowed <= refused) => {
                Some(Refusal::Flag)
            }
            (_, Some(_)) => None,
            (_, None) => self.holder(address),
        }
    }

    fn holder(&self, address: IpAddr) -> Option<Refusal> {
        let is_v4 = address.is_ipv4();
        let lengths = self.lengths.range((is_v4, 0)..=(is_v4, u8::MAX));
        let ranges = lengths.filter_map(|((_, length), _)| IpNet::new(address, *length).ok());
        let held = ranges.filter_map(|range| self.held.get(&range.trunc()));
        held.flat_map(BTreeMap::keys).min().copied()
    }

    /// Takes note of objects and their ranges. Returns true if others are refused now than before.
    pub(super) fn take<T>(
        &mut self,
        why: Refusal,
        step: &Step<T>,
        of: impl Fn(&T) -> Ranges<'_>,
    ) -> bool {
        match step {
            Step::Listed(list) => {
                let listed: BTreeMap<String, Vec<IpNet>> = list
                    .objects
                    .iter()
                    .map(|object| (of(object).full_name(), of(object).ranges))
                    .collect();
                let known = self.objects.range((why, String::new())..);
                let known = known.map(|(key, _)| key).take_while(|(own, _)| *own == why);
                let gone = known.filter(|(_, name)| {
                    let (namespace, bare) = name.split_once('/').unwrap_or(("", name));
                    !listed.contains_key(name) && !list.keeps(namespace, bare)
                });
                let gone: Vec<String> = gone.map(|(_, name)| name.clone()).collect();
                let mut is_new = false;
                for name in gone {
                    is_new |= self.set(why, name, Vec::new());
                }
                for (name, ranges) in listed {
                    is_new |= self.set(why, name, ranges);
                }
                is_new
            }
            Step::Applied(object) => {
                let object = of(object);
                self.set(why, object.full_name(), object.ranges)
            }
            Step::Deleted(object) => self.set(why, of(object).full_name(), Vec::new()),
            // What was known of them stays.
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => false,
        }
    }

    /// An object has these ranges now, and no others. Returns true if others are refused now than before.
    fn set(&mut self, why: Refusal, name: String, mut ranges: Vec<IpNet>) -> bool {
        for range in &mut ranges {
            *range = range.trunc();
        }
        ranges.sort();
        ranges.dedup();
        let key = (why, name);
        let old = self.objects.remove(&key).unwrap_or_default();
        let mut is_new = false;
        for range in ranges.iter().filter(|range| !old.contains(range)) {
            is_new |= self.add(*range, why);
        }
        for range in old.iter().filter(|range| !ranges.contains(range)) {
            is_new |= self.remove(*range, why);
        }
        if !ranges.is_empty() {
            self.objects.insert(key, ranges);
        }
        is_new
    }

    fn add(&mut self, range: IpNet, why: Refusal) -> bool {
        let held = self.held.entry(range).or_default();
        if held.is_empty() {
            *self.lengths.entry(length(range)).or_default() += 1;
        }
        let count = held.entry(why).or_default();
        *count += 1;
        *count == 1
    }

    fn remove(&mut self, range: IpNet, why: Refusal) -> bool {
        let Some(held) = self.held.get_mut(&range) else {
            return false;
        };
        if let Some(count) = held.get_mut(&why) {
            *count -= 1;
            if *count > 0 {
                return false;
            }
            held.remove(&why);
        }
        if held.is_empty() {
            self.held.remove(&range);
            if let Some(count) = self.lengths.get_mut(&length(range)) {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&length(range));
                }
            }
        }
        true
    }
}

/// An object and its ranges.
#[derive(Debug)]
pub(super) struct Ranges<'a> {
    /// Empty if it is of a kind without namespaces.
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) ranges: Vec<IpNet>,
}

impl Ranges<'_> {
    fn full_name(&self) -> String {
        match self.namespace {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

fn length(range: IpNet) -> (bool, u8) {
    (matches!(range, IpNet::V4(_)), range.prefix_len())
}

/// Returns true for addresses that no host may have, and for those that lead back to the client itself.
const fn is_unusable(address: IpAddr) -> bool {
    shunt_model::unusable(address).is_some()
        || matches!(address, IpAddr::V4(v4) if v4.is_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::step::List;

    /// An object of the tests: its name and its ranges.
    type Object = (&'static str, &'static [&'static str]);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn ranges((name, texts): &Object) -> Ranges<'_> {
        Ranges {
            namespace: "",
            name,
            ranges: nets(texts),
        }
    }

    fn take(allowed: &mut Allowed, why: Refusal, step: &Step<Object>) -> bool {
        allowed.take(why, step, ranges)
    }

    #[test]
    fn what_is_the_clusters_own_is_refused_and_all_else_is_allowed() {
        let mut allowed = Allowed::default();
        for (why, ranges) in [
            (
                Refusal::Node,
                &["192.0.2.1/32", "2001:db8::1/128"] as &'static [&'static str],
            ),
            (Refusal::Pods, &["10.1.1.0/24", "fd00:1::/64"]),
            (Refusal::ServiceCidr, &["10.96.0.0/16", "fd00:96::/112"]),
            (Refusal::ClusterIp, &["10.97.0.1/32"]),
            (Refusal::ApiServer, &["192.0.2.100/32"]),
        ] {
            assert!(take(&mut allowed, why, &Step::Applied(("one", ranges))));
        }
        for (address, expected) in [
            ("192.0.2.1", Some(Refusal::Node)),
            ("192.0.2.2", None),
            ("2001:db8::1", Some(Refusal::Node)),
            ("2001:db8::2", None),
            ("10.1.1.0", Some(Refusal::Pods)),
            ("10.1.1.255", Some(Refusal::Pods)),
            ("10.1.2.0", None),
            ("fd00:1::ffff", Some(Refusal::Pods)),
            ("10.96.255.1", Some(Refusal::ServiceCidr)),
            ("fd00:96::1", Some(Refusal::ServiceCidr)),
            ("10.97.0.1", Some(Refusal::ClusterIp)),
            ("192.0.2.100", Some(Refusal::ApiServer)),
            // A connection to an IPv4 address in IPv6's form is one of IPv4.
            ("::ffff:192.0.2.1", Some(Refusal::Node)),
            ("::ffff:10.1.1.1", Some(Refusal::Pods)),
            ("::ffff:192.0.2.2", None),
            ("::ffff:127.0.0.1", Some(Refusal::Unusable)),
            ("::ffff:169.254.169.254", Some(Refusal::Unusable)),
            ("127.0.0.1", Some(Refusal::Unusable)),
            ("::1", Some(Refusal::Unusable)),
            ("169.254.169.254", Some(Refusal::Unusable)),
            ("fe80::1", Some(Refusal::Unusable)),
            ("0.0.0.0", Some(Refusal::Unusable)),
            ("::", Some(Refusal::Unusable)),
            ("224.0.0.1", Some(Refusal::Unusable)),
            ("ff02::1", Some(Refusal::Unusable)),
            ("255.255.255.255", Some(Refusal::Unusable)),
        ] {
            assert_eq!(allowed.refusal(ip(address)), expected, "{address}");
        }
    }

    #[test]
    fn a_range_is_allowed_again_when_the_last_object_that_has_it_is_gone() {
        let mut allowed = Allowed::default();
        let node: Object = ("n1", &["10.1.0.0/24"]);
        let twin: Object = ("n2", &["10.1.0.0/24"]);
        let address = ip("10.1.0.9");
        assert!(take(&mut allowed, Refusal::Pods, &Step::Applied(node)));
        assert!(
            !take(&mut allowed, Refusal::Pods, &Step::Applied(node)),
            "it is known"
        );
        assert!(!take(&mut allowed, Refusal::Pods, &Step::Applied(twin)));
        assert!(take(
            &mut allowed,
            Refusal::Node,
            &Step::Applied(("n1", &["10.1.0.9/32"]))
        ));
        assert_eq!(allowed.refusal(address), Some(Refusal::Node));
        assert!(take(
            &mut allowed,
            Refusal::Node,
            &Step::Deleted(("n1", &[]))
        ));
        assert!(!take(
            &mut allowed,
            Refusal::Pods,
            &Step::Deleted(("n1", &[]))
        ));
        assert_eq!(allowed.refusal(address), Some(Refusal::Pods));
        // A range that is missing from the server's answer stays; one that it lists without is gone.
        assert!(!take(
            &mut allowed,
            Refusal::Pods,
            &Step::Absent("403".to_owned())
        ));
        assert_eq!(allowed.refusal(address), Some(Refusal::Pods));
        let unreadable = List::new(Vec::new(), ["n2".to_owned()].into());
        assert!(!take(
            &mut allowed,
            Refusal::Pods,
            &Step::Listed(unreadable)
        ));
        assert!(take(&mut allowed, Refusal::Pods, &Step::listed(Vec::new())));
        assert_eq!(allowed.refusal(address), None);
        assert!(allowed.objects.is_empty() && allowed.held.is_empty());
        assert!(allowed.lengths.is_empty());
    }

    #[test]
    fn of_two_flags_the_longer_range_counts_and_both_count_before_the_cluster() {
        let mut allowed = Allowed::new(RangeOptions {
            allowed: nets(&["10.1.1.0/28", "10.9.9.0/24", "10.8.0.0/16", "0.0.0.0/8"]),
            refused: nets(&["10.9.0.0/16", "10.8.0.0/16"]),
        });
        let pods: Object = ("n", &["10.1.1.0/24"]);
        assert!(take(&mut allowed, Refusal::Pods, &Step::Applied(pods)));
        for (address, expected) in [
            ("10.1.1.1", None),
            ("10.1.1.16", Some(Refusal::Pods)),
            ("10.9.1.1", Some(Refusal::Flag)),
            ("10.9.9.1", None),
            ("10.8.0.1", Some(Refusal::Flag)),
            ("::ffff:10.9.1.1", Some(Refusal::Flag)),
            ("0.0.0.0", Some(Refusal::Unusable)),
        ] {
            assert_eq!(allowed.refusal(ip(address)), expected, "{address}");
        }
    }
}
