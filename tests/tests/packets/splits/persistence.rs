//! Flows that stay with their backend: clients with affinity, flows of UDP, and the choices of a Maglev table.

use std::collections::BTreeMap;

use super::world::{NEW, OLD, canary, chosen, node, split, splitting, tell};
use crate::{frame::Transport, needs_root, node::Node};

const STICKY: &str = r#""session_affinity_timeout":60,"#;
const MAGLEV: &str = r#""selection":"maglev","#;

fn with(backends: &[(&str, u32)], fields: &str) -> String {
    splitting(&split("strict", backends), fields)
}

/// The backend of the first connection of each of 100 clients at these ports that is not refused.
fn served(node: &mut Node, from: u16) -> BTreeMap<u8, (u8, u16)> {
    let first = |last: u8| {
        let mut ports = from..;
        let (port, backend) = ports.find_map(|port| {
            let client = ([10, 1, 1, last], port);
            Some((port, chosen(node, Transport::TcpSyn, client)?))
        })?;
        Some((last, (backend, port)))
    };
    (100..200).filter_map(first).collect()
}

#[test]
fn a_client_with_affinity_keeps_its_backend_while_that_has_any_weight() {
    needs_root!();
    let mut node = node(
        &with(&[("web", 100), ("web-canary", 0)], STICKY),
        &canary(&NEW),
    );
    let before = served(&mut node, 1000);
    assert!(before.values().all(|(backend, _)| *backend != 7));
    tell(&mut node, &with(&[("web", 1), ("web-canary", 99)], STICKY));
    for (last, (backend, _)) in &before {
        let now = chosen(&mut node, Transport::TcpSyn, ([10, 1, 1, *last], 2000));
        assert_eq!(now, Some(*backend), "client {last}");
    }
    tell(&mut node, &with(&[("web", 0), ("web-canary", 100)], STICKY));
    for last in before.keys() {
        let now = chosen(&mut node, Transport::TcpSyn, ([10, 1, 1, *last], 3000));
        assert_eq!(
            now,
            Some(7),
            "client {last}: its backend takes no connections"
        );
    }
    tell(&mut node, &with(&[("web", 50), ("web-canary", 50)], STICKY));
    for last in before.keys() {
        let now = chosen(&mut node, Transport::TcpSyn, ([10, 1, 1, *last], 4000));
        assert_eq!(now, Some(7), "client {last} is bound again");
    }
}

#[test]
fn a_client_that_has_a_backend_is_not_refused_and_one_that_was_refused_has_none() {
    needs_root!();
    let mut node = node(&with(&[("web", 1), ("gone", 1)], STICKY), &canary(&NEW));
    let before = served(&mut node, 1000);
    let again = before.values().filter(|(_, port)| *port > 1000).count();
    assert!(
        (20..80).contains(&again),
        "{again} of 100 were refused at first"
    );
    for (last, (backend, _)) in &before {
        for port in 2000..2010 {
            let now = chosen(&mut node, Transport::TcpSyn, ([10, 1, 1, *last], port));
            assert_eq!(now, Some(*backend), "client {last}");
        }
    }
}

#[test]
fn datagrams_stay_with_an_endpoint_until_it_leaves_the_split() {
    needs_root!();
    let client = |port| ([10, 1, 1, 9], port);
    let mut node = node(&with(&[("web-canary", 1)], ""), &canary(&NEW));
    let ask = |node: &mut Node, port| chosen(node, Transport::Udp, client(port));
    assert_eq!(ask(&mut node, 1), Some(7));
    for weights in [
        &[("web", 9), ("web-canary", 1)][..],
        &[("web", 1), ("web-canary", 0)],
    ] {
        tell(&mut node, &with(weights, ""));
        assert_eq!(ask(&mut node, 1), Some(7), "{weights:?}");
    }
    assert_ne!(ask(&mut node, 2), Some(7), "a new one");
    // The endpoint drains, and is gone.
    tell(
        &mut node,
        &canary(&NEW).replace(r#""port":8080"#, r#""state":"Terminating","port":8080"#),
    );
    assert_eq!(ask(&mut node, 1), Some(7));
    tell(&mut node, &canary(&OLD[..1]));
    assert_ne!(ask(&mut node, 1), Some(7), "it is no endpoint of anybody's");

    let other = ask(&mut node, 1);
    tell(&mut node, &with(&[("web-canary", 1), ("web", 1)], ""));
    assert_eq!(ask(&mut node, 1), other);
    // Its own endpoints stay the port's own, with the split and without.
    let web = crate::node::web(&OLD);
    tell(&mut node, &web);
    assert_eq!(ask(&mut node, 1), other);
}

#[test]
fn nodes_agree_by_their_maglev_tables_also_on_what_is_refused() {
    const WEIGHTS: [(&str, u32); 3] = [("web", 5), ("web-canary", 3), ("gone", 2)];

    needs_root!();
    let mut first = node(&with(&WEIGHTS, MAGLEV), &canary(&NEW));
    // Told of another split, and of the canary's endpoints in another order.
    let mut second = node(&with(&[("web-canary", 1)], MAGLEV), &canary(&OLD));
    tell(&mut second, &with(&WEIGHTS, MAGLEV));
    tell(&mut second, &canary(&NEW));
    let mut seen: BTreeMap<Option<u8>, u32> = BTreeMap::new();
    for last in 100..110 {
        for port in 1000..2000 {
            let client = ([10, 1, 1, last], port);
            let backend = chosen(&mut first, Transport::TcpSyn, client);
            assert_eq!(
                chosen(&mut second, Transport::TcpSyn, client),
                backend,
                "{client:?}"
            );
            *seen.entry(backend).or_default() += 1;
        }
    }
    for (backend, share) in [
        (Some(3), 0.25),
        (Some(4), 0.25),
        (Some(7), 0.3),
        (None, 0.2),
    ] {
        let (observed, ideal) = (f64::from(seen[&backend]), share * 10_000.0);
        assert!(
            (observed - ideal).abs() <= ideal / 8.0,
            "{backend:?}: {observed} of {ideal}"
        );
    }
}

#[test]
fn a_client_with_affinity_and_a_table_is_refused_by_its_address() {
    needs_root!();
    let fields = format!("{STICKY}{MAGLEV}");
    let mut node = node(&with(&[("web", 1), ("gone", 1)], &fields), &canary(&NEW));
    let mut refused = 0;
    for last in 100..200 {
        let first = chosen(&mut node, Transport::TcpSyn, ([10, 1, 1, last], 1000));
        for port in 1001..1005 {
            let now = chosen(&mut node, Transport::TcpSyn, ([10, 1, 1, last], port));
            assert_eq!(now, first, "client {last}");
        }
        refused += usize::from(first.is_none());
    }
    assert!((20..80).contains(&refused), "{refused} of 100");
}
