//! The kernel's routes to addresses, followed by a thread: the ways to those elsewhere, and which are guests'
//! of this host.
//!
//! The kernel returns no more of a route than it is asked for, by address. So the thread takes the borders of all
//! routes and rules, and asks the kernel for one address between them each.

pub(crate) mod ask;
mod borders;
mod guests;
pub(crate) mod way;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    thread::{self, Builder},
    time::{Duration, Instant},
};

use ipnet::IpNet;
use rtnetlink::MulticastGroup;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::{
    netlink::{
        links::{self, Link},
        messages::{Gathered, Messages, Noted, kind},
    },
    routes::{
        ask::{Family, Listed, Rules, ask, routes, rules},
        borders::{borders, samples, without_repeats},
        guests::guests,
        way::Way,
    },
};

/// Message types of linux/rtnetlink.h.
const RTM_NEWLINK: u16 = 16;

/// The subjects of the kernel's messages: IPv4's routes go without one when their interface goes down.
const GROUPS: &[MulticastGroup] = &[
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
    MulticastGroup::Nexthop,
];

/// The most routes of a family that are looked at: a router with all of the Internet's has a million, which change
/// hundreds of times a second.
const MOST_ROUTES: usize = 16_384;

/// The most borders for which the kernel is asked.
const MOST_BORDERS: usize = 4096;

/// Rest of the thread, in multiples of the time that it looked: it has at most a twentieth of a processor.
const REST: u32 = 19;

/// The shortest rest: changes come in groups.
const LEAST_REST: Duration = Duration::from_millis(50);

/// The longest wait for a message before all is looked at again.
const LONGEST: Duration = Duration::from_mins(5);

/// Ways and guests that the routes show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The ways by prefix. The longest prefix of an address counts, and one has none with the way of the next shorter
    /// one.
    pub(crate) ways: BTreeMap<IpNet, Way>,
    /// The networks of this host's pods and guests, as far as routes show them.
    pub guests: BTreeSet<IpNet>,
    /// True if IPv4's routes may be others for a backend's packet than for the same from its frontend.
    pub(crate) are_by_sender_v4: bool,
    /// As [`Self::are_by_sender_v4`], of IPv6.
    pub(crate) are_by_sender_v6: bool,
}

/// Follows the routes from now on, in the network namespace of the caller.
///
/// # Errors
///
/// If the kernel reports nothing, or there is no thread.
pub(crate) fn follow() -> io::Result<watch::Receiver<Arc<Known>>> {
    let mut messages = Messages::open(GROUPS)?;
    let (sender, known) = watch::channel(Arc::new(look()));
    Builder::new().name("routes".to_owned()).spawn(move || {
        while !sender.is_closed() {
            let end = Instant::now() + LONGEST;
            let _: Gathered = messages.gather(end, &mut note);
            let start = Instant::now();
            let new = look();
            sender.send_if_modified(|known| {
                let is_other = **known != new;
                if is_other {
                    debug!(?new, "routes");
                    *known = Arc::new(new);
                }
                is_other
            });
            thread::sleep((start.elapsed() * REST).max(LEAST_REST));
        }
    })?;
    Ok(known)
}

/// Returns whether a message may be about a change of ways.
fn note(message: &[u8]) -> Noted {
    // Messages of bridges, about their ports, have a family.
    let is_of_port = kind(message) == Some(RTM_NEWLINK) && message.get(16) != Some(&0);
    if is_of_port {
        Noted::Nothing
    } else {
        Noted::Stale
    }
}

/// Looks at the routes. Of a family of which they are too many, or not listed, nothing is known.
fn look() -> Known {
    let mut known = Known::default();
    let links = links::list().unwrap_or_else(|error| {
        warn!(%error, "the interfaces are not listed: no address counts as a guest's");
        Vec::new()
    });
    for family in [Family::V4, Family::V6] {
        let mut are_by_sender = true;
        if let Err(error) = look_at(family, &links, &mut known, &mut are_by_sender) {
            warn!(%error, "the routes of {family} are not known: SNAT gives this node's address, and envelopes go by the \
                   MTU of interfaces");
        }
        match family {
            Family::V4 => known.are_by_sender_v4 = are_by_sender,
            Family::V6 => known.are_by_sender_v6 = are_by_sender,
        }
    }
    known
}

/// Looks at the routes of a family. `are_by_sender`: whether they may be others for a backend's packet than for the same
/// from its frontend.
fn look_at(
    family: Family,
    links: &[Link],
    known: &mut Known,
    are_by_sender: &mut bool,
) -> io::Result<()> {
    let Rules {
        destinations,
        are_by_sender: are_rules,
    } = rules(family)?;
    // IPv4 has no such routes.
    *are_by_sender = are_rules || family == Family::V6;
    let Listed {
        routes,
        are_by_source,
    } = routes(family, MOST_ROUTES)?;
    *are_by_sender = are_rules || are_by_source;
    known.guests.extend(guests(&routes, links));
    let borders = borders(routes, destinations.into_iter().chain(family.prefixes()));
    if borders.len() > MOST_BORDERS {
        let error = format!(
            "their {} prefixes are more than {MOST_BORDERS}",
            borders.len()
        );
        return Err(io::Error::other(error));
    }
    let ways = samples(&borders).into_iter();
    let ways = ways.map(|(prefix, address)| (prefix, ask(address)));
    known.ways.extend(without_repeats(ways.collect()));
    Ok(())
}
