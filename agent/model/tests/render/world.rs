//! A renderer beside the tables that a datapath would hold.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
};

use shunt_model::{
    Backend, BackendSet, Balancing, Changes, Clients, Forwarding, Frontend, FrontendKey, Locations,
    Masquerade, Plan, RenderError, RenderOptions, Renderer, RendererEvent, Selection, decode,
    maglev::EntriesPerBackend,
};

/// A renderer, and the frontends that its changes add up to.
pub(crate) struct World {
    pub(crate) renderer: Renderer,
    installed: BTreeMap<FrontendKey, Frontend>,
    located: BTreeMap<IpAddr, IpAddr>,
}

impl World {
    /// The node 192.168.16.10, also 2001:db8:16::10.
    pub(crate) fn new() -> Self {
        Self::with_weight(1)
    }

    /// The same node, where local backends count `weight` times.
    pub(crate) fn with_weight(weight: u32) -> Self {
        Self::with_options(RenderOptions {
            node_ips: addresses(&["192.168.16.10", "2001:db8:16::10"]),
            host_addresses: addresses(&["192.168.16.20"]),
            balancing: Balancing {
                local_backend_weight: NonZeroU32::new(weight).unwrap(),
                ..Balancing::default()
            },
        })
    }

    /// The same node, where frontends that are reached from outside select by Maglev, and local backends
    /// count twice.
    pub(crate) fn with_maglev() -> Self {
        Self::with_options(RenderOptions {
            node_ips: addresses(&["192.168.16.10"]),
            host_addresses: addresses(&[]),
            balancing: Balancing {
                local_backend_weight: NonZeroU32::new(2).unwrap(),
                external_selection: Selection::Maglev,
                maglev_entries: EntriesPerBackend::new(1000).unwrap(),
                ..Balancing::default()
            },
        })
    }

    pub(crate) fn with_options(options: RenderOptions) -> Self {
        Self {
            renderer: Renderer::new(options),
            installed: BTreeMap::new(),
            located: BTreeMap::new(),
        }
    }

    /// A world that got a Resync with these nodes and services.
    pub(crate) fn synced(node_ips: &[&str], services: &[&str]) -> Self {
        let mut world = Self::new();
        world.tell(&resync(node_ips, services));
        world
    }

    /// Plans, installs and commits the event in a line.
    pub(crate) fn tell(&mut self, line: &str) -> Outcome {
        let event = decode(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        self.apply(event)
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Plans, installs and commits an event.
    pub(crate) fn apply(&mut self, event: RendererEvent) -> Result<Outcome, RenderError> {
        let plan = self.renderer.plan(event)?;
        let outcome = Outcome::new(&plan);
        self.install(&plan);
        self.renderer.commit(plan);
        let rendered: BTreeMap<_, _> = self
            .renderer
            .frontends()
            .map(|(key, frontend)| (key, frontend.clone()))
            .collect();
        assert_eq!(
            self.installed, rendered,
            "the changes must add up to what is rendered"
        );
        self.check_indexes(&rendered);
        Ok(outcome)
    }

    /// Compares the indexes with a walk over all frontends.
    fn check_indexes(&self, rendered: &BTreeMap<FrontendKey, Frontend>) {
        let count = |is_v4| {
            let keys = rendered.keys();
            keys.filter(|key| key.address.is_ipv4() == is_v4).count()
        };
        assert_eq!(self.renderer.frontend_counts(), [count(true), count(false)]);
        let lacking = self.renderer.frontends_without_local_endpoints();
        let lacking: Vec<_> = lacking.map(|(key, _)| key).collect();
        let expected = rendered.iter();
        let expected = expected.filter(|(_, frontend)| frontend.lacks_local_endpoints());
        let expected: Vec<_> = expected.map(|(key, _)| *key).collect();
        assert_eq!(lacking, expected);
    }

    fn install(&mut self, plan: &Plan) {
        let Changes {
            added,
            changed,
            removed,
        } = &plan.changes;
        for (key, frontend) in added {
            let before = self.installed.insert(*key, frontend.clone());
            assert!(before.is_none(), "{key} was added but existed");
        }
        for (key, frontend) in changed {
            let before = self.installed.insert(*key, frontend.clone());
            assert_ne!(
                before.as_ref(),
                Some(frontend),
                "{key} was changed into what it was"
            );
            assert!(before.is_some(), "{key} was changed but did not exist");
        }
        for key in removed {
            assert!(
                self.installed.remove(key).is_some(),
                "{key} was removed but did not exist"
            );
        }
        let Locations { nodes, are_all } = &plan.locations;
        if *are_all {
            self.located.clear();
        }
        for (at, node) in nodes {
            let before = match node {
                Some(node) => self.located.insert(*at, *node),
                None => self.located.remove(at),
            };
            assert!(*are_all || before != *node, "{at} was where it is");
        }
        if let Some(snapshot) = &plan.snapshot {
            let installed: Vec<_> = self
                .installed
                .iter()
                .map(|(key, frontend)| (*key, frontend.clone()))
                .collect();
            assert_eq!(
                *snapshot, installed,
                "the snapshot of a Resync is all there is"
            );
        }
    }

    /// Returns the nodes of addresses: `10.1.2.3 at 192.168.16.20`.
    pub(crate) fn located(&self) -> Vec<String> {
        let located = self.located.iter();
        located
            .map(|(at, node)| format!("{at} at {node}"))
            .collect()
    }

    /// All frontends, one text each.
    pub(crate) fn frontends(&self) -> Vec<String> {
        self.renderer
            .frontends()
            .map(|(key, frontend)| show(key, frontend))
            .collect()
    }

    /// Returns the service that has the frontend with that address, port and protocol.
    pub(crate) fn holder(&self, key: &str) -> String {
        let found = self
            .renderer
            .frontends()
            .find(|(found, _)| found.to_string() == key);
        found.map_or_else(
            || "nobody".to_owned(),
            |(_, frontend)| frontend.backends.service.to_string(),
        )
    }

    /// All conflicts, one text each.
    pub(crate) fn conflicts(&self) -> Vec<String> {
        self.renderer
            .conflicts()
            .map(|conflict| conflict.to_string())
            .collect()
    }

    /// Asserts the full set of frontends.
    #[track_caller]
    pub(crate) fn expect(&self, frontends: &[&str]) {
        assert_eq!(self.frontends(), frontends);
    }
}

/// The effect of an event, in numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) added: usize,
    pub(crate) changed: usize,
    pub(crate) removed: usize,
    pub(crate) conflicts: Vec<String>,
}

impl Outcome {
    fn new(plan: &Plan) -> Self {
        let Changes {
            added,
            changed,
            removed,
        } = &plan.changes;
        Self {
            added: added.len(),
            changed: changed.len(),
            removed: removed.len(),
            conflicts: plan.conflicts.iter().map(ToString::to_string).collect(),
        }
    }

    /// (added, changed, removed)
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.added, self.changed, self.removed)
    }
}

/// `10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1`
fn show(key: FrontendKey, frontend: &Frontend) -> String {
    let Frontend {
        kind,
        policy,
        clients,
        forwarding,
        masquerade,
        refusal: _,
        backends,
        this_node,
        with_draining,
        sources,
    } = frontend;
    let clients = match clients {
        Clients::Everyone => "",
        Clients::ThisNode => " this-node",
    };
    let affinity = if backends.affinity_timeout == 0 {
        String::new()
    } else {
        format!(" affinity={}", backends.affinity_timeout)
    };
    let maglev = backends
        .maglev
        .map_or_else(String::new, |size| format!(" maglev={size}"));
    let forwarding = match forwarding {
        Forwarding::Snat => "",
        Forwarding::Dsr => " dsr",
    };
    let masquerade = match masquerade {
        Masquerade::Off => "",
        Masquerade::On => " masqueraded",
        Masquerade::NotInDsr => " not masqueraded",
    };
    let mut from = String::new();
    for range in sources.iter() {
        from += &format!(" from {range}");
    }
    let here = this_node.as_ref().map_or_else(String::new, |here| {
        format!("; here {}", list(&here.backends))
    });
    let draining = with_draining.as_ref().map_or_else(String::new, |all| {
        format!("; draining {}", list(&all.backends))
    });
    format!(
        "{key} {} {policy}{clients}{affinity}{maglev}{forwarding}{masquerade}{from} {}: {}{here}{draining}",
        kind.name(),
        backends.service,
        list(backends),
    )
}

/// Shares of a split are in percent.
fn list(set: &BackendSet) -> String {
    let share = |share: u32| match set.split {
        None => format!("*{share}"),
        Some(_) => format!("*{:.3}%", f64::from(share) * 100.0 / f64::from(u32::MAX)),
    };
    let backends = set.backends.iter().zip(set.shares());
    let mut list: Vec<String> = backends
        .map(|(backend, weight)| {
            let &Backend {
                ip,
                port,
                weight: _,
                local,
                scopes: _,
            } = backend;
            let local = if local { " local" } else { "" };
            format!("{}{}{local}", SocketAddr::new(ip, port), share(weight))
        })
        .collect();
    if set.refused() > 0 {
        list.push(format!("refused{}", share(set.refused())));
    }
    if list.is_empty() {
        "none".to_owned()
    } else {
        list.join(", ")
    }
}

pub(crate) fn addresses<T: FromIterator<IpAddr>>(list: &[&str]) -> T {
    list.iter()
        .map(|address| address.parse::<IpAddr>().unwrap())
        .collect()
}

fn quoted(list: &[&str]) -> String {
    list.iter()
        .map(|text| format!("\"{text}\""))
        .collect::<Vec<_>>()
        .join(",")
}

pub(crate) fn resync(node_ips: &[&str], services: &[&str]) -> String {
    format!(
        r#"{{"event":"Resync","node_ips":[{}],"services":[{}],"frontend_ifs":[],"backend_ifs":[]}}"#,
        quoted(node_ips),
        services.join(",")
    )
}

pub(crate) fn add(service: &str) -> String {
    format!(r#"{{"event":"AddService","service":{service}}}"#)
}

pub(crate) fn update(service: &str) -> String {
    format!(r#"{{"event":"UpdateService","service":{service}}}"#)
}

pub(crate) fn delete(name: &str) -> String {
    format!(r#"{{"event":"DeleteService","id":{{"namespace":"default","name":"{name}"}}}}"#)
}

pub(crate) fn nodes(node_ips: &[&str], services: &[&str]) -> String {
    format!(
        r#"{{"event":"UpdateNodePortServices","node_ips":[{}],"services":[{}]}}"#,
        quoted(node_ips),
        services.join(",")
    )
}

/// The service `default/{name}` with these fields besides its identity.
pub(crate) fn service(name: &str, fields: &str) -> String {
    format!(r#"{{"id":{{"namespace":"default","name":"{name}"}},{fields}}}"#)
}
