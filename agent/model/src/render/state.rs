//! What the renderer knows, and how events change it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    event::{NodePortUpdate, RendererEvent, Snapshot},
    render::{
        claims::{Age, Claims},
        conflict::Conflict,
        draft::Draft,
        entry::Entry,
        error::RenderError,
        frontend::{Frontend, FrontendKey},
        nodes::NodeAddresses,
        options::RenderOptions,
        plan::Plan,
    },
    service_id::ServiceId,
};

/// Turns events into changes of frontends.
///
/// For each event: [`plan`](Self::plan) says what it changes, and [`commit`](Self::commit) makes it
/// so once the datapath has done it. Before the first Resync no other event can be planned.
///
/// Two services that claim one frontend: the older claim has it, the other waits. A claim ages
/// from the event that brought it, through every event that does not take it back.
#[derive(Debug)]
pub struct Renderer {
    pub(super) options: RenderOptions,
    pub(super) nodes: NodeAddresses,
    pub(super) services: HashMap<Arc<ServiceId>, Entry>,
    pub(super) claims: Claims,
    pub(super) last_age: Age,
    /// Counts the commits.
    pub(super) revision: u64,
    frontend_ifs: BTreeSet<String>,
    backend_ifs: BTreeSet<String>,
    synced: bool,
}

impl Renderer {
    /// A renderer that was told nothing.
    pub fn new(options: RenderOptions) -> Self {
        Self {
            options,
            nodes: NodeAddresses::default(),
            services: HashMap::new(),
            claims: Claims::default(),
            last_age: 0,
            revision: 0,
            frontend_ifs: BTreeSet::new(),
            backend_ifs: BTreeSet::new(),
            synced: false,
        }
    }

    /// What `event` would change.
    ///
    /// # Errors
    ///
    /// The event cannot be rendered, or has to wait for a Resync. It has no effect then.
    pub fn plan(&self, event: RendererEvent) -> Result<Plan, RenderError> {
        let mut draft = Draft::new(self);
        match event {
            RendererEvent::Resync(snapshot) => return self.plan_resync(snapshot),
            _ if !self.synced => return Err(RenderError::BeforeResync),
            RendererEvent::AddService(service) | RendererEvent::UpdateService(service) => {
                draft.put(Arc::new(service))?;
            }
            RendererEvent::DeleteService(id) => {
                if let Some((id, _)) = self.services.get_key_value(&id) {
                    draft.remove(id);
                }
            }
            RendererEvent::UpdateNodePortServices(NodePortUpdate { node_ips, services }) => {
                let nodes_changed = draft.set_nodes(node_ips);
                for service in services {
                    draft.put(Arc::new(service))?;
                }
                if nodes_changed {
                    for entry in self.services.values() {
                        if entry.service.has_node_ports() && !draft.concerns(&entry.service.id) {
                            draft.put(Arc::clone(&entry.service))?;
                        }
                    }
                }
            }
            RendererEvent::UpdateLocalFrontendIfs(new) => {
                let frontend_ifs = (new != self.frontend_ifs).then_some(new);
                return Ok(Plan {
                    frontend_ifs,
                    ..draft.finish()
                });
            }
            RendererEvent::UpdateLocalBackendIfs(new) => {
                let backend_ifs = (new != self.backend_ifs).then_some(new);
                return Ok(Plan {
                    backend_ifs,
                    ..draft.finish()
                });
            }
        }
        Ok(draft.finish())
    }

    fn plan_resync(&self, snapshot: Snapshot) -> Result<Plan, RenderError> {
        let Snapshot {
            node_ips,
            services,
            frontend_ifs,
            backend_ifs,
        } = snapshot;
        let mut draft = Draft::new(self);
        draft.set_nodes(node_ips);
        draft.clear();
        for service in services {
            draft.put(Arc::new(service))?;
        }
        Ok(Plan {
            frontend_ifs: (frontend_ifs != self.frontend_ifs).then_some(frontend_ifs),
            backend_ifs: (backend_ifs != self.backend_ifs).then_some(backend_ifs),
            ..draft.finish()
        })
    }

    /// Makes a plan what the renderer knows. The plan must stem from this state: nothing may have
    /// been committed since.
    pub fn commit(&mut self, plan: Plan) {
        let Plan {
            changes: _,
            snapshot,
            frontend_ifs,
            backend_ifs,
            conflicts: _,
            services,
            nodes,
            last_age,
            revision,
        } = plan;
        debug_assert_eq!(revision, self.revision, "the plan stems from another state");
        for (id, new) in services {
            if let Some(old) = self.services.remove(&id) {
                for (key, age, _) in old.claimed() {
                    self.claims.remove(key, age);
                }
            }
            if let Some(new) = new {
                for (key, age, _) in new.claimed() {
                    self.claims.insert(key, age, &id);
                }
                self.services.insert(id, new);
            }
        }
        if let Some(nodes) = nodes {
            self.nodes = nodes;
        }
        if let Some(frontend_ifs) = frontend_ifs {
            self.frontend_ifs = frontend_ifs;
        }
        if let Some(backend_ifs) = backend_ifs {
            self.backend_ifs = backend_ifs;
        }
        self.synced |= snapshot.is_some();
        self.last_age = last_age;
        self.revision += 1;
    }

    /// Every frontend, sorted by key.
    pub fn frontends(&self) -> impl Iterator<Item = (FrontendKey, &Frontend)> {
        self.claims
            .holders()
            .filter_map(|(key, id)| Some((key, self.services.get(id)?.frontend(key)?)))
    }

    /// One frontend.
    pub fn frontend(&self, key: FrontendKey) -> Option<&Frontend> {
        let (_, id) = self.claims.of(key).next()?;
        self.services.get(id)?.frontend(key)
    }

    /// Every claim that waits for an older one to go, sorted by frontend.
    pub fn conflicts(&self) -> impl Iterator<Item = Conflict> {
        self.claims.conflicts()
    }

    /// The addresses of the nodes.
    pub const fn nodes(&self) -> &NodeAddresses {
        &self.nodes
    }

    /// All interfaces where clients are.
    pub const fn frontend_ifs(&self) -> &BTreeSet<String> {
        &self.frontend_ifs
    }

    /// All interfaces where backends are.
    pub const fn backend_ifs(&self) -> &BTreeSet<String> {
        &self.backend_ifs
    }

    /// Whether a Resync was committed.
    pub const fn is_synced(&self) -> bool {
        self.synced
    }
}
