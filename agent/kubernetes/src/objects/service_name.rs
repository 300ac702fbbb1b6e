//! A Service by the name under which clients ask the cluster's DNS for it.

use shunt_model::ServiceId;

/// The Service that `text` names: by `name` alone, in this namespace, or by `name.namespace`, whatever
/// follows.
pub(super) fn named(text: &str, namespace: &str) -> Option<ServiceId> {
    let (name, rest) = text.split_once('.').unwrap_or((text, namespace));
    let (namespace, _) = rest.split_once('.').unwrap_or((rest, ""));
    (!name.is_empty() && !namespace.is_empty()).then(|| ServiceId::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_by_its_name_or_as_clients_do() {
        for (text, expected) in [
            ("web", Some("a/web")),
            ("web.a", Some("a/web")),
            ("web.a.svc.cluster.local", Some("a/web")),
            ("web.b", Some("b/web")),
            ("web.example.org", Some("example/web")),
            ("", None),
            (".a", None),
            ("web.", None),
        ] {
            let found = named(text, "a").map(|id| id.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
