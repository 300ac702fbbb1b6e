//! Filters of the instances that a frontend is for (Consul's prepared queries).

use crate::instances::{
    instance::Instance,
    tests::world::{frontend, instance},
};

#[test]
fn tags_are_all_wanted_or_none_whatever_their_case() {
    for (rules, tags, expected) in [
        ("[]", &[][..], true),
        (r#"["prod"]"#, &["prod"], true),
        (r#"["prod"]"#, &["PROD", "x"], true),
        (r#"["Prod"]"#, &["prod"], true),
        (r#"["prod"]"#, &["production"], false),
        (r#"["prod", "v2"]"#, &["prod"], false),
        (r#"["prod", "v2"]"#, &["v2", "prod"], true),
        (r#"["!canary"]"#, &[], true),
        (r#"["!canary"]"#, &["prod"], true),
        (r#"["!canary"]"#, &["Canary"], false),
        (r#"["prod", "!canary"]"#, &["prod", "canary"], false),
        (r#"["ÜBER"]"#, &["über"], true),
    ] {
        let mut web = instance("10.1.1.1");
        web.tags = tags.iter().map(|tag| (*tag).into()).collect();
        let frontend = frontend(&format!("tags = {rules}"));
        assert_eq!(frontend.is_for(&web), expected, "{rules} of {tags:?}");
    }
}

#[test]
fn meta_is_compared_pair_by_pair_and_letter_by_letter() {
    for (wanted, found, expected) in [
        ("{}", &[][..], true),
        (r#"{ v = "2" }"#, &[("v", "2")], true),
        (r#"{ v = "2" }"#, &[("v", "2"), ("w", "3")], true),
        (r#"{ v = "2" }"#, &[("V", "2")], false),
        (r#"{ v = "a" }"#, &[("v", "A")], false),
        (r#"{ v = "*" }"#, &[("v", "2")], false),
        (r#"{ v = "" }"#, &[], false),
        (r#"{ v = "" }"#, &[("v", "")], true),
        (r#"{ v = "2", w = "3" }"#, &[("v", "2")], false),
    ] {
        let meta = found
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        let service = Instance {
            meta: meta.clone().collect(),
            ..instance("10.1.1.1")
        };
        let node = Instance {
            node_meta: meta.collect(),
            ..instance("10.1.1.1")
        };
        let (of_service, of_node) = (
            frontend(&format!("service_meta = {wanted}")),
            frontend(&format!("node_meta = {wanted}")),
        );
        assert_eq!(of_service.is_for(&service), expected, "{wanted}: {found:?}");
        assert_eq!(of_node.is_for(&node), expected, "{wanted}: {found:?}");
        // One is not the other.
        if !found.is_empty() && wanted != "{}" {
            assert!(!of_service.is_for(&node));
            assert!(!of_node.is_for(&service));
        }
    }
}

#[test]
fn a_frontend_leads_to_services_or_to_what_speaks_connect_for_them() {
    for (kind, native, plain, connect) in [
        ("", false, true, false),
        ("", true, true, true),
        ("connect-proxy", false, false, true),
        ("mesh-gateway", false, false, false),
        ("terminating-gateway", false, false, false),
        ("typical-of-tomorrow", true, false, false),
    ] {
        let found = Instance {
            kind: kind.into(),
            is_connect_native: native,
            ..instance("10.1.1.1")
        };
        assert_eq!(frontend("").is_for(&found), plain, "{kind}");
        assert_eq!(frontend("connect = true").is_for(&found), connect, "{kind}");
    }
}
