//! The rule by which interfaces are uplinks, as default routes come and go.
//!
//! Many drivers reset their card when they get an XDP program or lose it: the link goes down for a moment, and whatever
//! follows it may take its default route away. An agent that followed that would attach and detach for ever. So an
//! uplink stays one for a while without a default route:
//!
//! ```text
//! routed -> lost    its last default route goes
//! lost   -> routed  one comes back
//! lost   -> none    another interface has become an uplink since, and its link has been as it is for HOLD; or HOLD is
//!                   over, since the route went or the link came back; or the interface is gone
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// The time for which an uplink stays one without a default route.
pub(crate) const HOLD: Duration = Duration::from_mins(1);

/// An interface that is an uplink, or may have been one.
#[derive(Debug, Clone, Copy)]
struct Uplink {
    /// Time at which it became one.
    came: Instant,
    /// Time at which its last default route went; `None`: it has one.
    lost: Option<Instant>,
}

/// The link of an interface.
#[derive(Debug, Clone, Copy)]
struct LinkState {
    is_up: bool,
    /// Time at which that was seen to change.
    changed: Option<Instant>,
}

/// The interfaces that are uplinks.
#[derive(Debug, Default)]
pub(crate) struct ChosenUplinks {
    links: BTreeMap<u32, LinkState>,
    uplinks: BTreeMap<u32, Uplink>,
}

impl ChosenUplinks {
    /// Begins with those that an earlier agent took for uplinks.
    pub(crate) fn new(earlier: BTreeSet<u32>, now: Instant) -> Self {
        let uplink = Uplink {
            came: now,
            lost: Some(now),
        };
        Self {
            links: BTreeMap::new(),
            uplinks: earlier.into_iter().map(|index| (index, uplink)).collect(),
        }
    }

    /// Notes that the link of an interface is up or down. Returns whether that has changed.
    pub(crate) fn note_link(&mut self, index: u32, is_up: bool, now: Instant) -> bool {
        match self.links.get_mut(&index) {
            Some(link) if link.is_up == is_up => false,
            Some(link) => {
                let changed = Some(now);
                *link = LinkState { is_up, changed };
                true
            }
            None => {
                let changed = None;
                self.links.insert(index, LinkState { is_up, changed });
                true
            }
        }
    }

    /// Notes that an interface is gone.
    pub(crate) fn note_gone(&mut self, index: u32) {
        self.links.remove(&index);
    }

    /// Notes that these interfaces are all that there are.
    pub(crate) fn note_all(&mut self, there: &BTreeSet<u32>) {
        self.links.retain(|index, _| there.contains(index));
    }

    /// Returns whether the interface is an uplink.
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.uplinks.contains_key(&index)
    }

    /// Chooses anew, with the interfaces that default routes lead to. Returns when to choose again at the latest.
    pub(crate) fn choose(&mut self, routed: &BTreeSet<u32>, now: Instant) -> Option<Instant> {
        for index in routed {
            let uplink = Uplink {
                came: now,
                lost: None,
            };
            self.uplinks.entry(*index).or_insert(uplink).lost = None;
        }
        for (index, uplink) in &mut self.uplinks {
            if !routed.contains(index) {
                uplink.lost.get_or_insert(now);
            }
        }
        let newest = routed.iter().filter_map(|index| self.uplinks.get(index));
        let newest = newest.map(|uplink| uplink.came).max();
        let mut next: Option<Instant> = None;
        let links = &self.links;
        self.uplinks.retain(|index, uplink| {
            let Some(lost) = uplink.lost else {
                return true;
            };
            let Some(LinkState { is_up, changed }) = links.get(index) else {
                return false;
            };
            if !is_up {
                return true;
            }
            let has_successor = newest.is_some_and(|newest| newest >= lost);
            let since = match changed {
                Some(changed) if has_successor => *changed,
                None if has_successor => return false,
                changed => changed.map_or(lost, |changed| changed.max(lost)),
            };
            let end = since + HOLD;
            if end > now {
                next = Some(next.map_or(end, |next| next.min(end)));
            }
            end > now
        });
        next
    }

    /// Their indexes.
    pub(crate) fn indexes(&self) -> BTreeSet<u32> {
        self.uplinks.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A choice among interfaces 1 to 3, whose links are up.
    struct World {
        chosen: ChosenUplinks,
        now: Instant,
    }

    impl World {
        fn new(earlier: &[u32]) -> Self {
            let now = Instant::now();
            let mut chosen = ChosenUplinks::new(earlier.iter().copied().collect(), now);
            for index in 1..=3 {
                chosen.note_link(index, true, now);
            }
            Self { chosen, now }
        }

        /// Has time pass; returns the uplinks then and in how many seconds to look again.
        fn after(&mut self, passed: Duration, routed: &[u32]) -> (Vec<u32>, Option<u64>) {
            self.now += passed;
            let next = self
                .chosen
                .choose(&routed.iter().copied().collect(), self.now);
            let indexes = self.chosen.indexes().into_iter().collect();
            (indexes, next.map(|next| (next - self.now).as_secs()))
        }

        fn link(&mut self, index: u32, is_up: bool) {
            self.chosen.note_link(index, is_up, self.now);
        }
    }

    #[test]
    fn an_uplink_whose_route_is_back_within_the_time_stays_one() {
        let mut world = World::new(&[]);
        assert_eq!(world.after(SECOND, &[1]), (vec![1], None));
        for _ in 0..3 {
            assert_eq!(world.after(SECOND, &[]), (vec![1], Some(60)));
            assert_eq!(world.after(59 * SECOND, &[]), (vec![1], Some(1)));
            assert_eq!(world.after(Duration::ZERO, &[1]), (vec![1], None));
        }
        world.after(SECOND, &[]);
        assert_eq!(world.after(HOLD, &[]), (vec![], None));
    }

    #[test]
    fn an_uplink_gives_way_to_another_one_that_comes_later_and_not_to_one_that_was_there() {
        let mut world = World::new(&[]);
        world.after(SECOND, &[1, 2]);
        assert_eq!(world.after(SECOND, &[2]), (vec![1, 2], Some(60)));
        assert_eq!(world.after(SECOND, &[2, 3]), (vec![2, 3], None));
        // The change may come in one piece.
        assert_eq!(world.after(SECOND, &[1]), (vec![1], None));
    }

    #[test]
    fn a_lost_route_is_not_followed_while_the_link_is_down_or_has_just_changed() {
        let mut world = World::new(&[]);
        world.after(SECOND, &[1]);
        world.link(1, false);
        assert_eq!(world.after(SECOND, &[]), (vec![1], None));
        assert_eq!(world.after(100 * HOLD, &[]), (vec![1], None));
        assert_eq!(world.after(SECOND, &[2]), (vec![1, 2], None), "it is down");
        world.link(1, true);
        assert_eq!(world.after(SECOND, &[2]), (vec![1, 2], Some(59)));
        assert_eq!(world.after(SECOND, &[1, 2]), (vec![1, 2], None));
        // A message about anything else is no change.
        world.after(2 * HOLD, &[1]);
        world.link(1, true);
        assert_eq!(world.after(SECOND, &[3]), (vec![3], None));
    }

    #[test]
    fn what_an_earlier_agent_took_for_uplinks_stays_for_the_time() {
        let mut world = World::new(&[1, 9]);
        let first = world.after(SECOND, &[]);
        assert_eq!(first, (vec![1], Some(59)), "there is no interface 9");
        assert_eq!(world.after(HOLD, &[]), (vec![], None));
    }

    #[test]
    fn an_interface_that_is_gone_is_no_uplink() {
        let mut world = World::new(&[]);
        world.after(SECOND, &[1, 2]);
        world.chosen.note_gone(1);
        assert_eq!(world.after(SECOND, &[]), (vec![2], Some(60)));
        world.chosen.note_all(&BTreeSet::new());
        assert_eq!(world.after(SECOND, &[]), (vec![], None));
    }
}
