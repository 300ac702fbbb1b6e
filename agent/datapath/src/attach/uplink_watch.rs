//! A thread that follows which interfaces are uplinks.
//!
//! A router may have a million routes, and change hundreds of them in a second. So the thread reads of each message no
//! more than its first bytes, and lists routes only after one about a default route: messages alone would not do, since
//! IPv4's routes go without one when their interface goes down. Messages that were lost are made up for by
//! listing.

use std::{
    collections::BTreeSet,
    io,
    thread::{self, Builder},
    time::{Duration, Instant},
};

use rtnetlink::MulticastGroup;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::{
    attach::{
        chosen_uplinks::ChosenUplinks,
        default_routes::{interfaces_v4, interfaces_v6, is_of_default},
    },
    netlink::{
        links,
        messages::{Gathered, Messages, Noted, kind},
    },
};

/// Message types and flags of linux/rtnetlink.h and linux/if.h.
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
/// `IFF_UP` and `IFF_LOWER_UP`: an interface with both sends and receives.
const UP: u32 = 1 | 1 << 16;

/// The subjects of the kernel's messages.
const GROUPS: &[MulticastGroup] = &[
    MulticastGroup::Link,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Nexthop,
];

/// The time after a failure until all is read again.
const AGAIN: Duration = Duration::from_secs(1);

/// Rest of the thread, in multiples of the time that it listed routes: it has at most a tenth of a processor.
const REST: u32 = 9;

/// The longest wait for a message before the thread checks that its choice is still wanted.
const LONGEST: Duration = Duration::from_mins(1);

/// The uplinks as they are now, by their indexes.
pub(crate) type Uplinks = watch::Receiver<BTreeSet<u32>>;

/// Follows the uplinks from now on, in the network namespace of the caller. An earlier agent took these for uplinks.
///
/// # Errors
///
/// If the kernel reports or lists nothing now, or there is no thread.
pub(crate) fn follow(earlier: BTreeSet<u32>) -> io::Result<Uplinks> {
    let mut watch = Watch {
        messages: Messages::open(GROUPS)?,
        state: State {
            chosen: ChosenUplinks::new(earlier, Instant::now()),
            routed: Routed::default(),
            stale: Stale::ALL,
        },
    };
    let next = watch.state.choose()?;
    let (sender, uplinks) = watch::channel(watch.state.chosen.indexes());
    Builder::new()
        .name("uplinks".to_owned())
        .spawn(move || watch.run(next, &sender))?;
    Ok(uplinks)
}

/// The interfaces that default routes lead to.
#[derive(Debug, Default)]
struct Routed {
    v4: BTreeSet<u32>,
    v6: BTreeSet<u32>,
}

/// Lists that may be out of date, and are to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stale {
    v4: bool,
    v6: bool,
    links: bool,
}

impl Stale {
    const NONE: Self = Self {
        v4: false,
        v6: false,
        links: false,
    };
    const ALL: Self = Self {
        v4: true,
        v6: true,
        links: true,
    };
}

#[derive(Debug)]
struct Watch {
    messages: Messages,
    state: State,
}

/// The knowledge of the uplinks.
#[derive(Debug)]
struct State {
    chosen: ChosenUplinks,
    routed: Routed,
    stale: Stale,
}

impl Watch {
    fn run(mut self, mut next: Option<Instant>, sender: &watch::Sender<BTreeSet<u32>>) {
        let Self { messages, state } = &mut self;
        while !sender.is_closed() {
            let end = Instant::now() + LONGEST;
            let end = next.map_or(end, |next| next.min(end));
            if messages.gather(end, &mut |message| state.note(message)) == Gathered::Anything {
                state.stale = Stale::ALL;
            }
            let start = Instant::now();
            match state.choose() {
                Ok(time) => next = time,
                Err(error) => {
                    warn!(%error, "the default routes are not known");
                    thread::sleep(AGAIN);
                }
            }
            let chosen = state.chosen.indexes();
            sender.send_if_modified(|uplinks| {
                let is_other = *uplinks != chosen;
                if is_other {
                    debug!(?chosen, "uplinks");
                    *uplinks = chosen;
                }
                is_other
            });
            thread::sleep(start.elapsed() * REST);
        }
    }
}

impl State {
    /// Notes a message, by its first bytes.
    fn note(&mut self, message: &[u8]) -> Noted {
        self.read(message);
        if self.stale == Stale::NONE {
            Noted::Nothing
        } else {
            Noted::Stale
        }
    }

    fn read(&mut self, message: &[u8]) {
        let word = |at: usize| {
            let bytes = message.get(at..at + 4)?;
            bytes.try_into().ok().map(u32::from_ne_bytes)
        };
        // `struct nlmsghdr`, and behind its 16 bytes `struct rtmsg` or `struct ifinfomsg`.
        let Some(kind) = kind(message) else {
            return;
        };
        match kind {
            RTM_NEWROUTE | RTM_DELROUTE if is_of_default(message) => {
                match message.get(16).map(|family| i32::from(*family)) {
                    Some(libc::AF_INET) => self.stale.v4 = true,
                    Some(libc::AF_INET6) => self.stale.v6 = true,
                    _ => {}
                }
            }
            RTM_NEWLINK | RTM_DELLINK => {
                // Messages of bridges, about their ports, have a family.
                let (Some(index), Some(flags), Some(0)) = (word(20), word(24), message.get(16))
                else {
                    return;
                };
                let has_changed = if kind == RTM_DELLINK {
                    self.chosen.note_gone(index);
                    true
                } else {
                    self.chosen
                        .note_link(index, flags & UP == UP, Instant::now())
                };
                // The kernel does not report all routes that go with an interface.
                if has_changed && self.chosen.contains(index) {
                    self.stale.v4 = true;
                    self.stale.v6 |= self.routed.v6.contains(&index);
                }
            }
            // Routes may change with the hops that they name.
            RTM_NEWNEXTHOP | RTM_DELNEXTHOP => {
                self.stale.v4 = true;
                self.stale.v6 = true;
            }
            _ => {}
        }
    }

    /// Lists what is stale and chooses by it. Returns when to choose again at the latest.
    fn choose(&mut self) -> io::Result<Option<Instant>> {
        let Stale { v4, v6, links } = self.stale;
        if links {
            let there = links::list()?;
            let now = Instant::now();
            for link in &there {
                self.chosen
                    .note_link(link.index, link.flags & UP == UP, now);
            }
            let indexes = there.iter().map(|link| link.index).collect();
            self.chosen.note_all(&indexes);
        }
        if v4 {
            self.routed.v4 = interfaces_v4()?;
        }
        if v6 {
            self.routed.v6 = interfaces_v6()?;
        }
        self.stale = Stale::NONE;
        let routed = &self.routed.v4 | &self.routed.v6;
        Ok(self.chosen.choose(&routed, Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use nix::{
        net::if_::if_nametoindex,
        sched::{CloneFlags, unshare},
    };
    use shunt_skip::skip;
    use tokio::{runtime, time::timeout};

    use super::*;

    /// The time that a busy machine may take to report a route and to list all.
    const SOON: Duration = Duration::from_secs(50);

    fn message(kind: u16, family: i32, bytes: &[(usize, u8)]) -> Vec<u8> {
        let mut message = vec![0; 32];
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message[16] = family as u8;
        for (place, value) in bytes {
            message[*place] = *value;
        }
        message
    }

    fn link(kind: u16, index: u8, flags: u32) -> Vec<u8> {
        let mut message = message(kind, 0, &[(20, index)]);
        message[24..28].copy_from_slice(&flags.to_ne_bytes());
        message
    }

    #[test]
    fn of_all_routes_only_default_ones_count_and_links_as_far_as_they_are_uplinks() {
        let mut watch = State {
            chosen: ChosenUplinks::default(),
            routed: Routed::default(),
            stale: Stale::NONE,
        };
        watch.chosen.choose(&[2, 3].into(), Instant::now());
        watch.routed.v6.insert(3);
        watch.note(&link(RTM_NEWLINK, 2, UP));
        let (v4, v6) = (libc::AF_INET, libc::AF_INET6);
        for (message, expected) in [
            (message(RTM_NEWROUTE, v4, &[(17, 24)]), [false, false]),
            (message(RTM_DELROUTE, v6, &[(17, 1)]), [false, false]),
            (message(RTM_NEWROUTE, v4, &[]), [true, false]),
            (message(RTM_DELROUTE, v6, &[]), [false, true]),
            (message(RTM_DELNEXTHOP, 0, &[]), [true, true]),
            (link(RTM_NEWLINK, 2, UP | 64), [false, false]),
            (link(RTM_NEWLINK, 2, UP ^ 1), [true, false]),
            (link(RTM_NEWLINK, 7, UP), [false, false]),
            (link(RTM_DELLINK, 3, 0), [true, true]),
            (vec![1, 2, 3], [false, false]),
            (vec![0; 16], [false, false]),
        ] {
            watch.stale = Stale::NONE;
            watch.note(&message);
            let Stale { v4, v6, links } = watch.stale;
            assert_eq!(([v4, v6], links), (expected, false), "{message:?}");
        }
    }

    #[test]
    fn what_there_is_now_is_known_at_once() {
        let uplinks = follow(BTreeSet::new()).unwrap();
        assert_eq!(
            *uplinks.borrow(),
            crate::attach::default_routes::interfaces().unwrap()
        );
    }

    /// Changes the interfaces of the calling thread's network namespace.
    #[track_caller]
    fn ip(arguments: &str) {
        let status = Command::new("ip").args(arguments.split(' ')).status();
        assert!(status.unwrap().success(), "ip {arguments}");
    }

    /// Follows the uplinks of a new network namespace while it gets a default route of one family.
    fn a_default_route_makes_an_uplink(address: &str, route: &str) {
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            skip("needs root");
            return;
        }
        ip("link add up0 type veth peer name far0");
        ip("link set far0 up");
        ip("link set up0 up");
        ip(address);
        let mut uplinks = follow(BTreeSet::new()).unwrap();
        assert_eq!(*uplinks.borrow(), BTreeSet::new());
        ip(route);
        let expected = BTreeSet::from([if_nametoindex("up0").unwrap()]);
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let found = uplinks.wait_for(|found| *found == expected);
            timeout(SOON, found).await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_default_route_of_either_family_alone_makes_an_uplink() {
        let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
        for (is_there, address, route) in [
            (
                true,
                "-4 address add 192.0.2.1/24 dev up0",
                "-4 route add default via 192.0.2.2 dev up0",
            ),
            (
                has_ipv6,
                "-6 address add 2001:db8::1/64 dev up0 nodad",
                "-6 route add default via 2001:db8::2 dev up0",
            ),
        ] {
            if !is_there {
                continue;
            }
            // The thread ends with its namespace.
            let test = thread::spawn(|| a_default_route_makes_an_uplink(address, route));
            test.join().unwrap();
        }
    }
}
