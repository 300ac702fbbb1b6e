//! Changes of each service by an event, read off the frontends before it and after it.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::SystemTime,
};

use shunt_model::{BackendSet, Changes, Frontend, FrontendKey, FrontendKind, ServiceId};

use crate::service_changes::{ChangeKind, Changed, ServiceChange};

/// Owner of a frontend: the service, and the name of its port.
type Port = (Arc<ServiceId>, Arc<str>);

/// Changes of a port, each once: frontends that share a set of backends have the same ones.
type Told = BTreeMap<ChangeKind, BTreeSet<String>>;

/// Returns the meaning of these changes for each service port, where `before` returns a frontend's earlier state.
pub(super) fn compare<'a>(
    changes: &Changes,
    before: impl Fn(FrontendKey) -> Option<&'a Frontend>,
    at: SystemTime,
) -> Vec<ServiceChange> {
    let Changes {
        added,
        changed,
        removed,
    } = changes;
    let mut told = BTreeMap::<Port, Told>::new();
    let mut tell = |of: &Frontend, kind, text: String| {
        let port = (
            Arc::clone(&of.backends.service),
            Arc::clone(&of.backends.port),
        );
        let told = told.entry(port).or_default();
        told.entry(kind).or_default().insert(text);
    };
    for (key, new) in added {
        tell(new, ChangeKind::FrontendsAdded, named(*key, new.kind));
    }
    for key in removed {
        if let Some(old) = before(*key) {
            tell(old, ChangeKind::FrontendsRemoved, named(*key, old.kind));
        }
    }
    let mut compared = HashSet::new();
    for (key, new) in changed {
        let Some(old) = before(*key) else {
            continue;
        };
        let has_moved =
            old.backends.service != new.backends.service || old.backends.port != new.backends.port;
        if has_moved {
            tell(old, ChangeKind::FrontendsRemoved, named(*key, old.kind));
            tell(new, ChangeKind::FrontendsAdded, named(*key, new.kind));
            continue;
        }
        // Once for all frontends that share the sets.
        if compared.insert((Arc::as_ptr(&old.backends), Arc::as_ptr(&new.backends))) {
            for (kind, text) in backends(&old.backends, &new.backends) {
                tell(new, kind, text);
            }
        }
        for text in settings(old, new) {
            tell(new, ChangeKind::Policy, text);
        }
    }
    let told = told.into_iter();
    told.map(|((service, port), told)| ServiceChange {
        at,
        service,
        port,
        changed: told
            .into_iter()
            .map(|(kind, texts)| (kind, Changed::of(texts)))
            .collect(),
    })
    .collect()
}

fn named(key: FrontendKey, kind: FrontendKind) -> String {
    format!("{key} {}", kind.name())
}

/// Compares the backends.
fn backends(old: &BackendSet, new: &BackendSet) -> Vec<(ChangeKind, String)> {
    let (before, after) = (shares(old), shares(new));
    let mut told = Vec::new();
    for (backend, share) in &after {
        let Some(old_share) = before.get(backend) else {
            told.push((ChangeKind::BackendsAdded, backend.to_string()));
            continue;
        };
        let text = || {
            let (old, new) = (share_text(old, *old_share), share_text(new, *share));
            format!("{backend} {old} → {new}")
        };
        match (*old_share, *share) {
            (old_share, share) if old_share == share => {}
            (_, 0) => told.push((ChangeKind::Drained, backend.to_string())),
            (0, _) => told.push((ChangeKind::Undrained, text())),
            _ => told.push((ChangeKind::Weights, text())),
        }
    }
    let gone = before.keys().filter(|backend| !after.contains_key(backend));
    told.extend(gone.map(|backend| (ChangeKind::BackendsRemoved, backend.to_string())));
    told
}

/// Each backend's share of new connections.
fn shares(set: &BackendSet) -> BTreeMap<SocketAddr, u32> {
    let backends = set.backends.iter().zip(set.shares());
    backends
        .map(|(backend, share)| (SocketAddr::new(backend.ip, backend.port), share))
        .collect()
}

/// A weight, or of a split what it comes to.
fn share_text(set: &BackendSet, share: u32) -> String {
    match set.split {
        None => share.to_string(),
        Some(_) => format!("{:.1} %", 100.0 * f64::from(share) / f64::from(u32::MAX)),
    }
}

/// Compares the settings by which a frontend selects.
fn settings(old: &Frontend, new: &Frontend) -> Vec<String> {
    let mut told = Vec::new();
    let mut tell = |what: &str, before: String, after: String| {
        if before != after {
            told.push(format!("{what} {before} → {after}"));
        }
    };
    let kind = new.kind.name();
    tell(
        &format!("{kind} policy"),
        old.policy.to_string(),
        new.policy.to_string(),
    );
    tell(
        "selection",
        old.backends.selection().to_string(),
        new.backends.selection().to_string(),
    );
    tell(
        "forwarding",
        old.forwarding.to_string(),
        new.forwarding.to_string(),
    );
    tell(
        "masquerade",
        old.masquerade.to_string(),
        new.masquerade.to_string(),
    );
    tell(
        "affinity",
        format!("{} s", old.backends.affinity_timeout),
        format!("{} s", new.backends.affinity_timeout),
    );
    tell(
        "source ranges",
        old.sources.len().to_string(),
        new.sources.len().to_string(),
    );
    told
}

#[cfg(test)]
mod tests {
    use shunt_model::{RenderOptions, Renderer, decode};

    use super::*;

    /// Changes of an event after others: the port, the kind and what is named, a line each.
    fn told(events: &[&str]) -> Vec<String> {
        let mut renderer = Renderer::new(RenderOptions::default());
        let mut lines = Vec::new();
        for event in events {
            let plan = renderer.plan(decode(event).unwrap()).unwrap();
            let changes = compare(
                &plan.changes,
                |key| renderer.frontend(key),
                SystemTime::UNIX_EPOCH,
            );
            lines = changes
                .iter()
                .flat_map(|change| {
                    let of = format!("{}:{}", change.service, change.port);
                    let changed = change.changed.iter();
                    changed.map(move |(kind, changed)| {
                        format!("{of} {}: {}", kind.name(), changed.named.join(", "))
                    })
                })
                .collect();
            renderer.commit(plan);
        }
        lines
    }

    const RESYNC: &str = r#"{"event":"Resync","node_ips":["192.168.16.10"],"services":[],"frontend_ifs":[],"backend_ifs":[]}"#;

    fn service(policy: &str, backends: &str) -> String {
        format!(
            r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"web"}},"cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"traffic_policy":"{policy}","ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{backends}]}}}}}}"#
        )
    }

    fn backend(last: u8, weight: u32) -> String {
        format!(r#"{{"ip":"10.1.1.{last}","port":8080,"local":true,"weight":{weight}}}"#)
    }

    fn between(before: &str, after: &str) -> Vec<String> {
        told(&[
            RESYNC,
            &service("Cluster", before),
            &service("Cluster", after),
        ])
    }

    #[test]
    fn a_service_that_appears_has_frontends_that_it_did_not_have() {
        assert_eq!(
            told(&[RESYNC, &service("Cluster", &backend(3, 1))]),
            [
                "default/web:http frontends added: 10.96.0.1:80/TCP ClusterIP, 203.0.113.7:80/TCP ExternalIP"
            ]
        );
    }

    #[test]
    fn what_becomes_of_backends_is_told_once_for_all_frontends() {
        let (one, two) = (backend(3, 1), backend(4, 1));
        let both = format!("{one},{two}");
        for (before, after, expected) in [
            (&one, &both, "backends added: 10.1.1.4:8080"),
            (&both, &one, "backends removed: 10.1.1.4:8080"),
            (&one, &backend(3, 0), "drained: 10.1.1.3:8080"),
            (&backend(3, 0), &one, "undrained: 10.1.1.3:8080 0 → 1"),
            (&one, &backend(3, 5), "weights: 10.1.1.3:8080 1 → 5"),
        ] {
            assert_eq!(
                between(before, after),
                [format!("default/web:http {expected}")]
            );
        }
        assert_eq!(between(&both, &both), [""; 0]);
    }

    #[test]
    fn a_policy_that_changes_is_told_of_the_frontends_that_it_is_about() {
        let one = backend(3, 1);
        assert_eq!(
            told(&[RESYNC, &service("Cluster", &one), &service("Local", &one)]),
            ["default/web:http policy: ExternalIP policy Cluster → Local"]
        );
    }

    #[test]
    fn a_service_that_goes_takes_its_frontends_along() {
        let delete = r#"{"event":"DeleteService","id":{"namespace":"default","name":"web"}}"#;
        assert_eq!(
            told(&[RESYNC, &service("Cluster", &backend(3, 1)), delete]),
            [
                "default/web:http frontends removed: 10.96.0.1:80/TCP ClusterIP, 203.0.113.7:80/TCP ExternalIP"
            ]
        );
    }
}
