//! Netfilter's rules that filter packets before their destination is translated: none of them sees a service's address
//! in packets that Shunt has translated.

mod chain;
mod chains;
mod matching;
mod rule;

use std::{collections::BTreeSet, io};

use shunt_model::FrontendKey;

use self::{chain::Chain, matching::Match};

/// Ending of the name of Calico's chain for policies that apply before the translation: `preDNAT` in the table `mangle`,
/// `doNotTrack` in `raw`. In Calico's nftables mode the name begins with that of the table. Without such policies the
/// chain has no rules.
const HOST_ENDPOINTS: &str = "cali-from-host-endpoint";

/// Number of rules that are named at most.
const NAMED: usize = 5;

/// The rules that filter before the translation, as far as they can be read.
#[derive(Debug, Default)]
pub(crate) struct EarlyRules {
    /// Rules that drop or reject packets by their destination, each with its chain.
    filters: Vec<(Chain, Match)>,
    /// Calico's chains of host endpoints that have rules.
    host_endpoints: Vec<Chain>,
}

impl EarlyRules {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// If netfilter does not answer.
    pub(crate) fn read() -> io::Result<Self> {
        let mut early = Self::default();
        chains::visit(|chain, rules| {
            if chain.name.ends_with(HOST_ENDPOINTS) && !rules.is_empty() {
                early.host_endpoints.push(chain.clone());
            }
            let filters = rules.into_iter().filter_map(|rule| rule.filter);
            let filters = filters.filter(Match::reads_destination);
            early
                .filters
                .extend(filters.map(|filter| (chain.clone(), filter)));
        })?;
        Ok(early)
    }

    /// Returns whether frontends have to be known for [`Self::complaint`].
    pub(crate) const fn depends_on_frontends(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Returns a sentence about the rules that have no effect on packets to these frontends; `None` if there are none.
    pub(crate) fn complaint(&self, frontends: &[FrontendKey]) -> Option<String> {
        let filters = self.filters.iter().filter_map(|(chain, filter)| {
            let family = chain.family;
            let frontend = frontends.iter().find(|key| filter.names(family, key))?;
            Some(format!("a rule of {chain} for {frontend}"))
        });
        let host_endpoints = self.host_endpoints.iter();
        let host_endpoints =
            host_endpoints.map(|chain| format!("Calico's host endpoint policies in {chain}"));
        let all: BTreeSet<_> = host_endpoints.chain(filters).collect();
        let named: Vec<_> = all.iter().take(NAMED).map(String::as_str).collect();
        let named = named.join(", ");
        let more = match all.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!all.is_empty()).then(|| {
            format!(
                "netfilter rules before the translation of addresses have no effect on packets to \
                 services, which Shunt translates earlier: {named}{more}. Use \
                 loadBalancerSourceRanges, policies of the pods, or a filter before the node \
                 instead. Sets of nftables and the rules of iptables-legacy are not read"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::nfnetlink::V4;

    fn chain(name: &str) -> Chain {
        Chain {
            family: V4,
            table: "raw".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn rules_for_frontends_and_host_endpoints_are_named() {
        let frontends = ["203.0.113.7", "10.96.0.10"].map(|address| FrontendKey {
            address: address.parse().unwrap(),
            port: 80,
            protocol: shunt_model::Protocol::Tcp,
        });
        assert_eq!(EarlyRules::default().complaint(&frontends), None);
        let filter = |name, port| (chain(name), Match::to_ports(port..=port));
        let early = EarlyRules {
            filters: [22, 80, 80].map(|port| filter("PREROUTING", port)).into(),
            host_endpoints: vec![chain("cali-from-host-endpoint")],
        };
        let complaint = early.complaint(&frontends).unwrap();
        let named = ": Calico's host endpoint policies in chain cali-from-host-endpoint of ip raw, \
                     a rule of chain PREROUTING of ip raw for 203.0.113.7:80/TCP. Use";
        assert!(complaint.contains(named), "{complaint}");
        let many = EarlyRules {
            filters: ["a", "b", "c", "d", "e", "f", "g"]
                .map(|name| filter(name, 80))
                .into(),
            host_endpoints: Vec::new(),
        };
        assert!(many.complaint(&frontends).unwrap().contains(" and 2 more."));
        assert_eq!(many.complaint(&[]), None);
    }
}
