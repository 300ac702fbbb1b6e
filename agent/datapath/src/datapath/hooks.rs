//! The places of the programs: the interfaces and the cgroup that they are attached to, and the treatment of those
//! that an earlier agent has attached.

use std::{collections::BTreeSet, io};

use shunt_common::InterfaceRole;
use shunt_model::InterfacePattern;
use tokio::sync::watch::Receiver;
use tracing::{info, warn};

use super::Datapath;
use crate::{
    attach::{
        attachments::{Attachments, InterfaceState, InterfaceStatus},
        filter_watch::RemovedFilters,
        pod_interfaces::pod_interfaces,
        reverse_path_watch,
        reverse_paths::ReversePaths,
        screen_watch::ScreenWatch,
        screens::{self, Screens},
        sockets::SocketStatus,
        stations::stations,
        uplink::UplinkStatus,
    },
    error::DatapathError,
    netlink::links::Link,
    object::xdp::XdpMode,
    sweep::covered::Coverage,
};

impl Datapath {
    /// Attaches the programs to the cgroup, if connections are to be translated at the socket. What an
    /// earlier agent attached there is taken over, or removed if it is not wanted. To be called before
    /// [`Self::adopt_interfaces`], which removes tables that programs of an earlier agent use.
    ///
    /// # Errors
    ///
    /// If the kernel refuses and this is required; if not, [`Self::sockets`] shows why.
    pub fn attach_sockets(&mut self) -> Result<(), DatapathError> {
        self.copy_outgrown();
        self.sockets.attach(&mut self.object)?;
        self.cover_sockets();
        Ok(())
    }

    /// Has sockets of the cgroup connected anew that reach no backend.
    pub(super) fn cover_sockets(&self) {
        let SocketStatus {
            cgroup,
            is_root,
            hooks,
            ..
        } = self.sockets.status();
        if let Some(cgroup) = cgroup
            && !hooks.is_empty()
        {
            self.stale_sockets.cover(if is_root {
                Coverage::All
            } else {
                Coverage::Below(cgroup)
            });
        }
    }

    /// Returns the state of the translation at the socket.
    pub fn sockets(&self) -> SocketStatus {
        self.sockets.status()
    }

    /// Takes over what an earlier agent pinned: its links now run our programs, each replaced in
    /// one step. Nothing is detached before [`Self::reconcile_interfaces`]. What
    /// only the earlier agent's programs had use for is unpinned then.
    pub fn adopt_interfaces(&mut self) {
        self.copy_outgrown();
        // The programs are ours from then on.
        let links = self.list_links(self.pods.are_known());
        self.find_pods(links.as_deref());
        self.attachments = Attachments::adopt(&mut self.object);
        self.uplinks.adopt(&mut self.object);
        match self.finish_takeover() {
            Ok(0) => {}
            Ok(removed) => info!(removed, "unpinned tables that only an earlier agent had"),
            Err(error) => warn!(%error, "tables of an earlier agent stay pinned"),
        }
    }

    /// Has our programs know what those of an earlier agent have written to tables that were too small.
    fn copy_outgrown(&mut self) {
        if let Some(moves) = &mut self.moves {
            moves.copy();
        }
    }

    /// Unpins what only programs of an earlier agent had use for: no hook has one any more. Returns
    /// the number of these tables.
    fn finish_takeover(&mut self) -> Result<usize, DatapathError> {
        self.object.unpin_unused()?;
        let (Some(pins), Some(layout)) = (self.object.pins(), &self.layout) else {
            return Ok(0);
        };
        if let Some(handover) = self.handover.take() {
            handover.finish(pins)?;
        }
        if let Some(moves) = self.moves.take() {
            moves.finish(pins)?;
        }
        self.has_taken_over = true;
        Ok(layout.remove_others(pins)?)
    }

    /// Attaches the programs to those interfaces that `wanted` means, that exist and do not have
    /// them. Detaches them from every other one, but as long as not `all` that is wanted is known,
    /// what an earlier agent attached stays. To be called whenever interfaces change. Many
    /// interfaces are left to [`Self::attach_more`].
    pub fn reconcile_interfaces(&mut self, wanted: &BTreeSet<InterfacePattern>, all: bool) {
        self.use_routes();
        let has_xdp = self.uplinks.mode() != XdpMode::Off;
        let are_asked_for =
            has_xdp || self.pods.are_known() || self.peers.is_some() || !wanted.is_empty();
        let links = self.list_links(are_asked_for);
        // Before the first packet of a new pod.
        self.find_pods(links.as_deref());
        if let Some(links) = &links {
            self.stations.set(&stations(links));
        }
        let chosen = self.selection.choose(wanted, links.as_deref());
        self.attachments.reconcile(&mut self.object, &chosen, all);
        self.set_attached();
        // After TC's programs: what the XDP program leaves, they do.
        if let (true, Some(links)) = (has_xdp, links.as_deref()) {
            self.reconcile_uplinks(links);
        }
    }

    /// Brings the XDP program onto the uplinks.
    fn reconcile_uplinks(&mut self, links: &[Link]) {
        self.uplinks.reconcile(&mut self.object, links);
        let addresses = self.uplinks.addresses(links);
        if let Err(error) = self.uplink_table.set(&addresses) {
            warn!(%error, "some packets in transit are left to TC");
        }
    }

    /// Returns the place at which the XDP program is to run.
    pub const fn xdp_mode(&self) -> XdpMode {
        self.uplinks.mode()
    }

    /// Follows the default routes from now on, if it depends on them on which interfaces it is to run. Returns the
    /// indexes of these, as they change. To be called before [`Self::adopt_interfaces`].
    ///
    /// # Errors
    ///
    /// If the kernel lists no routes, or there is no thread.
    pub fn follow_uplinks(&mut self) -> io::Result<Option<Receiver<BTreeSet<u32>>>> {
        self.uplinks.follow(self.object.pins())
    }

    /// Every interface that is to have the XDP program, by name, and then the patterns that mean none.
    pub fn uplinks(&self) -> impl Iterator<Item = UplinkStatus> {
        self.uplinks.states()
    }

    /// The interfaces that there are; `None` if they are not asked for, or not known.
    fn list_links(&mut self, are_asked_for: bool) -> Option<Vec<Link>> {
        if !are_asked_for {
            return None;
        }
        self.links
            .list()
            .map_err(|error| warn!(%error, "the interfaces are not listed"))
            .ok()
    }

    /// Enters the interfaces that pods are behind, for the programs.
    fn find_pods(&mut self, links: Option<&[Link]>) {
        if let (true, Some(links)) = (self.pods.are_known(), links)
            && let Err(error) = self
                .interfaces
                .set(InterfaceRole::of_pods, &pod_interfaces(&self.pods, links))
        {
            warn!(%error, "some of this node's pods are taken for clients from outside");
        }
    }

    /// Returns whether interfaces wait for their turn to get the programs.
    pub const fn is_attaching(&self) -> bool {
        self.attachments.waiting() > 0
    }

    /// Attaches the programs to some of the interfaces that wait for them, which takes some 20 ms.
    pub fn attach_more(&mut self) {
        self.attachments.attach_more(&mut self.object);
        if !self.is_attaching() {
            self.set_attached();
        }
    }

    /// Attaches the programs again where they have been removed, among the interfaces of a
    /// [`FilterWatch`](crate::FilterWatch).
    pub fn restore_filters(&mut self, removed: &RemovedFilters) {
        self.attachments.restore(&mut self.object, removed);
        self.set_attached();
    }

    fn set_attached(&mut self) {
        let attached = self.attachments.indexes();
        if let Err(error) = self.interfaces.set(InterfaceRole::attached, &attached) {
            // What would leave by an interface that is not in the table is forwarded past the stack.
            warn!(%error, "some packets are not fragmented, and their senders not told that a backend is unreachable");
        }
        self.set_reverse_paths(&attached);
        self.set_peers(attached);
    }

    /// Enters the attached interfaces where the stack accepts more sources than the routes show.
    fn set_reverse_paths(&mut self, attached: &BTreeSet<u32>) {
        let Some(followed) = &self.reverse_paths else {
            return;
        };
        let paths = followed.borrow().among(attached);
        if paths == self.known_reverse_paths {
            return;
        }
        let ReversePaths {
            unfiltered,
            loosely_filtered,
        } = &paths;
        let entered = self
            .interfaces
            .set(InterfaceRole::loosely_filtered, loosely_filtered)
            .and_then(|()| self.interfaces.set(InterfaceRole::unfiltered, unfiltered));
        match entered {
            Ok(()) => self.known_reverse_paths = paths,
            Err(error) => warn!(%error, "the stack is asked about the sources of more packets"),
        }
    }

    /// Follows the setting `rp_filter` of interfaces from now on. Returns what changes with it. To be called before
    /// [`Self::adopt_interfaces`].
    ///
    /// # Errors
    ///
    /// If the kernel reports or lists nothing, or there is no thread.
    pub fn follow_reverse_paths(
        &mut self,
    ) -> io::Result<Receiver<impl Send + Sync + 'static + use<>>> {
        let followed = self.reverse_paths.insert(reverse_path_watch::follow()?);
        Ok(followed.clone())
    }

    /// Enters those of the attached interfaces that packets may be handed to the pods behind.
    fn set_peers(&mut self, mut interfaces: BTreeSet<u32>) {
        let Some(peers) = &mut self.peers else {
            return;
        };
        // Another end may have moved since it was looked at.
        interfaces.retain(|index| self.links.leads_elsewhere(*index));
        self.screens = match &self.screen_watch {
            Some(watch) => watch.among(&interfaces),
            None => screens::find(&interfaces),
        };
        let screened = self.screens.keys().copied().collect();
        if let Err(error) = self.interfaces.set(InterfaceRole::screened, &screened) {
            // From there it is to be as it is to there.
            warn!(%error, "no packets of pods are redirected, as other programs would not see some");
            interfaces.clear();
        }
        peers.set(&(&interfaces - &screened));
    }

    /// Follows what others have on the devices of pods from now on, if packets are redirected. Returns what changes with
    /// it. To be called before [`Self::adopt_interfaces`].
    ///
    /// # Errors
    ///
    /// If the kernel reports nothing, or there is no thread.
    pub fn follow_screens(&mut self) -> io::Result<Option<Receiver<Screens>>> {
        if self.peers.is_none() {
            return Ok(None);
        }
        let watch = self.screen_watch.insert(ScreenWatch::start()?);
        Ok(Some(watch.changes()))
    }

    /// Returns a sentence about the pods' devices that nothing is redirected to or from, if there are any.
    pub fn screened(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let count = self.screens.len();
        let named = self.screens.iter().take(SHOWN).map(|(index, screen)| {
            let name = self.links.name(*index).unwrap_or_default();
            format!("{name} ({screen})")
        });
        let mut named = named.collect::<Vec<_>>().join(", ");
        if count > SHOWN {
            named += &format!(" and {} more", count - SHOWN);
        }
        (count > 0).then(|| {
            format!("--redirect leaves packets to and from some pods to the stack, as other programs handle them: {named}")
        })
    }

    /// Every interface that is to have the programs, by name, and then the patterns that mean none.
    pub fn interfaces(&self) -> impl Iterator<Item = InterfaceStatus> {
        let chosen = self
            .attachments
            .states()
            .map(|(name, state)| InterfaceStatus {
                name: name.to_owned(),
                pattern: self.selection.pattern_of(name).map(ToString::to_string),
                state,
            });
        chosen.chain(self.selection.idle().iter().map(|pattern| InterfaceStatus {
            name: pattern.to_string(),
            pattern: Some(pattern.to_string()),
            state: InterfaceState::Absent,
        }))
    }

    /// The hooks that are to have programs and that the kernel refused, a phrase each with the reason.
    pub fn failed_hooks(&self) -> Vec<String> {
        let sockets = self.sockets.problem().into_iter();
        let sockets = sockets.map(|reason| format!("sockets: {reason}"));
        let interfaces = self.attachments.refused();
        let interfaces = interfaces.map(|(name, reason)| format!("{name}: {reason}"));
        let uplinks = self.uplinks.refused();
        let uplinks = uplinks.map(|(name, reason)| format!("XDP at {name}: {reason}"));
        sockets.chain(interfaces).chain(uplinks).collect()
    }
}
