//! The rules in the definition of our group's ExternalWorkloads, evaluated as an API server does, and compared
//! with the controller's verdict on the same objects.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use cel::{Context, Program};
use serde_json::{Map, Value, json};

use super::{
    external_workload::{ExternalWorkload, RawOwn},
    external_workload_schema::manifest,
};

/// The rules in a schema, each with where it stands.
fn rules(schema: &Map<String, Value>, path: &str, found: &mut BTreeSet<(String, String)>) {
    for (name, value) in schema {
        match (name.as_str(), value) {
            ("x-kubernetes-validations", Value::Array(own)) => {
                for rule in own {
                    assert!(rule["message"].is_string(), "{rule}");
                    found.insert((path.to_owned(), rule["rule"].as_str().unwrap().to_owned()));
                }
            }
            ("properties", Value::Object(properties)) => {
                for (name, value) in properties {
                    rules(value.as_object().unwrap(), &format!("{path}.{name}"), found);
                }
            }
            ("items", Value::Object(items)) => rules(items, &format!("{path}[]"), found),
            _ => {}
        }
    }
}

/// Returns the values at a path of a specification: of lists, each element.
fn values<'a>(spec: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![spec];
    for step in path.split('.').skip(1) {
        let (field, is_list) = match step.strip_suffix("[]") {
            Some(field) => (field, true),
            None => (step, false),
        };
        let inner = found.into_iter().filter_map(|one| one.get(field));
        found = if is_list {
            inner.filter_map(Value::as_array).flatten().collect()
        } else {
            inner.collect()
        };
    }
    found
}

/// Kubernetes' own function: an address without a prefix, a zone, or an IPv4 address within one of IPv6.
fn is_ip(text: &str) -> bool {
    match text.parse() {
        Ok(IpAddr::V4(_)) => true,
        Ok(IpAddr::V6(v6)) => v6.to_ipv4_mapped().is_none(),
        Err(_) => false,
    }
}

/// Returns whether a server that knows the rule takes this specification.
fn is_taken(rule: &str, path: &str, spec: &Value) -> bool {
    let program = Program::compile(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
    values(spec, path).into_iter().all(|value| {
        let mut context = Context::default();
        let value = cel::to_value(value).unwrap();
        context.add_variable_from_value("self", value);
        context
            .add_function("isIP", |text: Arc<String>| is_ip(&text))
            .unwrap();
        match program.execute(&context) {
            Ok(cel::Value::Bool(holds)) => holds,
            other => panic!("{rule}: {spec}: {other:?}"),
        }
    })
}

/// Returns the controller's verdict.
fn read(spec: &Value) -> Result<(), Box<str>> {
    let object = json!({ "metadata": {}, "spec": spec });
    let raw: RawOwn = serde_json::from_value(object).unwrap();
    ExternalWorkload::from(raw).body.map(drop)
}

#[test]
fn each_rule_of_the_definition_takes_and_refuses_what_the_controller_does() {
    let ips = |ips: &[&str]| {
        let ips: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        json!({ "workloadIPs": ips })
    };
    let ports = |ports: Value| json!({ "workloadIPs": [{ "ip": "192.0.2.1" }], "ports": ports });
    let probe =
        |probe: Value| json!({ "workloadIPs": [{ "ip": "192.0.2.1" }], "readinessProbe": probe });
    let (tcp, http) = (json!({ "port": 1 }), json!({ "port": 2 }));
    // The path, the rule, specs that are right by it, those that are not, and the controller's error for these.
    let table = [
        (
            ".workloadIPs[].ip",
            "isIP(self)",
            vec![ips(&["192.0.2.1"]), ips(&["fd00::1"])],
            vec![
                ips(&["host"]),
                ips(&["192.0.2.1/24"]),
                ips(&["192.0.2"]),
                ips(&["192.0.2.1", "fd00::1%eth0"]),
            ],
            "is no address",
        ),
        (
            ".workloadIPs",
            "self.filter(one, one.ip.contains(':')).size() <= 1",
            vec![ips(&["192.0.2.1", "fd00::1"])],
            vec![
                ips(&["fd00::1", "fd00::2"]),
                ips(&["192.0.2.1", "fd00::1", "fd00::2"]),
            ],
            "more than one address",
        ),
        (
            ".workloadIPs",
            "self.filter(one, !one.ip.contains(':')).size() <= 1",
            vec![ips(&["fd00::1", "192.0.2.1"])],
            vec![
                ips(&["192.0.2.1", "192.0.2.2"]),
                ips(&["192.0.2.1", "fd00::1", "192.0.2.2"]),
            ],
            "more than one address",
        ),
        (
            ".ports",
            "self.all(one, !has(one.name) || self.exists_one(other, has(other.name) && other.name == one.name))",
            vec![
                ports(json!([{ "port": 1 }, { "port": 2 }])),
                ports(json!([{ "port": 1, "name": "a" }, { "port": 2, "name": "b" }])),
                ports(json!([{ "port": 1, "name": "a" }, { "port": 2 }])),
            ],
            vec![
                ports(json!([{ "port": 1, "name": "a" }, { "port": 2, "name": "a" }])),
                ports(
                    json!([{ "port": 1, "name": "a" }, { "port": 2 }, { "port": 3, "name": "a" }]),
                ),
            ],
            "two ports",
        ),
        (
            ".readinessProbe",
            "has(self.tcpSocket) != has(self.httpGet)",
            vec![
                probe(json!({ "tcpSocket": tcp })),
                probe(json!({ "httpGet": http })),
            ],
            vec![
                probe(json!({})),
                probe(json!({ "tcpSocket": tcp, "httpGet": http })),
            ],
            "tcpSocket",
        ),
    ];
    let mut there = BTreeSet::new();
    rules(manifest("spec").as_object().unwrap(), "", &mut there);
    let known = table
        .iter()
        .map(|(path, rule, ..)| ((*path).to_owned(), (*rule).to_owned()));
    assert_eq!(there, known.collect::<BTreeSet<_>>());
    for (path, rule, good, bad, said) in &table {
        for spec in good {
            assert!(is_taken(rule, path, spec), "{path}: {rule}: {spec}");
            assert_eq!(read(spec), Ok(()), "{path}: {rule}: {spec}");
        }
        for spec in bad {
            assert!(!is_taken(rule, path, spec), "{path}: {rule}: {spec}");
            let error = read(spec).expect_err(&format!("{path}: {rule}: {spec}"));
            assert!(error.contains(said), "{path}: {rule}: {spec}: {error}");
        }
    }
}
