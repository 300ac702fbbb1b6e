//! The settings of Services for proxies, which their ServiceProfiles have.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Map, Value, json};
use shunt_model::ServiceId;

use crate::{objects::service_profile::ServiceProfile, routes::book::Book};

impl Book {
    /// Returns the settings for proxies of the service's ServiceProfiles.
    pub(super) fn settings(&self, service: &ServiceId) -> Option<Arc<str>> {
        self.proxy_settings.get(service).cloned()
    }

    /// Makes the settings of these services anew.
    pub(super) fn set_proxy_settings(&mut self, services: &BTreeSet<ServiceId>) {
        for service in services {
            match self.made(service) {
                Some(settings) => self.proxy_settings.insert(service.clone(), settings),
                None => self.proxy_settings.remove(service),
            };
        }
    }

    /// Returns the settings of the service's own profile, and beside them those for clients of other namespaces.
    fn made(&self, service: &ServiceId) -> Option<Arc<str>> {
        let own = self.service_profile(service);
        let others = self.profiles_of(service);
        let others = others.filter(|profile| profile.id.namespace != service.namespace);
        let clients: BTreeMap<&str, Value> = others
            .map(|profile| (&*profile.id.namespace, self.for_clients(profile)))
            .collect();
        if clients.is_empty() {
            return own.map(|profile| Arc::clone(&profile.settings));
        }
        let mut settings = own.map(object).unwrap_or_default();
        settings.insert("clients".to_owned(), json!(clients));
        Some(Value::Object(settings).to_string().into())
    }

    /// The settings of a profile with its split, which no packet is translated by.
    fn for_clients(&self, profile: &ServiceProfile) -> Value {
        let mut settings = object(profile);
        if profile.splits(&mut Vec::new()) {
            let overrides = profile.shares().map(|(service, port, weight)| {
                let name = self.name_of(service);
                let authority = port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
                json!({ "authority": authority, "weight": weight })
            });
            settings.insert("dstOverrides".to_owned(), overrides.collect());
        }
        Value::Object(settings)
    }
}

/// The settings of a profile, which are an object.
fn object(profile: &ServiceProfile) -> Map<String, Value> {
    serde_json::from_str(&profile.settings).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{routes::change::RouteChange, watch::step::Step};

    fn profile(namespace: &str, name: &str, spec: &Value) -> ServiceProfile {
        let metadata = json!({ "namespace": namespace, "name": name });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    fn settings(book: &Book) -> Value {
        let settings = book.settings(&ServiceId::new("a", "web"));
        settings.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn profiles_of_other_namespaces_are_for_their_clients() {
        let name = "web.a.svc.cluster.local";
        let mut book = Book::of_cluster("cluster.local");
        let mut take = |step| {
            let concerned = book.take(RouteChange::ServiceProfile(step));
            (concerned.len(), settings(&book))
        };
        let routes = |name: &str| json!([{ "name": name }]);
        let of = |routes: &Value| json!({ "name": name, "routes": routes, "retryBudget": null });

        let theirs = profile(
            "b",
            name,
            &json!({
                "routes": routes("b"),
                "dstOverrides": [
                    { "authority": "v1.b.svc.cluster.local:8080", "weight": "1" },
                    { "authority": "v2.b.svc.cluster.local", "weight": "500m" },
                    { "authority": "elsewhere", "weight": 1 },
                ],
            }),
        );
        let mut clients = json!({ "b": of(&routes("b")) });
        clients["b"]["dstOverrides"] = json!([
            { "authority": "v1.b.svc.cluster.local:8080", "weight": 1000 },
            { "authority": "v2.b.svc.cluster.local", "weight": 500 },
        ]);
        let expected = json!({ "clients": clients });
        assert_eq!(take(Step::Applied(theirs.clone())), (1, expected));

        let own = profile("a", name, &json!({ "routes": routes("a") }));
        let mut expected = of(&routes("a"));
        expected["clients"] = clients;
        assert_eq!(take(Step::Applied(own.clone())), (1, expected));
        // A profile of another domain is for another cluster, and weights of 0 are no split.
        let foreign = profile("c", "web.a.svc.example.org", &json!({}));
        let none = profile(
            "d",
            name,
            &json!({ "dstOverrides": [{ "authority": "v1.b.svc", "weight": 0 }] }),
        );
        take(Step::Applied(foreign));
        let (_, found) = take(Step::Applied(none.clone()));
        assert_eq!(found["clients"]["d"], of(&Value::Null));
        assert_eq!(found["clients"].as_object().unwrap().len(), 2);

        take(Step::Deleted(theirs));
        take(Step::Deleted(none));
        assert_eq!(settings(&book), of(&routes("a")));
        book.take(RouteChange::ServiceProfile(Step::Deleted(own)));
        assert_eq!(settings(&book), Value::Null);
    }
}
