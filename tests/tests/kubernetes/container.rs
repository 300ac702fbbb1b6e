//! The image, run by a container runtime as the manifest says: with its capabilities, its mounts, its
//! read-only root, and the API server as a pod finds it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, id},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Container, PodSpec, SecurityContext},
};
use serde_json::{Value, json};
use shunt_tests::{ApiServer, Namespace, PinDir, Sandbox, addresses, is_root, run, wait_until};

use crate::{
    manifests::{rendered, the_only},
    objects::{NODE_NAME, SERVED, node, ready, service, slice},
    world::{REQUEST, tcp},
};

/// How long a container may take to translate, on a machine with much else to do.
const SOON: Duration = Duration::from_secs(20);

/// Where a pod finds what its service account may know.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A container that runs. Dropping it ends and removes it, with its root.
struct Running {
    name: String,
    child: Child,
    folder: PathBuf,
}

impl Running {
    /// Runs the container of this configuration, with the files of the image as its root.
    fn start(image: &Path, configuration: impl FnOnce(&Path) -> Value) -> Self {
        let name = format!("shunt-test-{}", id());
        let folder = env::temp_dir().join(format!("{name}-container"));
        let root = folder.join("rootfs");
        fs::create_dir_all(&root).unwrap();
        unpack(image, &root);
        let configuration = configuration(&folder).to_string();
        fs::write(folder.join("config.json"), configuration).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = Command::new("runc")
            .args(["run", "--bundle"])
            .arg(&folder)
            .arg(&name)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            name,
            child,
            folder,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Asks it to end, as a kubelet does, and gives its exit status.
    fn stop(&mut self) -> Option<i32> {
        run("runc", &["kill", &self.name, "TERM"]).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(
            Command::new("runc")
                .args(["delete", "--force", &self.name])
                .output(),
        );
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Unpacks the only layer of the image.
fn unpack(image: &Path, root: &Path) {
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(image.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        format!("blobs/{}", digest.replace(':', "/"))
    };
    let index = read("index.json");
    let manifest = read(&blob(&index["manifests"][0]));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    let layer = image.join(blob(&layers[0])).display().to_string();
    let root = root.display().to_string();
    run("tar", &["-xzf", &layer, "-C", &root]).unwrap();
}

/// What a runtime is told of a container: what the manifest says of it, by the rules by which a
/// kubelet's runtime reads that. `hosts` says where a volume of the host is here.
fn configuration(
    pod: &PodSpec,
    container: &Container,
    args: &[String],
    environment: &[String],
    node: &Namespace,
    hosts: &dyn Fn(&str) -> Option<PathBuf>,
) -> Value {
    let security = container.security_context.clone().unwrap_or_default();
    let SecurityContext {
        allow_privilege_escalation,
        capabilities,
        privileged,
        read_only_root_filesystem,
        run_as_user,
        ..
    } = security;
    assert_eq!(privileged, Some(false));
    let capabilities = capabilities.unwrap_or_default();
    assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
    let capabilities: Vec<_> = capabilities.add.unwrap_or_default();
    let capabilities: Vec<_> = capabilities
        .iter()
        .map(|name| format!("CAP_{name}"))
        .collect();
    assert_eq!(pod.host_network, Some(true));
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] }),
        json!({ "destination": "/sys", "type": "none", "source": "/sys",
            "options": ["rbind", "nosuid", "noexec", "nodev", "ro"] }),
    ];
    for mount in container.volume_mounts.iter().flatten() {
        let volumes = pod.volumes.iter().flatten();
        let volume = volumes.clone().find(|volume| volume.name == mount.name);
        let Some(source) = hosts(&volume.unwrap().name) else {
            continue;
        };
        let access = if mount.read_only == Some(true) {
            "ro"
        } else {
            "rw"
        };
        mounts.push(
            json!({ "destination": mount.mount_path, "type": "none", "source": source,
            "options": ["rbind", "rslave", access] }),
        );
    }
    // The entry point is the image's.
    let command: Vec<_> = ["/shunt"]
        .into_iter()
        .chain(args.iter().map(String::as_str))
        .collect();
    let account = hosts(SERVICE_ACCOUNT).unwrap();
    mounts.push(
        json!({ "destination": SERVICE_ACCOUNT, "type": "none", "source": account,
        "options": ["rbind", "ro"] }),
    );
    json!({
        "ociVersion": "1.0.2",
        "root": { "path": "rootfs", "readonly": read_only_root_filesystem.unwrap_or_default() },
        "process": {
            "terminal": false,
            "user": { "uid": run_as_user.unwrap_or_default(), "gid": 0 },
            "args": command,
            "env": environment,
            "cwd": "/",
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
            },
            "noNewPrivileges": allow_privilege_escalation == Some(false),
        },
        "mounts": mounts,
        "linux": { "namespaces": [
            { "type": "pid" }, { "type": "ipc" }, { "type": "uts" }, { "type": "mount" },
            // That of the node.
            { "type": "network", "path": node.path() },
        ] },
    })
}

/// The image's layout, if there is one to test.
fn image() -> Option<PathBuf> {
    let image = env::var_os("SHUNT_IMAGE").map(PathBuf::from);
    if image.is_none() {
        eprintln!("skipped: SHUNT_IMAGE does not say where the image is");
    }
    image
}

#[test]
fn a_container_of_the_manifest_translates_and_leaves_translation_behind() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    if Command::new("runc").arg("--version").output().is_err() {
        eprintln!("skipped: needs runc");
        return;
    }
    let (Some(image), Some(objects)) = (image(), rendered("replace-kube-proxy")) else {
        return;
    };
    let set: DaemonSet = the_only(&objects, "DaemonSet");
    let pod = set.spec.unwrap().template.spec.unwrap();
    let [container] = &pod.containers[..] else {
        panic!("one container");
    };

    let mut sandbox = Sandbox::new().unwrap();
    sandbox.serve("pod-a", &[SERVED]).unwrap();
    let server = ApiServer::start(sandbox.node()).unwrap();
    server.put(node("node-1", addresses::NODE));
    server.put(service("web", "10.96.0.1"));
    server.put(slice("web", "v4", &[ready(addresses::POD_A)]));

    // Its own place on the bpf file system, and its own settings of kube-proxy.
    let pins = PinDir::new();
    let settings = env::temp_dir().join(format!("shunt-test-{}-kube-proxy", id()));
    let run_folder = env::temp_dir().join(format!("shunt-test-{}-run", id()));
    for folder in [&settings, &run_folder] {
        fs::create_dir_all(folder).unwrap();
    }
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "clusterCIDR": addresses::POD_CIDR, "mode": "nftables",
    });
    fs::write(settings.join("config.conf"), config.to_string()).unwrap();
    let pin_dir = pins.path().display();
    let mut args = container.args.clone().unwrap();
    for arg in &mut args {
        *arg = arg.replace("$(NODE_NAME)", NODE_NAME);
    }
    args.extend([
        format!("--pin-dir={pin_dir}"),
        "--max-conntrack=65536".to_owned(),
        // Not the processes of this machine.
        "--socket-lb=off".to_owned(),
    ]);
    let at = server.address();
    let environment = [
        format!("KUBERNETES_SERVICE_HOST={}", at.ip()),
        format!("KUBERNETES_SERVICE_PORT={}", at.port()),
        "NO_COLOR=1".to_owned(),
    ];
    let hosts = |name: &str| match name {
        "bpf" => Some(PathBuf::from("/sys/fs/bpf")),
        "run" => Some(run_folder.clone()),
        "kube-proxy" => Some(settings.clone()),
        SERVICE_ACCOUNT => Some(server.service_account().to_owned()),
        _ => None,
    };
    let mut running = Running::start(&image, |_| {
        configuration(&pod, container, &args, &environment, sandbox.node(), &hosts)
    });

    let web = tcp("10.96.0.1", 80);
    let client = sandbox.pod("pod-c").namespace();
    let answered = wait_until("the service answers", SOON, || {
        client
            .enter(|| web.within(Duration::from_secs(1)).ask(REQUEST))
            .ok()
    });
    if let Err(error) = answered {
        panic!("{error}:\n{}", running.log());
    }
    for path in ["healthz", "livez"] {
        let url = format!("http://127.0.0.1:10256/{path}");
        let said = sandbox.node().run_with_input("curl", &["-sf", &url], "");
        assert!(said.is_ok(), "{path}: {said:?}\n{}", running.log());
    }
    assert_eq!(running.stop(), Some(0), "{}", running.log());
    client.enter(|| web.ask(REQUEST)).unwrap();
    for folder in [settings, run_folder] {
        fs::remove_dir_all(folder).unwrap();
    }
}
