//! The manifests of `deploy`, as `kubectl` renders them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        batch::v1::Job,
        core::v1::{ConfigMap, Container, PodSpec, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use shunt_skip::skip;

/// All folders that are applied as they are, and how many objects they have.
const FOLDERS: [(&str, usize); 7] = [
    ("overlays/next-to-kube-proxy", 4),
    ("overlays/replace-kube-proxy", 4),
    ("overlays/replace-without-configmap", 5),
    ("cleanup", 1),
    ("controller", 6),
    ("definitions", 1),
    ("lookup-pods", 2),
];

/// The first `kubectl` with kustomize in it. That of Debian 12, 1.20, renders the same as 1.32.
const OLDEST: &str = "1.14";

/// The folder of the manifests.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// The objects that a folder stands for; `None`, with a word about it, without `kubectl`.
pub(crate) fn rendered(name: &str) -> Option<Vec<Value>> {
    rendered_at(&folder().join(name))
}

fn rendered_at(folder: &Path) -> Option<Vec<Value>> {
    let Ok(output) = Command::new("kubectl")
        .arg("kustomize")
        .arg(folder)
        .output()
    else {
        skip("needs kubectl");
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

/// Returns the version that `kubectl` reports of itself.
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
        // A schema's bounds are numbers of any kind to Kubernetes: 65535 is 65535.0.
        (Value::Number(object), Value::Number(known)) => {
            assert_eq!(object.as_f64(), known.as_f64(), "{path}");
        }
        _ => assert_eq!(object, known, "{path}"),
    }
}

#[track_caller]
fn is_known(object: &Value) {
    match object["kind"].as_str().unwrap() {
        "ConfigMap" => is_whole::<ConfigMap>(object),
        "ServiceAccount" => is_whole::<ServiceAccount>(object),
        "ClusterRole" => is_whole::<ClusterRole>(object),
        "ClusterRoleBinding" => is_whole::<ClusterRoleBinding>(object),
        "Role" => is_whole::<Role>(object),
        "RoleBinding" => is_whole::<RoleBinding>(object),
        "DaemonSet" => is_whole::<DaemonSet>(object),
        "Deployment" => is_whole::<Deployment>(object),
        "Job" => is_whole::<Job>(object),
        "CustomResourceDefinition" => is_whole::<CustomResourceDefinition>(object),
        other => panic!("an object of an unexpected kind: {other}"),
    }
}

#[test]
fn kubernetes_knows_every_field_of_every_object() {
    for (name, count) in FOLDERS {
        let Some(objects) = rendered(name) else {
            return;
        };
        assert_eq!(objects.len(), count, "{name}");
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

/// Every folder with a kustomization of its own, but for the base.
#[test]
fn no_folder_is_left_out() {
    let mut found = Vec::new();
    for within in ["", "overlays"] {
        for entry in fs::read_dir(folder().join(within)).unwrap() {
            let path = entry.unwrap().path();
            if path.join("kustomization.yaml").exists() {
                let name = path.strip_prefix(folder()).unwrap();
                found.push(name.display().to_string());
            }
        }
    }
    found.retain(|name| name != "base");
    found.sort();
    let mut known = FOLDERS.map(|(name, _)| name.to_owned());
    known.sort();
    assert_eq!(found, known);
}

#[test]
fn shunt_knows_every_flag_that_it_is_given() {
    for (name, _) in FOLDERS {
        let Some(objects) = rendered(name) else {
            return;
        };
        let Some(pod) = pod(&objects) else {
            continue;
        };
        let containers = pod.containers.into_iter();
        let containers = containers.chain(pod.init_containers.into_iter().flatten());
        let mut commands = 0;
        for container in containers {
            let Container { args, image, .. } = container;
            if image.is_some_and(|image| image.starts_with("shunt:")) {
                knows_all(name, &args.unwrap());
                commands += 1;
            }
        }
        assert!(commands > 0, "{name}");
    }
}

/// The pods that the objects have the cluster run, if any.
fn pod(objects: &[Value]) -> Option<PodSpec> {
    let runs = |object: &&Value| object["spec"]["template"].is_object();
    let workload = objects.iter().find(runs)?;
    Some(serde_json::from_value(workload["spec"]["template"]["spec"].clone()).unwrap())
}

/// The deletion of a definition deletes all objects of it: what is deleted with a workload has none.
#[test]
fn no_folder_has_a_definition_and_a_workload() {
    for (name, _) in FOLDERS {
        let Some(objects) = rendered(name) else {
            return;
        };
        let has = |wanted: &[&str]| {
            let mut kinds = objects.iter().filter_map(|object| object["kind"].as_str());
            kinds.any(|kind| wanted.contains(&kind))
        };
        let workloads = ["DaemonSet", "Deployment", "Job"];
        assert!(
            !(has(&["CustomResourceDefinition"]) && has(&workloads)),
            "{name}"
        );
    }
}

/// The overlays with an agent, and the port of its probes. Beside kube-proxy the usual one may be another agent's.
const PROBED: [(&str, i32); 3] = [
    ("overlays/next-to-kube-proxy", 10_368),
    ("overlays/replace-kube-proxy", 10_268),
    ("overlays/replace-without-configmap", 10_268),
];

/// kubelet kills an agent whose probe has no answer, so no setting of kube-proxy's may move where it is answered.
#[test]
fn kubelets_probes_have_a_listener_of_their_own() {
    for (name, port) in PROBED {
        let Some(objects) = rendered(name) else {
            return;
        };
        let containers = pod(&objects).unwrap().containers;
        let [agent] = <[Container; 1]>::try_from(containers).unwrap();
        let args = agent.args.unwrap();
        let flag = format!("--probe-bind-address=127.0.0.1:{port}");
        let count = args.iter().filter(|arg| **arg == flag).count();
        assert_eq!(count, 1, "{name}: {flag} in {args:?}");
        for (probe, path) in [
            (agent.liveness_probe, "/livez"),
            (agent.readiness_probe, "/readyz"),
        ] {
            // No command of the agent's own either: each look would start a process.
            let get = probe.unwrap().http_get.unwrap();
            assert_eq!(get.host.as_deref(), Some("127.0.0.1"), "{name}");
            assert_eq!(get.path.as_deref(), Some(path), "{name}");
            assert_eq!(get.port, IntOrString::Int(port), "{name}");
        }
        assert_eq!(agent.startup_probe, None, "{name}");
    }
}

/// A version that gets ready nowhere stays on a tenth of the nodes.
#[test]
fn a_rollout_waits_for_agents_that_are_ready() {
    for (name, _) in PROBED {
        let Some(objects) = rendered(name) else {
            return;
        };
        let set: DaemonSet = the_only(&objects, "DaemonSet");
        let spec = set.spec.unwrap();
        assert_eq!(spec.min_ready_seconds, Some(30), "{name}");
        let update = spec.update_strategy.unwrap().rolling_update.unwrap();
        let tenth = IntOrString::String("10%".to_owned());
        assert_eq!(update.max_unavailable, Some(tenth), "{name}");
        assert_eq!(update.max_surge, None, "two agents have one node's ports");
    }
}

/// The patch of docs/install.md, for nodes where another process has the port.
#[test]
fn the_port_of_the_probes_can_be_another_one() {
    let page = fs::read_to_string(folder().join("../docs/install.md")).unwrap();
    let is_it = |block: &&str| block.contains("patches:") && block.contains("--probe-bind-address");
    let block = page.split("```").find(is_it).unwrap();
    let Some(objects) = rendered_with(&block.replace("\n  ", "\n")) else {
        return;
    };
    let agent = pod(&objects).unwrap().containers.remove(0);
    let args = agent.args.unwrap();
    assert_eq!(
        args.last().unwrap(),
        "--probe-bind-address=127.0.0.1:10278",
        "of two the last one counts"
    );
    for probe in [agent.liveness_probe, agent.readiness_probe] {
        let get = probe.unwrap().http_get.unwrap();
        assert_eq!(get.port, IntOrString::Int(10_278));
    }
}

/// Of all that the agent is not allowed by itself, this is what it needs to connect sockets of others.
#[test]
fn a_component_lets_the_agent_move_sockets_of_processes() {
    let overlay = "resources: [deploy/overlays/replace-kube-proxy]\n";
    let component = "components: [deploy/components/move-sockets]\n";
    for (kustomization, is_allowed) in [
        (overlay.to_owned(), false),
        (format!("{overlay}{component}"), true),
    ] {
        let Some(objects) = rendered_with(&kustomization) else {
            return;
        };
        let mut pod = pod(&objects).unwrap();
        let agent = pod.containers.remove(0).security_context.unwrap();
        let added = agent.capabilities.unwrap().add.unwrap();
        assert_eq!(added.contains(&"SYS_PTRACE".to_owned()), is_allowed);
        assert_eq!(pod.host_pid.unwrap_or_default(), is_allowed);
    }
}

/// The job is called as in the rules, and the port is the one where the agent answers.
#[test]
fn a_pod_monitor_has_the_agents_scraped() {
    for (overlay, component, port) in [
        (
            "next-to-kube-proxy",
            "pod-monitor-next-to-kube-proxy",
            10_349,
        ),
        ("replace-kube-proxy", "pod-monitor", 10_249),
        ("replace-without-configmap", "pod-monitor", 10_249),
    ] {
        let Some(objects) = rendered_with(&format!(
            "resources: [deploy/overlays/{overlay}]\ncomponents: [deploy/components/{component}]\n"
        )) else {
            return;
        };
        let agent = pod(&objects).unwrap().containers.remove(0);
        let args = agent.args.unwrap();
        let mut metrics = args
            .iter()
            .filter_map(|arg| arg.strip_prefix("--metrics-bind-address="));
        let last = metrics.next_back();
        assert_eq!(last, Some(&*format!("0.0.0.0:{port}")), "{overlay}");
        let [named] = &agent.ports.unwrap()[..] else {
            panic!("{overlay}: one port");
        };
        assert_eq!(named.container_port, port, "{overlay}");
        let monitor: Value = the_only(&objects, "PodMonitor");
        let set: DaemonSet = the_only(&objects, "DaemonSet");
        assert_eq!(
            monitor["metadata"]["namespace"].as_str(),
            set.metadata.namespace.as_deref(),
            "a PodMonitor is for its own namespace"
        );
        let spec = &monitor["spec"];
        let endpoint = &spec["podMetricsEndpoints"][0];
        assert_eq!(endpoint["port"].as_str(), named.name.as_deref());
        let template = set.spec.unwrap().template.metadata.unwrap();
        let labels = template.labels.unwrap();
        for (name, value) in spec["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(
                value.as_str(),
                labels.get(name).map(String::as_str),
                "{name}"
            );
        }
        let job = &labels[spec["jobLabel"].as_str().unwrap()];
        let rules = fs::read_to_string(folder().join("alerts.yaml")).unwrap();
        assert!(rules.contains(&format!("up{{job=\"{job}\"}}")), "{job}");
    }
}

/// The objects of a kustomization elsewhere, which names folders of `deploy` as from the repository's root.
fn rendered_with(kustomization: &str) -> Option<Vec<Value>> {
    let place = tempfile::tempdir().unwrap();
    let deploy = folder().canonicalize().unwrap();
    // kustomize takes no absolute paths.
    let up = "../".repeat(place.path().components().count() - 1);
    let deploy = deploy.strip_prefix("/").unwrap().display();
    let kustomization = kustomization.replace("deploy/", &format!("{up}{deploy}/"));
    fs::write(place.path().join("kustomization.yaml"), kustomization).unwrap();
    rendered_at(place.path())
}

/// The profiles of container runtimes deny an unprivileged container what is below `/sys/fs/bpf`.
#[test]
fn what_pins_is_confined_by_no_profile_of_the_runtime() {
    for (name, container) in [
        ("overlays/next-to-kube-proxy", "agent"),
        ("overlays/replace-kube-proxy", "agent"),
        ("overlays/replace-without-configmap", "agent"),
        ("cleanup", "cleanup"),
    ] {
        let Some(objects) = rendered(name) else {
            return;
        };
        let pod = pod(&objects).unwrap();
        let mut containers = (pod.init_containers.into_iter().flatten()).chain(pod.containers);
        let found = containers.find(|one| one.name == container).unwrap();
        let context = found.security_context.unwrap();
        let profile = context.app_armor_profile.unwrap();
        assert_eq!(profile.type_, "Unconfined", "{name}");
        let options = context.se_linux_options.unwrap();
        let options = (options.type_.as_deref(), options.level.as_deref());
        assert_eq!(options, (Some("spc_t"), Some("s0")), "{name}");
    }
}

/// A pod starts whichever of the two there is, and the copy comes last, which counts where a key is in both.
#[test]
fn the_configuration_of_kube_proxy_is_a_copy_or_kubeadms_own() {
    let Some(objects) = rendered("overlays/replace-kube-proxy") else {
        return;
    };
    let volumes = pod(&objects).unwrap().volumes.unwrap();
    let volume = volumes.into_iter().find(|one| one.name == "kube-proxy");
    let sources = volume.unwrap().projected.unwrap().sources.unwrap();
    let found: Vec<_> = (sources.into_iter())
        .map(|source| {
            let map = source.config_map.unwrap();
            assert_eq!(
                map.items, None,
                "with paths the two would be refused as one"
            );
            (map.name, map.optional)
        })
        .collect();
    let expected = ["kube-proxy", "shunt-kube-proxy"].map(|name| (name.to_owned(), Some(true)));
    assert_eq!(found, expected);
}

/// Before Kubernetes 1.30 its validation knows no `appArmorProfile`, and an annotation sets the same.
#[test]
fn older_clusters_get_the_profile_as_an_annotation() {
    let kustomization = "resources: [deploy/overlays/replace-kube-proxy]\n\
         components: [deploy/components/before-kubernetes-1.30]\n";
    let Some(objects) = rendered_with(kustomization) else {
        return;
    };
    let workload = objects.iter().find(|object| object["kind"] == "DaemonSet");
    let template = &workload.unwrap()["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"]["container.apparmor.security.beta.kubernetes.io/agent"],
        "unconfined"
    );
    let text = template.to_string();
    assert!(
        !text.contains("appArmorProfile") && text.contains("spc_t"),
        "{text}"
    );
}

/// The controller writes to the cluster, and has no rights on its node.
#[test]
fn the_controllers_pods_are_allowed_nothing_on_their_node() {
    let Some(objects) = rendered("controller") else {
        return;
    };
    let deployment: Deployment = the_only(&objects, "Deployment");
    assert_eq!(deployment.spec.unwrap().replicas, Some(2));
    let pod = pod(&objects).unwrap();
    assert_eq!((pod.host_network, pod.volumes), (None, None));
    let [container] = <[Container; 1]>::try_from(pod.containers).unwrap();
    let rights = container.security_context.unwrap();
    assert_eq!(rights.run_as_non_root, Some(true));
    assert_eq!(rights.privileged, Some(false));
    let capabilities = rights.capabilities.unwrap();
    assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
    assert_eq!(capabilities.add, None);
}

/// Fails if the command of these arguments does not know one of their flags.
#[track_caller]
fn knows_all(name: &str, args: &[String]) {
    let help = Command::new(shunt_tests::agent_binary())
        .args([&args[0], "--help"])
        .output()
        .unwrap();
    assert!(help.status.success(), "{name}: shunt {}", args[0]);
    let help = String::from_utf8(help.stdout).unwrap();
    for arg in args.iter().filter_map(|arg| arg.strip_prefix("--")) {
        let flag = arg.split('=').next().unwrap();
        let is_there = help.lines().any(|line| {
            let words = line.trim_start().split([' ', '=', ',', '[']);
            words.into_iter().any(|word| word == format!("--{flag}"))
        });
        assert!(is_there, "{name}: --{flag}");
    }
}
