//! The XDP program on the uplinks: on exactly those that are wanted, as they come and go.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use tracing::{info, warn};

use crate::{
    attach::{
        default_routes,
        selection::Selection,
        tags,
        uplink::{State, UplinkState, UplinkStatus},
        uplink_watch,
        xdp::{self, HOOK, XdpAttachment},
    },
    netlink::links::{self, Link},
    object::{
        aside::Readiness,
        loaded::Loaded,
        programs::XDP,
        xdp::{XdpMode, XdpOptions},
    },
    pins::{
        directory::{LinkPin, Pins, Place, remove},
        held::Repair,
    },
};

/// The interfaces that have the XDP program.
#[derive(Debug, Default)]
pub(crate) struct Uplinks {
    options: XdpOptions,
    selection: Selection,
    /// Uplinks that are meant, as default routes come and go; `None`: as these are now.
    followed: Option<uplink_watch::Uplinks>,
    interfaces: BTreeMap<String, State>,
    /// Programs that an earlier agent left attached, by index, until it is known whether they are wanted.
    adopted: BTreeMap<u32, XdpAttachment>,
}

impl Uplinks {
    /// None yet.
    pub(crate) fn new(options: XdpOptions, selection: Selection) -> Self {
        Self {
            options,
            selection,
            followed: None,
            interfaces: BTreeMap::new(),
            adopted: BTreeMap::new(),
        }
    }

    /// Returns the place at which the program runs.
    pub(crate) const fn mode(&self) -> XdpMode {
        self.options.mode
    }

    /// Returns whether an interface that exists is to have the program.
    pub(crate) fn are_any(&mut self) -> bool {
        if !self.options.is_on() {
            return false;
        }
        let Ok(links) = links::list() else {
            return false;
        };
        let wanted = self.wanted(&links).unwrap_or_default();
        links.iter().any(|link| wanted.contains(&link.name))
    }

    /// Returns whether it depends on routes which interfaces are meant.
    pub(crate) fn follows_routes(&self) -> bool {
        self.options.is_on() && self.options.interfaces.is_empty()
    }

    /// Follows the default routes from now on, if it depends on them which interfaces are meant. Returns the
    /// uplinks as they change.
    ///
    /// # Errors
    ///
    /// If the kernel lists no routes, or there is no thread.
    pub(crate) fn follow(
        &mut self,
        pins: Option<&Pins>,
    ) -> io::Result<Option<uplink_watch::Uplinks>> {
        if self.follows_routes() {
            self.followed = Some(uplink_watch::follow(xdp::pinned(pins))?);
        }
        Ok(self.followed.clone())
    }

    /// Takes over what an earlier agent pinned: its links now run our program, each replaced in one
    /// step. Without XDP they are removed.
    pub(crate) fn adopt(&mut self, object: &mut Loaded) {
        let pinned = match object.pins().map(|pins| (pins.links(), pins)) {
            None => return,
            Some((Err(error), _)) => return warn!(%error, "XDP links are not taken over"),
            Some((Ok(links), pins)) => {
                let ours = |LinkPin { path, place }| match place {
                    Some(Place::Interface {
                        namespace,
                        index,
                        hook,
                    }) if hook == HOOK => Some((path, pins.is_ours(namespace).then_some(index))),
                    _ => None,
                };
                links.into_iter().filter_map(ours).collect::<Vec<_>>()
            }
        };
        for (path, index) in pinned {
            let discard = |reason: &str| match remove(&path) {
                Ok(()) => info!(path = %path.display(), reason, "removed a pinned XDP link"),
                Err(error) => warn!(%error, reason, "a pinned XDP link stays"),
            };
            match index {
                None => discard("it is of another network namespace"),
                Some(_) if !self.options.is_on() => discard("--xdp is off"),
                Some(index) => match xdp::adopt(object, &path) {
                    Ok(attachment) => {
                        info!(index, "XDP program replaced");
                        self.adopted.insert(index, attachment);
                    }
                    Err(error) => discard(&error.to_string()),
                },
            }
        }
    }

    /// Attaches the program to those interfaces among `links` that are wanted and do not have it, and
    /// detaches it from every other one. To be called whenever interfaces or routes change.
    pub(crate) fn reconcile(&mut self, object: &mut Loaded, links: &[Link]) {
        let Some(wanted) = self.wanted(links) else {
            return;
        };
        let by_name: BTreeMap<&str, &Link> = links
            .iter()
            .map(|link| (link.name.as_str(), link))
            .collect();
        for (name, state) in self
            .interfaces
            .extract_if(.., |name, _| !wanted.contains(name))
        {
            if let State::Attached(_, attached) = state {
                attached.attachment.detach();
                info!(interface = %name, "XDP program detached");
            }
        }
        for name in wanted {
            let before = self.interfaces.remove(&name);
            let link = by_name.get(name.as_str()).copied();
            let adopted = link.and_then(|link| self.adopted.remove(&link.index));
            let mode = self.options.mode;
            let now = match link.and_then(|link| Some((link, tags::lost(link, links)?))) {
                Some((link, reason)) => State::refused(before, link, adopted, reason),
                None => State::after(before, object, mode, (&name, link), adopted),
            };
            self.interfaces.insert(name, now);
        }
        for (index, attachment) in std::mem::take(&mut self.adopted) {
            attachment.detach();
            info!(
                index,
                "detached an XDP program that an earlier agent had attached"
            );
        }
    }

    /// Has every interface that has the program run the one that `object` has now, each replaced in one step.
    /// Returns the number of these.
    pub(crate) fn replace(&mut self, object: &mut Loaded) -> usize {
        let mut count = 0;
        for (name, state) in &mut self.interfaces {
            let State::Attached(_, attached) = state else {
                continue;
            };
            if object.prepare(XDP) != Readiness::Ready {
                continue;
            }
            match attached.attachment.replace(object) {
                Ok(()) => count += 1,
                Err(error) => warn!(interface = %name, %error, "the XDP program is not replaced"),
            }
        }
        count
    }

    /// Pins those links again that are not pinned any more.
    pub(crate) fn keep_pins(&self, repair: &mut Repair) {
        let attached = self.interfaces.values().filter_map(|state| match state {
            State::Attached(_, attached) => Some(&attached.attachment),
            _ => None,
        });
        for attachment in attached.chain(self.adopted.values()) {
            attachment.keep_pin(repair);
        }
    }

    /// The names of the interfaces that are to have the program; `None` if that cannot be found out
    /// now, so that all stays as it is.
    fn wanted(&mut self, links: &[Link]) -> Option<BTreeSet<String>> {
        if !self.options.is_on() {
            return Some(BTreeSet::new());
        }
        if !self.follows_routes() {
            return Some(self.selection.choose(&self.options.interfaces, Some(links)));
        }
        let indexes = match &self.followed {
            Some(followed) => followed.borrow().clone(),
            None => default_routes::interfaces()
                .map_err(|error| warn!(%error, "the default routes are not known"))
                .ok()?,
        };
        let names = links
            .iter()
            .filter(|link| indexes.contains(&link.index) && !self.selection.excludes(&link.name));
        Some(names.map(|link| link.name.clone()).collect())
    }

    /// The link addresses of the interfaces whose packets the program sends on, by index: of those that have it.
    /// A driver can hand a frame only to another driver (`__xdp_enqueue` in kernel/bpf/devmap.c: elsewhere it is
    /// lost), so beside native ones the generic ones are TC's.
    pub(crate) fn addresses(&self, links: &[Link]) -> BTreeMap<u32, [u8; 6]> {
        let has_native = self.interfaces.values().any(State::is_native);
        let states = self.interfaces.values();
        let indexes: BTreeSet<u32> = states
            .filter(|state| state.is_native() || !has_native)
            .filter_map(State::index)
            .collect();
        let uplinks = links.iter().filter(|link| indexes.contains(&link.index));
        uplinks
            .filter_map(|link| Some((link.index, link.address?)))
            .collect()
    }

    /// The interfaces whose program the kernel refused, by name, with the reason.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        let interfaces = self.interfaces.iter();
        interfaces.filter_map(|(name, state)| Some((name.as_str(), state.refusal()?)))
    }

    /// Every interface that is to have the program, by name, and then the patterns that mean none.
    pub(crate) fn states(&self) -> impl Iterator<Item = UplinkStatus> {
        let chosen = self.interfaces.iter().map(|(name, state)| UplinkStatus {
            name: name.clone(),
            state: state.shown(),
        });
        let idle = self.selection.idle().iter();
        chosen.chain(idle.map(|pattern| UplinkStatus {
            name: pattern.to_string(),
            state: UplinkState::Absent,
        }))
    }
}
