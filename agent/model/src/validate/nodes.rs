//! The nodes of the cluster.

use std::{collections::btree_map::Entry, net::IpAddr};

use crate::{
    cluster_nodes::ClusterNodes,
    error::{EventError, Fault},
    path::segment,
    unchecked::{service::Entries, text::Text},
    validate::{address::address, name::name},
};

/// Adds the nodes of the field `nodes`. A name, and an address of all nodes, is there once.
pub(super) fn add(
    known: &mut ClusterNodes,
    entries: &Entries<'_, Vec<Text<'_>>>,
) -> Result<(), EventError> {
    for (node, list) in entries {
        let field = || format!("nodes.{}", segment(node));
        let at = |fault: Fault| EventError::new(fault).within(field());
        let node = name(node).map_err(at)?;
        let mut addresses: Vec<IpAddr> = Vec::with_capacity(list.len());
        for (index, text) in list.iter().enumerate() {
            let located = |fault| {
                let place = format_args!("{}[{index}]", field());
                EventError::new(fault).within(place)
            };
            let address = address(text).map_err(located)?;
            let owner = known.0.iter().find(|(_, list)| list.contains(&address));
            if let Some((other, _)) = owner {
                let other = other.to_string();
                return Err(located(Fault::AddressOfNode { address, other }));
            }
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match known.0.entry(node.into()) {
            Entry::Vacant(place) => place.insert(addresses),
            Entry::Occupied(_) => return Err(at(Fault::DuplicateNode)),
        };
    }
    Ok(())
}
