//! The image, run by a container runtime by the manifests: with their capabilities, mounts and
//! read-only root, and the API server as a pod finds it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::{
    api::{
        apps::v1::DaemonSet,
        core::v1::{ConfigMap, PodSpec},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::{Value, json};
use shunt_tests::{
    ApiServer, Cgroup, Namespace, Sandbox, addresses, has_program, has_root, http_get, wait_until,
};

use crate::{
    manifests::{rendered, the_only},
    objects::{NODE_NAME, SERVED, node, ready, service, slice},
    runtime::{HostFolder, Running, image},
    runtime_spec::{Place, SERVICE_ACCOUNT, runtime_spec},
    world::{REQUEST, SILENCE, tcp},
};

/// Time that a container may take to translate, on a machine with much else to do.
const SOON: Duration = Duration::from_secs(20);

const IP: &str = "10.96.0.1";

/// A node on which pods run by a container runtime.
struct Kubelet {
    image: PathBuf,
    /// `/sys/fs/bpf` of the host, `/run/shunt`, and kube-proxy's ConfigMap.
    bpf: HostFolder,
    run: HostFolder,
    settings: HostFolder,
    cgroup: Cgroup,
    server: ApiServer,
    sandbox: Sandbox,
}

impl Kubelet {
    /// Skips the test without root, runc or an image.
    fn new() -> Option<Self> {
        if !has_root() || !has_program("runc") {
            return None;
        }
        let image = image()?;
        let mut sandbox = Sandbox::new().unwrap();
        sandbox.serve("pod-a", &[SERVED]).unwrap();
        let server = ApiServer::start(sandbox.node()).unwrap();
        server.put(node("node-1", addresses::NODE));
        server.put(service("web", IP));
        server.put(slice("web", "v4", &[ready(addresses::POD_A)]));
        let settings = HostFolder::new("kube-proxy");
        let config = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
            "clusterCIDR": addresses::POD_CIDR, "mode": "nftables",
        });
        fs::write(settings.path().join("config.conf"), config.to_string()).unwrap();
        Some(Self {
            image,
            bpf: HostFolder::new("bpf"),
            run: HostFolder::new("run"),
            settings,
            cgroup: Cgroup::new().unwrap(),
            server,
            sandbox,
        })
    }

    /// Starts the container of this name in the pod, with further arguments.
    fn start(&self, pod: &PodSpec, name: &str, further: &[String]) -> Running {
        let init = pod.init_containers.iter().flatten();
        let container = init.chain(&pod.containers).find(|one| one.name == name);
        let container = container.unwrap_or_else(|| panic!("no container {name}"));
        let args = container.args.iter().flatten();
        let args = args.map(|arg| arg.replace("$(NODE_NAME)", NODE_NAME));
        let args: Vec<String> = args.chain(further.iter().cloned()).collect();
        let at = self.server.address();
        let environment = [
            format!("KUBERNETES_SERVICE_HOST={}", at.ip()),
            format!("KUBERNETES_SERVICE_PORT={}", at.port()),
            "NO_COLOR=1".to_owned(),
        ];
        let place = Place {
            node: self.sandbox.node(),
            environment: &environment,
            volumes: &|name| {
                Some(match name {
                    "bpf" => self.bpf.path().to_owned(),
                    "run" => self.run.path().to_owned(),
                    "kube-proxy" => self.settings.path().to_owned(),
                    SERVICE_ACCOUNT => self.server.service_account().to_owned(),
                    _ => return None,
                })
            },
        };
        Running::start(&self.image, &runtime_spec(pod, container, &args, &place))
    }

    /// Returns the flag with the cgroup whose processes the agent may translate for: not those of this machine.
    fn cgroup_flag(&self) -> String {
        let name = self.cgroup.path().file_name().unwrap();
        let path = Path::new("/run/shunt/cgroup").join(name);
        format!("--cgroup={}", path.display())
    }

    fn client(&self) -> &Namespace {
        self.sandbox.pod("pod-c").namespace()
    }

    /// Returns whether a process of the node reaches the service, which only its socket can help it to.
    fn reaches_from_the_node(&self) -> Result<Value, String> {
        let client = Path::new(env!("CARGO_BIN_EXE_client"));
        let arguments = ["tcp", &format!("{IP}:80")];
        let said = self.cgroup.run(self.sandbox.node(), client, &arguments);
        let said = said.map_err(|error| format!("{error:#}"))?;
        Ok(serde_json::from_str(&said).unwrap())
    }
}

/// The pod of a folder's only DaemonSet.
fn pod(objects: &[Value]) -> PodSpec {
    let set: DaemonSet = the_only(objects, "DaemonSet");
    set.spec.unwrap().template.spec.unwrap()
}

fn translates_until_it_is_cleaned_up(overlay: &str) {
    let (Some(objects), Some(cleanup)) = (rendered(overlay), rendered("cleanup")) else {
        return;
    };
    let Some(kubelet) = Kubelet::new() else {
        return;
    };
    let pod = pod(&objects);
    // There is no bpf file system yet, and no agent can mount one.
    let said = kubelet.start(&pod, "init", &[]).finish();
    for expected in [
        "/sys/fs/bpf/shunt is on a bpf file system",
        "the root of all cgroups is at /run/shunt/cgroup",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    // The next pod's finds all of it there.
    let said = kubelet.start(&pod, "init", &[]).finish();
    assert!(!said.contains("mounted"), "{said}");
    let further = [kubelet.cgroup_flag(), "--max-conntrack=65536".to_owned()];
    let mut agent = kubelet.start(&pod, "agent", &further);

    let web = tcp(IP, 80);
    let ask = || {
        let patient = web.within(Duration::from_secs(1));
        kubelet.client().enter(|| patient.ask(REQUEST))
    };
    let answered = wait_until("the service answers", SOON, || ask().ok());
    if let Err(error) = answered {
        panic!("{error}:\n{}", agent.log());
    }
    let answer = kubelet.reaches_from_the_node();
    assert!(answer.is_ok(), "{answer:?}\n{}", agent.log());
    let container = pod.containers.iter().find(|one| one.name == "agent");
    let container = container.unwrap();
    for probe in [&container.liveness_probe, &container.readiness_probe] {
        let get = probe.as_ref().unwrap().http_get.as_ref().unwrap();
        let (IntOrString::Int(port), Some(host)) = (&get.port, &get.host) else {
            panic!("a port by number, and a host: {get:?}");
        };
        let (at, path) = (format!("{host}:{port}"), get.path.as_deref().unwrap());
        let at = at.parse().unwrap();
        let answer = kubelet.sandbox.node().enter(|| http_get(at, path, &[]));
        let status = answer.map(|answer| answer.status);
        assert_eq!(status.ok(), Some(200), "{path}\n{}", agent.log());
    }
    let answer = kubelet
        .sandbox
        .node()
        .enter(|| http_get("127.0.0.1:10256".parse().unwrap(), "/healthz", &[]));
    assert_eq!(answer.unwrap().status, 200, "{}", agent.log());
    let log = agent.log();
    assert_eq!(agent.stop(), Some(0), "{log}");
    ask().unwrap();
    kubelet.reaches_from_the_node().unwrap();

    let said = kubelet.start(&self::pod(&cleanup), "cleanup", &[]).finish();
    assert!(said.contains("removed /sys/fs/bpf/shunt"), "{said}");
    // The kernel frees a link a little after its pin is gone.
    wait_until("translation ends", SOON, || {
        let answer = kubelet.client().enter(|| web.within(SILENCE).ask(REQUEST));
        answer.is_err().then_some(())
    })
    .unwrap();
    assert!(!kubelet.bpf.path().join("shunt").exists());
}

#[test]
fn containers_of_the_manifest_translate_until_they_are_cleaned_up() {
    translates_until_it_is_cleaned_up("overlays/replace-kube-proxy");
}

#[test]
fn containers_without_kube_proxys_settings_translate_until_they_are_cleaned_up() {
    translates_until_it_is_cleaned_up("overlays/replace-without-configmap");
}

/// That the API server is there by a service is no help to the first agent.
#[test]
fn a_pod_without_kube_proxys_settings_has_the_api_servers_address() {
    let Some(objects) = rendered("overlays/replace-without-configmap") else {
        return;
    };
    let map: ConfigMap = the_only(&objects, "ConfigMap");
    let data = map.data.unwrap();
    let names: Vec<&str> = data.keys().map(String::as_str).collect();
    let expected = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];
    assert_eq!(names, expected);
    let pod = pod(&objects);
    let sources = pod.containers[0].env_from.clone().unwrap();
    let [source] = &sources[..] else {
        panic!("one source: {sources:?}");
    };
    let source = source.config_map_ref.clone().unwrap();
    assert_eq!(Some(source.name), map.metadata.name);
    assert_ne!(source.optional, Some(true), "no agent starts without it");
}
