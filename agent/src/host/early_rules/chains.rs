//! The chains that a packet can pass before its destination is translated.

use std::{collections::BTreeSet, io};

use super::{chain::Chain, rule::Rule};
use crate::host::{
    kube_proxy::tables::TABLE,
    nfnetlink::{INET, NFTABLES, V4, V6, list, text, text_of, value_of},
};

/// `NFT_MSG_GETCHAIN` and `NFT_MSG_GETRULE` of linux/netfilter/nf_tables.h.
const GET_CHAIN: u8 = 4;
const GET_RULE: u8 = 7;

/// `NFTA_CHAIN_TABLE`, `NFTA_CHAIN_NAME`, `NFTA_CHAIN_HOOK`, `NFTA_HOOK_HOOKNUM` and `NFTA_HOOK_PRIORITY`;
/// `NFTA_RULE_TABLE` and `NFTA_RULE_CHAIN`.
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;

/// `NF_INET_PRE_ROUTING` and `NF_IP_PRI_NAT_DST`.
const PREROUTING: u32 = 0;
const TRANSLATION: i32 = -100;

/// Hands `take` each chain at prerouting before the translation, and each that one of these jumps to, once, with its rules.
///
/// # Errors
///
/// If netfilter does not answer.
pub(super) fn visit(mut take: impl FnMut(&Chain, Vec<Rule>)) -> io::Result<()> {
    let mut waiting = Vec::new();
    for family in [V4, V6, INET] {
        list(NFTABLES, GET_CHAIN, family, &[], |message| {
            waiting.extend(early_chain(family, message));
        })?;
    }
    let mut known = waiting.iter().cloned().collect::<BTreeSet<_>>();
    while let Some(chain) = waiting.pop() {
        let rules = rules(&chain)?;
        for name in rules.iter().filter_map(|rule| rule.jump.clone()) {
            let to = Chain {
                name,
                ..chain.clone()
            };
            if known.insert(to.clone()) {
                waiting.push(to);
            }
        }
        take(&chain, rules);
    }
    Ok(())
}

/// Reads a chain, if it is one at prerouting before the translation. kube-proxy's own checks serve its own translation.
fn early_chain(family: u8, message: &[u8]) -> Option<Chain> {
    let hook = value_of(message, CHAIN_HOOK)?;
    let number = |kind| value_of(hook, kind)?.first_chunk().copied();
    let is_early = u32::from_be_bytes(number(HOOK_NUMBER)?) == PREROUTING
        && i32::from_be_bytes(number(HOOK_PRIORITY)?) < TRANSLATION;
    let table = text_of(message, CHAIN_TABLE)?;
    (is_early && table != TABLE).then_some(Chain {
        family,
        table,
        name: text_of(message, CHAIN_NAME)?,
    })
}

fn rules(chain: &Chain) -> io::Result<Vec<Rule>> {
    let Chain {
        family,
        table,
        name,
    } = chain;
    let asked = [text(RULE_TABLE, table), text(RULE_CHAIN, name)].concat();
    let mut rules = Vec::new();
    list(NFTABLES, GET_RULE, *family, &asked, |message| {
        rules.push(Rule::read(message));
    })?;
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::nfnetlink::attribute;

    #[test]
    fn a_chain_counts_at_prerouting_before_the_translation() {
        let listed = |table: &str, hook: u32, priority: i32| {
            let hook = [
                attribute(HOOK_NUMBER, &hook.to_be_bytes()),
                attribute(HOOK_PRIORITY, &priority.to_be_bytes()),
            ];
            [
                text(CHAIN_TABLE, table),
                text(CHAIN_NAME, "PREROUTING"),
                attribute(CHAIN_HOOK, &hook.concat()),
            ]
            .concat()
        };
        for (table, hook, priority, expected) in [
            ("raw", 0, -300, true),
            ("mangle", 0, -150, true),
            ("nat", 0, -100, false),
            ("filter", 0, 0, false),
            ("raw", 3, -300, false),
            (TABLE, 0, -110, false),
        ] {
            let found = early_chain(V4, &listed(table, hook, priority));
            assert_eq!(found.is_some(), expected, "{table} {hook} {priority}");
        }
        let no_base = [text(CHAIN_TABLE, "raw"), text(CHAIN_NAME, "other")].concat();
        assert_eq!(early_chain(V4, &no_base), None);
    }
}
