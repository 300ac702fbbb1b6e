//! The agent: each event is planned, published, and only then known.

mod count_first;
mod drained;
mod fit;
mod give_way;
mod undecided;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt, io,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use shunt_datapath::{
    Datapath, InterfaceState, InterfaceStatus, Machine, MaglevRecipe, ReadyTables, RemovedFilters,
    TableError,
};
use shunt_model::{
    Changes, EventKind, Footprint, Frontend, FrontendKey, InterfacePattern, Overrides, Plan, Query,
    Renderer, RendererEvent,
};
use tracing::{info, warn};

use crate::{
    compare_services::compare,
    health_checks::HealthCheckChange,
    lookup::{followers::Followers, following::Following},
    outcome::{ApplyError, Outcome},
    read_back::{
        journal::Journal,
        piece::{self, Part, Piece, Ranges},
    },
    removal::Removal,
    room::Shares,
    service_changes::ServiceChanges,
};

/// With how many entries, of all Maglev tables that an event lacks, these are not made when it is applied
/// but before, beside the event loop. Fewer take a few milliseconds at most.
const LARGE: u64 = 100_000;

/// Conditions that an event meets.
#[derive(Debug, Default)]
pub struct Foresight {
    /// Footprint of the event; everything, if it is going to be refused.
    pub footprint: Footprint,
    /// Recipes of the event's Maglev tables that are missing, if these are large.
    pub lacking: HashSet<MaglevRecipe>,
}

/// A plan that the tables did not take.
struct Refused {
    plan: Plan,
    error: TableError,
}

impl From<Box<Refused>> for ApplyError {
    fn from(refused: Box<Refused>) -> Self {
        Self::Tables(refused.error)
    }
}

/// The renderer and the datapath that it drives.
pub struct Agent {
    renderer: Renderer,
    datapath: Datapath,
    /// Interfaces from the command line, besides those of the events.
    interfaces: BTreeSet<InterfacePattern>,
    /// Followers of the renderer's answers.
    followers: Followers,
    /// Since when interfaces are absent.
    absent: BTreeMap<String, Instant>,
    /// The hooks that the kernel refused.
    failed_hooks: Vec<String>,
    /// Changes of each service, if they are recorded.
    changes: Option<Arc<ServiceChanges>>,
    /// Log of what events change, for those who read the tables.
    journal: Journal,
    /// The services' shares of the tables, at this generation of the renderer's state.
    shares: Option<(u64, Shares)>,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("interfaces", &self.interfaces)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Drives `datapath` by `renderer`, with the programs on `interfaces` besides those that the
    /// events name. What an earlier agent left attached gets our programs at once, and stays
    /// until the first Resync decides whether it is wanted.
    pub fn new(
        renderer: Renderer,
        mut datapath: Datapath,
        interfaces: BTreeSet<InterfacePattern>,
    ) -> Self {
        datapath.adopt_interfaces();
        let mut agent = Self {
            renderer,
            datapath,
            interfaces,
            followers: Followers::default(),
            absent: BTreeMap::new(),
            failed_hooks: Vec::new(),
            changes: None,
            journal: Journal::default(),
            shares: None,
        };
        agent.reconcile_interfaces();
        agent
    }

    /// Remembers there from now on what events change of each service.
    pub fn remember(&mut self, changes: Option<Arc<ServiceChanges>>) {
        self.changes = changes;
    }

    /// Returns whether applying the event may take long, for the Maglev tables of the services that it brings,
    /// unless these are there. A quick look.
    pub fn may_take_long(&self, event: &RendererEvent) -> bool {
        // A Resync finds most tables where they were, which it knows only when it has read them back.
        event.kind() != EventKind::Resync && self.renderer.maglev_entries(event) > LARGE
    }

    /// Returns the conditions that an event meets if it is applied now. It is planned for that, and has no effect.
    pub fn foresee(&self, event: &RendererEvent) -> Foresight {
        let Ok(plan) = self.renderer.plan(event.clone()) else {
            return Foresight {
                footprint: Footprint::all(),
                lacking: HashSet::new(),
            };
        };
        let mut lacking = match plan.snapshot {
            Some(_) => HashSet::new(),
            None => self.datapath.lacking_tables(&plan.changes),
        };
        let entries = lacking.iter().map(|recipe| u64::from(recipe.entries()));
        if entries.sum::<u64>() <= LARGE {
            lacking.clear();
        }
        Foresight {
            footprint: Footprint::of(event, &plan),
            lacking,
        }
    }

    /// Applies an event, whole or not at all.
    ///
    /// # Errors
    ///
    /// The event has to wait for a Resync, cannot be rendered, or does not fit into the tables. It
    /// had no effect then.
    pub fn apply(&mut self, event: RendererEvent) -> Result<Outcome, ApplyError> {
        self.apply_with(
            event,
            &HealthCheckChange::None,
            &ReadyTables::default(),
            None,
        )
    }

    /// As [`Self::apply`], with Maglev tables that were made before. Of a Resync that does not fit into the tables,
    /// what does is applied. If a service finds no room, those of namespaces that have more may give way, and if node
    /// addresses find none, those that a Resync would leave out. With the event, health checks of services change so. It may remove this share of all frontends, in percent, or any if none is given.
    ///
    /// # Errors
    ///
    /// As [`Self::apply`]; or it would remove more.
    pub fn apply_with(
        &mut self,
        event: RendererEvent,
        health_checks: &HealthCheckChange,
        ready: &ReadyTables,
        max_removal: Option<u8>,
    ) -> Result<Outcome, ApplyError> {
        let start = Instant::now();
        let RendererEvent::Resync(snapshot) = event else {
            if let Some(refusal) = self.refusal_by_number(&event) {
                return Err(refusal);
            }
            let service = event.subject().service().cloned();
            let plan = self.plan_within(event, max_removal)?;
            let outcome = match self.install(plan, health_checks, ready) {
                Ok(outcome) => outcome,
                Err(refused) => self.apply_in_place_of_others(
                    refused,
                    service.as_deref(),
                    health_checks,
                    max_removal,
                )?,
            };
            return Ok(Outcome {
                took: start.elapsed(),
                ..outcome
            });
        };
        let whole = RendererEvent::Resync(snapshot.clone());
        let plan = self.plan_within(whole, max_removal)?;
        let outcome = match self.install_if_it_may_fit(plan, health_checks, ready) {
            Err(error) if error.is_for_want_of_room() => {
                self.apply_what_fits(&snapshot, error, health_checks, max_removal)?
            }
            result => result?,
        };
        let took = start.elapsed();
        self.check_kept();
        Ok(Outcome { took, ..outcome })
    }

    fn apply_whole(
        &mut self,
        event: RendererEvent,
        health_checks: &HealthCheckChange,
        ready: &ReadyTables,
        max_removal: Option<u8>,
    ) -> Result<Outcome, ApplyError> {
        let plan = self.plan_within(event, max_removal)?;
        Ok(self.install(plan, health_checks, ready)?)
    }

    /// Plans an event.
    ///
    /// # Errors
    ///
    /// If it cannot be rendered, or removes more than it may.
    fn plan_within(
        &self,
        event: RendererEvent,
        max_removal: Option<u8>,
    ) -> Result<Plan, ApplyError> {
        let plan = self.renderer.plan(event)?;
        let removal = self.renderer.is_synced() || max_removal.is_some();
        let removal = removal.then(|| self.removal(&plan));
        if let (Some(removal), Some(percent)) = (removal, max_removal)
            && removal.exceeds(percent)
        {
            return Err(ApplyError::Removal(removal));
        }
        if let Some(Removal { removed, frontends }) = removal.filter(|removal| removal.is_large()) {
            warn!("one event removes {removed} of {frontends} frontends (see --max-removal)");
        }
        Ok(plan)
    }

    /// Publishes what a plan changes, and commits it.
    ///
    /// # Errors
    ///
    /// If the tables do not take it: the plan is given back, and nothing has changed.
    fn install(
        &mut self,
        plan: Plan,
        health_checks: &HealthCheckChange,
        ready: &ReadyTables,
    ) -> Result<Outcome, Box<Refused>> {
        // The nodes first: a frontend that the programs find in mode dsr asks for them, and one whose backends are
        // elsewhere for an address of this node.
        let node = self.datapath.node();
        let located = self.datapath.add_locations(&plan.locations);
        let node_writes = match plan.nodes() {
            Some(nodes) => {
                let known = self.renderer.host_addresses();
                let host = plan.host_addresses().unwrap_or(known);
                self.datapath.set_node_ips(nodes.own(), host)
            }
            None => 0,
        };
        let published = match &plan.snapshot {
            Some(snapshot) => self.datapath.resync(snapshot),
            None => self.datapath.publish(&plan.changes, ready),
        };
        let writes = match published {
            Ok(writes) => writes,
            Err(error) => {
                self.datapath.restore_locations(located);
                self.datapath.restore_node(&node);
                return Err(Box::new(Refused { plan, error }));
            }
        };
        self.datapath.remove_locations(&plan.locations);
        let writes = writes + located.writes() + node_writes;
        let outcome = Outcome {
            added: plan.changes.added.len(),
            changed: plan.changes.changed.len(),
            removed: plan.changes.removed.len(),
            untranslated: self.untranslated(&plan),
            writes,
            conflicts: plan.conflicts.clone(),
            left_out: plan.nodes().map_or_else(BTreeSet::new, |nodes| {
                nodes.left_out() - self.renderer.nodes().left_out()
            }),
            refused: BTreeMap::new(),
            took: Duration::ZERO,
        };
        let all_addresses = plan.snapshot.is_some()
            || plan.service_cidrs.is_some()
            || plan.nodes().is_some()
            || plan.cluster_nodes.is_some();
        let addresses = addresses_of(&plan.changes);
        let interfaces_changed =
            plan.frontend_ifs.is_some() || plan.backend_ifs.is_some() || plan.snapshot.is_some();
        let mut concerned = self.followers.concerned(&plan, &self.renderer);
        self.note_changes(&plan);
        self.log_changes(&plan);
        self.renderer.commit(plan);
        if note(health_checks, &mut self.renderer) {
            concerned = self.followers.all();
        }
        self.followers.update(concerned, &self.renderer);
        self.say_service_addresses(all_addresses, &addresses);
        if interfaces_changed {
            self.reconcile_interfaces();
        }
        Ok(outcome)
    }

    /// Notes what a plan changes of each service, before it is known. What the first Resync brings is
    /// what there is, and no change.
    fn note_changes(&self, plan: &Plan) {
        let Some(changes) = &self.changes else {
            return;
        };
        let renderer = &self.renderer;
        changes.note(if renderer.is_synced() {
            compare(
                &plan.changes,
                |key| renderer.frontend(key),
                SystemTime::now(),
            )
        } else {
            Vec::new()
        });
    }

    /// Logs the frontends that a plan changes. A Resync repairs the tables, whatever is in them.
    fn log_changes(&mut self, plan: &Plan) {
        if plan.snapshot.is_some() {
            self.journal.note_all();
            return;
        }
        let Changes {
            added,
            changed,
            removed,
        } = &plan.changes;
        let keys = added.iter().chain(changed).map(|(key, _)| *key);
        self.journal.note(keys.chain(removed.iter().copied()));
    }

    /// Reads the beginning of a part of the tables.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn read_back(&self, part: Part, ranges: &Ranges) -> Result<Piece, TableError> {
        let publisher = self.datapath.publisher();
        piece::read(publisher, &self.renderer, &self.journal, part, ranges)
    }

    /// Has the datapath know whose these addresses are, or `all` that there are.
    fn say_service_addresses(&mut self, all: bool, changed: &BTreeSet<IpAddr>) {
        let Self {
            renderer, datapath, ..
        } = self;
        let host = renderer.host_addresses();
        let nodes = renderer.nodes().all();
        if all {
            let frontends = renderer.frontends();
            let addresses = frontends.map(|(key, frontend)| (key.address, frontend.kind));
            let nodes = nodes.iter().copied();
            let others = nodes.chain(renderer.cluster_nodes().addresses());
            let others = others.map(|address| (address, Machine::Other));
            let own = host.iter().map(|address| (*address, Machine::This));
            let machines = others.chain(own);
            datapath.set_service_addresses(addresses, renderer.service_cidrs(), machines);
            return;
        }
        let machine = |address: &IpAddr| {
            if host.contains(address) {
                return Some(Machine::This);
            }
            let is_of_node = nodes.contains(address) || renderer.is_of_cluster_node(*address);
            is_of_node.then_some(Machine::Other)
        };
        for address in changed {
            let kind = renderer.service_address(*address);
            datapath.change_service_address(*address, kind, machine(address));
        }
    }

    /// This host's interfaces have these addresses now. What follows from them is published: where
    /// NodePorts are, what is this node's, and the address of SNAT, which changes in any case.
    /// `None` if that is nothing new, or nothing is published yet.
    ///
    /// # Errors
    ///
    /// The frontends do not fit into the tables. Then nothing has changed, and the addresses are those before.
    pub fn set_host_addresses(
        &mut self,
        addresses: BTreeSet<IpAddr>,
    ) -> Result<Option<Outcome>, ApplyError> {
        if *self.renderer.host_addresses() == addresses {
            return Ok(None);
        }
        if !self.renderer.is_synced() {
            self.renderer.set_host_addresses(addresses);
            return Ok(None);
        }
        let plan = self.renderer.plan_host_addresses(addresses)?;
        let installed = self.install(plan, &HealthCheckChange::None, &ReadyTables::default());
        Ok(Some(installed?))
    }

    /// Returns what follows where no event names a usable address of this host, a sentence for each family.
    pub(crate) fn missing_addresses(&self) -> Vec<String> {
        let nodes = self.renderer.nodes();
        let (own, left_out) = (nodes.own(), nodes.left_out());
        // A family that the events do not mention is one that they may do without.
        if !self.renderer.is_synced() || (!own.is_empty() && left_out.is_empty()) {
            return Vec::new();
        }
        let is_missing = |is_of: fn(&IpAddr) -> bool| {
            !own.iter().any(is_of) && (own.is_empty() || left_out.iter().any(is_of))
        };
        let families = [
            (
                "IPv4",
                is_missing(IpAddr::is_ipv4),
                self.datapath.snat_source_v4(),
            ),
            (
                "IPv6",
                is_missing(IpAddr::is_ipv6),
                self.datapath.snat_source_v6(),
            ),
        ];
        let missing = families
            .into_iter()
            .filter(|(_, is_missing, _)| *is_missing);
        let missing = missing.filter_map(|(family, _, source)| {
            Some(format!(
                "no event names a usable {family} address of this host: NodePorts are at none, and \
                 connections that need SNAT go on from {} (see node_ips, --snat-ip)",
                source?
            ))
        });
        let mut missing: Vec<String> = missing.collect();
        if missing.is_empty() && own.is_empty() {
            missing.push(
                "no event names a usable address of this host, and its interfaces have none: \
                 connections that need SNAT are dropped (drop_no_node_ip)"
                    .to_owned(),
            );
        }
        missing
    }

    /// Returns the number of frontends that are not translated, of those that are to be after the event.
    fn untranslated(&self, plan: &Plan) -> usize {
        let Changes { added, changed, .. } = &plan.changes;
        let frontends = match &plan.snapshot {
            Some(snapshot) => [snapshot.as_slice(), &[]],
            None => [added.as_slice(), changed],
        };
        let keys = frontends.into_iter().flatten().map(|(key, _)| key);
        keys.filter(|key| !self.datapath.translates(key)).count()
    }

    /// Brings the programs onto every wanted interface that exists; to be called whenever
    /// interfaces change.
    pub fn reconcile_interfaces(&mut self) {
        let mut wanted = self.renderer.frontend_ifs() | &self.interfaces;
        if self.datapath.redirects() {
            wanted.extend(self.renderer.backend_ifs().iter().cloned());
        }
        let synced = self.renderer.is_synced();
        self.datapath.reconcile_interfaces(&wanted, synced);
        let now = Instant::now();
        let absent = self.datapath.interfaces();
        let absent = absent.filter(|interface| interface.state == InterfaceState::Absent);
        self.absent = absent
            .map(|InterfaceStatus { name, .. }| {
                let since = self.absent.get(&name).copied().unwrap_or(now);
                (name, since)
            })
            .collect();
        self.failed_hooks = self.datapath.failed_hooks();
    }

    /// Has the kernel verify programs in a thread from now on. To be called when all that an earlier agent has attached
    /// was taken over.
    pub(crate) fn load_aside(&mut self) {
        if let Err(error) = self.datapath.load_aside() {
            warn!(%error, "events wait while the kernel verifies a program");
        }
    }

    /// Waits until the kernel has verified or refused programs, for which [`Self::use_verified`] is to be called.
    pub(crate) async fn verified(&mut self) {
        self.datapath.verified().await;
    }

    /// Brings programs that the kernel has verified onto the interfaces that wait for them.
    pub(crate) fn use_verified(&mut self) {
        self.datapath.take_verified();
        self.reconcile_interfaces();
    }

    /// Attaches the programs again where they were removed.
    pub(crate) fn restore_filters(&mut self, removed: &RemovedFilters) {
        self.datapath.restore_filters(removed);
        self.failed_hooks = self.datapath.failed_hooks();
    }

    /// Attaches and pins again what others have detached or unpinned, as [`Datapath::check_kept`] does.
    pub fn check_kept(&mut self) {
        self.datapath.check_kept();
        self.failed_hooks = self.datapath.failed_hooks();
    }

    /// The hooks that the kernel refused, a phrase each.
    pub fn failed_hooks(&self) -> &[String] {
        &self.failed_hooks
    }

    /// For how long an interface is absent.
    pub fn absent_for(&self, name: &str) -> Duration {
        self.absent
            .get(name)
            .map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Sets an operator's overrides, which hold from the first Resync on.
    pub fn begin_with(&mut self, overrides: Overrides) {
        self.renderer.set_overrides(overrides);
    }

    /// Makes what an operator has changed these, and no others; before the first Resync nothing follows.
    ///
    /// # Errors
    ///
    /// As [`Self::apply`]; what was changed before holds then.
    pub fn steer(&mut self, overrides: Overrides) -> Result<Option<Outcome>, ApplyError> {
        if !self.renderer.is_synced() {
            self.renderer.set_overrides(overrides);
            return Ok(None);
        }
        let start = Instant::now();
        let plan = self.renderer.plan_overrides(overrides)?;
        let outcome = self.install(plan, &HealthCheckChange::None, &ReadyTables::default())?;
        Ok(Some(Outcome {
            took: start.elapsed(),
            ..outcome
        }))
    }

    /// Returns how many of all frontends a plan removes: of those that are known, or before the first Resync of
    /// those in the kernel.
    fn removal(&self, plan: &Plan) -> Removal {
        if !self.renderer.is_synced() {
            let wanted = plan.snapshot.iter().flatten().map(|(key, _)| *key);
            let wanted: HashSet<_> = wanted.collect();
            // What cannot be read is judged when it is compared.
            let live = self.datapath.live().unwrap_or_default();
            let stays = live
                .iter()
                .filter(|live| live.key.frontend().is_some_and(|key| wanted.contains(&key)));
            return Removal {
                removed: live.len() - stays.count(),
                frontends: live.len(),
            };
        }
        let removed = plan.changes.removed.len();
        Removal {
            removed,
            frontends: match removed {
                0 => 0,
                _ => self.renderer.frontend_counts().iter().sum(),
            },
        }
    }

    /// Returns whether interfaces wait for their turn to get the programs.
    pub const fn is_attaching(&self) -> bool {
        self.datapath.is_attaching()
    }

    /// Brings the programs onto some of the interfaces that wait for them.
    pub fn attach_more(&mut self) {
        self.datapath.attach_more();
        self.failed_hooks = self.datapath.failed_hooks();
        if !self.is_attaching() {
            info!("all interfaces that exist were attached");
        }
    }

    /// The frontends that the events lead to, sorted by key.
    pub fn wanted(&self) -> Vec<(FrontendKey, Frontend)> {
        let frontends = self.renderer.frontends();
        frontends
            .map(|(key, frontend)| (key, frontend.clone()))
            .collect()
    }

    /// Follows a question about what the renderer knows.
    ///
    /// # Errors
    ///
    /// If the thread that hands answers on cannot be started.
    pub fn follow(&mut self, query: &Query) -> io::Result<Following> {
        self.followers.follow(query, &self.renderer)
    }

    /// The renderer.
    pub const fn renderer(&self) -> &Renderer {
        &self.renderer
    }

    /// The datapath.
    pub const fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// The datapath, to [reclaim](Datapath::reclaim) when there is time.
    pub const fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.datapath
    }
}

/// Notifies the renderer where health checks are answered now. Returns whether that is new.
fn note(change: &HealthCheckChange, renderer: &mut Renderer) -> bool {
    match change {
        HealthCheckChange::None => false,
        HealthCheckChange::Of(id, check) => {
            let port = check.as_ref().map(|check| check.port);
            renderer.set_health_check_port(id.clone(), port)
        }
        HealthCheckChange::All(checks) => {
            let ports = checks.iter().map(|(id, check)| (id.clone(), check.port));
            renderer.set_health_check_ports(ports.collect())
        }
    }
}

/// The addresses of the frontends that change.
fn addresses_of(changes: &Changes) -> BTreeSet<IpAddr> {
    let Changes {
        added,
        changed,
        removed,
    } = changes;
    let keys = added.iter().chain(changed).map(|(key, _)| key);
    keys.chain(removed).map(|key| key.address).collect()
}
