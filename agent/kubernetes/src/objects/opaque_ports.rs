//! The annotation `config.linkerd.io/opaque-ports`, of a Pod or a Service.

use std::collections::BTreeSet;

use shunt_model::PortRange;

/// Returns the ports of the text: names of `named` ports, numbers and ranges of them, separated by commas. A
/// name comes first, also one that looks like a number. Anything else is left out, as linkerd does.
pub(crate) fn opaque_ports<'a>(
    text: &str,
    named: &(impl Iterator<Item = (&'a str, u16)> + Clone),
) -> BTreeSet<PortRange> {
    let items = text.split(',').map(str::trim);
    let found = items.filter(|item| !item.is_empty()).flat_map(|item| {
        let named = named.clone().filter(|(name, _)| *name == item);
        let mut ranges: Vec<_> = named
            .map(|(_, port)| PortRange {
                first: port,
                last: port,
            })
            .collect();
        if ranges.is_empty() {
            ranges.extend(item.parse::<PortRange>());
        }
        ranges
    });
    found.collect()
}
