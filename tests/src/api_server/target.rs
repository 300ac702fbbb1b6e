//! The target of a request's path.

use super::kind::Kind;

/// Objects of a kind, or one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) version: String,
    /// Empty: all, or none.
    pub(super) namespace: String,
    pub(super) name: Option<String>,
    pub(super) is_status: bool,
}

impl Target {
    /// `/api/v1/...` or `/apis/GROUP/VERSION/...`, and there `PLURAL`, `PLURAL/NAME`, and the same within
    /// `namespaces/NAMESPACE`; with `/status` behind it.
    pub(super) fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (group, version, rest) = match &*parts {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, is_status) = match rest {
            [plural] => (plural, None, false),
            [plural, name] => (plural, Some(*name), false),
            [plural, name, "status"] => (plural, Some(*name), true),
            _ => return None,
        };
        Some(Self {
            kind: Kind::at(group, plural)?,
            version: (*version).to_owned(),
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
            is_status,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        let target = |kind, version: &str, namespace: &str, name: Option<&str>, is_status| {
            Some(Target {
                kind,
                version: version.to_owned(),
                namespace: namespace.to_owned(),
                name: name.map(str::to_owned),
                is_status,
            })
        };
        let gateway = "/apis/gateway.networking.k8s.io";
        for (path, expected) in [
            ("/api/v1/nodes", target(Kind::Node, "v1", "", None, false)),
            (
                "/api/v1/nodes/n",
                target(Kind::Node, "v1", "", Some("n"), false),
            ),
            (
                &format!("{gateway}/v1alpha2/tcproutes"),
                target(Kind::TcpRoute, "v1alpha2", "", None, false),
            ),
            (
                &format!("{gateway}/v1/namespaces/a/udproutes/r/status"),
                target(Kind::UdpRoute, "v1", "a", Some("r"), true),
            ),
            ("/api/v1/configmaps", None),
            ("/healthz", None),
            ("/apis/x", None),
        ] {
            assert_eq!(Target::of(path), expected, "{path}");
        }
    }
}
