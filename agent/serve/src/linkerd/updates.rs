//! Updates of addresses for a client.

use std::{net::SocketAddr, sync::Arc};

use linkerd2_proxy_api::{
    destination::{
        AddrSet, NoEndpoints, Update, WeightedAddr, WeightedAddrSet, update::Update as Kind,
    },
    net::TcpAddress,
};

use shunt_model::Answer;

use crate::linkerd::{
    addresses::Addresses, authority::Destination, client::Client, settings::LinkerdSettings,
    shared::Made,
};

/// A message has at most so many addresses. With the longest names that there can be it is shorter than
/// the 4 MiB that clients take.
const PIECE: usize = 4096;

impl Made for Addresses {
    /// Clients on one node have the same addresses.
    type Question = (Destination, Client);
    type Settings = Arc<LinkerdSettings>;
    type Memory = ();
    type Message = Update;

    fn make(
        (destination, client): &(Destination, Client),
        settings: &Arc<LinkerdSettings>,
        answer: &Answer,
        (): &mut (),
    ) -> Self {
        Self::of(destination, answer, client, settings)
    }

    fn messages(old: Option<&Self>, new: &Self) -> Vec<Update> {
        updates(old, new)
    }
}

/// Returns what leads from `old`, which the client got, to `new`: what is added before what is removed,
/// and that there is nothing only where nothing follows. A client that got nothing yet gets something
/// in any case.
fn updates(old: Option<&Addresses>, new: &Addresses) -> Vec<Update> {
    let Addresses {
        exists,
        labels,
        list,
    } = new;
    if list.is_empty() {
        let is_known = old.is_some_and(|old| old.list.is_empty() && old.exists == *exists);
        let nothing = Kind::NoEndpoints(NoEndpoints { exists: *exists });
        return if is_known {
            vec![]
        } else {
            vec![update(nothing)]
        };
    }
    let before = |address: &SocketAddr| old.and_then(|old| old.list.get(address));
    // They are for all addresses of a message.
    let is_renamed = old.is_some_and(|old| old.labels != *labels);
    let adds: Vec<WeightedAddr> = list
        .iter()
        .filter(|(address, found)| is_renamed || before(address) != Some(*found))
        .map(|(_, found)| found.clone())
        .collect();
    let gone = old.iter().flat_map(|old| old.list.keys());
    let removes: Vec<TcpAddress> = gone
        .filter(|address| !list.contains_key(address))
        .map(|address| (*address).into())
        .collect();
    let adds = adds.chunks(PIECE).map(|piece| {
        Kind::Add(WeightedAddrSet {
            addrs: piece.to_vec(),
            metric_labels: labels.clone(),
        })
    });
    let removes = removes.chunks(PIECE).map(|piece| {
        Kind::Remove(AddrSet {
            addrs: piece.to_vec(),
        })
    });
    adds.chain(removes).map(update).collect()
}

const fn update(kind: Kind) -> Update {
    Update { update: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkerd::metadata::{Labels, bare, namespace};

    fn addresses(hosts: impl IntoIterator<Item = u16>, name: &str) -> Addresses {
        let address = |host: u16| SocketAddr::from(([10, 0, 0, 1], host));
        let hosts = hosts.into_iter().map(address);
        Addresses {
            exists: true,
            labels: Labels::from([namespace(name)]),
            list: hosts.map(|address| (address, bare(address))).collect(),
        }
    }

    /// Shows how many addresses each message adds or removes, or that something exists.
    fn shown(old: Option<&Addresses>, new: &Addresses) -> Vec<String> {
        let shown = |update: Update| match update.update {
            Some(Kind::Add(set)) => format!("+{}", set.addrs.len()),
            Some(Kind::Remove(set)) => format!("-{}", set.addrs.len()),
            Some(Kind::NoEndpoints(NoEndpoints { exists })) => format!("none {exists}"),
            None => "nothing".to_owned(),
        };
        updates(old, new).into_iter().map(shown).collect()
    }

    #[test]
    fn adds_come_before_removes_and_nothing_is_said_where_nothing_is_new() {
        let none = addresses([], "a");
        let missing = Addresses::default();
        let (one, two) = (addresses([1], "a"), addresses([2], "a"));
        for (old, new, expected) in [
            (None, &one, vec!["+1"]),
            (None, &none, vec!["none true"]),
            (None, &missing, vec!["none false"]),
            (Some(&one), &one, vec![]),
            (Some(&one), &two, vec!["+1", "-1"]),
            (Some(&one), &addresses([1, 2], "a"), vec!["+1"]),
            (Some(&addresses([1, 2], "a")), &one, vec!["-1"]),
            (Some(&one), &addresses([1], "b"), vec!["+1"]),
            (Some(&one), &none, vec!["none true"]),
            (Some(&none), &none, vec![]),
            (Some(&none), &missing, vec!["none false"]),
            (Some(&missing), &one, vec!["+1"]),
        ] {
            assert_eq!(shown(old, new), expected, "{old:?} -> {new:?}");
        }
    }

    #[test]
    fn many_addresses_come_in_pieces() {
        let many = addresses(1..=10_000, "a");
        assert_eq!(shown(None, &many), ["+4096", "+4096", "+1808"]);
        let one = addresses([1], "a");
        assert_eq!(shown(Some(&many), &one), ["-4096", "-4096", "-1807"]);
    }
}
