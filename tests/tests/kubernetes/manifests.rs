//! The manifests of `deploy`, as `kubectl` renders them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    batch::v1::Job,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// All overlays.
const OVERLAYS: [&str; 2] = ["next-to-kube-proxy", "replace-kube-proxy"];

/// The first `kubectl` with kustomize in it. That of Debian 12, 1.20, renders the same as 1.32.
const OLDEST: &str = "1.14";

/// The folder of the manifests.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// The objects of an overlay; `None`, with a word about it, without `kubectl`.
pub(crate) fn rendered(overlay: &str) -> Option<Vec<Value>> {
    let folder = folder().join("overlays").join(overlay);
    let Ok(output) = Command::new("kubectl")
        .arg("kustomize")
        .arg(&folder)
        .output()
    else {
        eprintln!("skipped: needs kubectl");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{} needs kubectl {OLDEST} or later, and this is {}: {errors}",
        folder.display(),
        kubectl_version()
    );
    Some(objects(&String::from_utf8(output.stdout).unwrap()))
}

/// What `kubectl` says that it is.
fn kubectl_version() -> String {
    let mut command = Command::new("kubectl");
    let output = command.args(["version", "--client"]).output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said)
        .lines()
        .next()
        .unwrap_or("one that does not say")
        .to_owned()
}

/// The objects of a file.
fn objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// The one object of this kind.
#[track_caller]
pub(crate) fn the_only<T: DeserializeOwned>(objects: &[Value], kind: &str) -> T {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "two of {kind}");
    serde_json::from_value(object.clone()).unwrap()
}

/// Fails if an object of this type has a field that Kubernetes does not know: it would drop it.
#[track_caller]
fn is_whole<T: DeserializeOwned + Serialize>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    let known = serde_json::to_value(typed).unwrap();
    is_within(object, &known, "");
}

/// Fails if a value of `object` is not in `known` in the same place.
#[track_caller]
fn is_within(object: &Value, known: &Value, path: &str) {
    match (object, known) {
        (Value::Object(object), Value::Object(known)) => {
            for (name, value) in object {
                let path = format!("{path}.{name}");
                let known = known.get(name);
                let known = known.unwrap_or_else(|| panic!("Kubernetes knows no {path}"));
                is_within(value, known, &path);
            }
        }
        (Value::Array(object), Value::Array(known)) => {
            assert_eq!(object.len(), known.len(), "{path}");
            for (number, (value, known)) in object.iter().zip(known).enumerate() {
                is_within(value, known, &format!("{path}[{number}]"));
            }
        }
        _ => assert_eq!(object, known, "{path}"),
    }
}

#[track_caller]
fn is_known(object: &Value) {
    match object["kind"].as_str().unwrap() {
        "ServiceAccount" => is_whole::<ServiceAccount>(object),
        "ClusterRole" => is_whole::<ClusterRole>(object),
        "ClusterRoleBinding" => is_whole::<ClusterRoleBinding>(object),
        "DaemonSet" => is_whole::<DaemonSet>(object),
        "Job" => is_whole::<Job>(object),
        other => panic!("an object of an unexpected kind: {other}"),
    }
}

#[test]
fn kubernetes_knows_every_field_of_every_object() {
    for overlay in OVERLAYS {
        let Some(objects) = rendered(overlay) else {
            return;
        };
        assert_eq!(objects.len(), 4, "{overlay}");
        for object in &objects {
            is_known(object);
        }
    }
    let job = fs::read_to_string(folder().join("kube-proxy-cleanup/job.yaml")).unwrap();
    for object in objects(&job) {
        is_known(&object);
    }
}

#[test]
#[should_panic(expected = "Kubernetes knows no .spec.template.spec.hostNetwrok")]
fn an_unknown_field_is_found() {
    let mut object: Value = serde_json::json!({ "kind": "DaemonSet", "spec": {
        "selector": {}, "template": { "spec": { "containers": [] } },
    } });
    is_known(&object);
    object["spec"]["template"]["spec"]["hostNetwrok"] = Value::Bool(true);
    is_known(&object);
}

#[test]
fn the_agent_knows_every_flag_that_it_is_given() {
    let help = Command::new(shunt_tests::agent_binary())
        .args(["agent", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for overlay in OVERLAYS {
        let Some(objects) = rendered(overlay) else {
            return;
        };
        let set: DaemonSet = the_only(&objects, "DaemonSet");
        let pod = set.spec.unwrap().template.spec.unwrap();
        let args = pod.containers[0].args.clone().unwrap();
        for arg in args.iter().filter_map(|arg| arg.strip_prefix("--")) {
            let flag = arg.split('=').next().unwrap();
            let is_there = help.lines().any(|line| {
                let words = line.trim_start().split([' ', '=', ',']);
                words.into_iter().any(|word| word == format!("--{flag}"))
            });
            assert!(is_there, "{overlay}: --{flag}");
        }
    }
}
