//! The specification of a container for a runtime, by the rules by which the runtimes of a kubelet
//! read its manifest (containerd, `internal/cri/server/container_create.go`).

use std::path::PathBuf;

use caps::CapSet;
use k8s_openapi::api::core::v1::{Container, PodSpec, SecurityContext, VolumeMount};
use serde_json::{Value, json};
use shunt_tests::Namespace;

/// Folder of a pod's service account.
pub(crate) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Paths that every runtime hides from containers that are not privileged.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// Paths that these may not write to.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Surroundings of a pod: its node, environment and volumes.
pub(crate) struct Place<'a> {
    pub(crate) node: &'a Namespace,
    /// The variables of each container, as `NAME=VALUE`.
    pub(crate) environment: &'a [String],
    /// Returns the path of a volume, or of [`SERVICE_ACCOUNT`], on this host.
    pub(crate) volumes: &'a dyn Fn(&str) -> Option<PathBuf>,
}

/// Returns the specification for a runtime of this container of a pod, whose arguments are these.
pub(crate) fn runtime_spec(
    pod: &PodSpec,
    container: &Container,
    args: &[String],
    place: &Place<'_>,
) -> Value {
    let SecurityContext {
        allow_privilege_escalation,
        capabilities,
        privileged,
        read_only_root_filesystem,
        run_as_user,
        ..
    } = container.security_context.clone().unwrap_or_default();
    let is_privileged = privileged == Some(true);
    let capabilities: Vec<_> = if is_privileged {
        // All that there are, as far as this process has them to give.
        let all = caps::read(None, CapSet::Bounding).unwrap();
        all.iter().map(ToString::to_string).collect()
    } else {
        let capabilities = capabilities.unwrap_or_default();
        assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
        let added = capabilities.add.unwrap_or_default();
        added.iter().map(|name| format!("CAP_{name}")).collect()
    };
    assert_eq!(pod.host_network, Some(true));
    let access = if is_privileged { "rw" } else { "ro" };
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] }),
        json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs",
            "options": ["nosuid", "noexec", "nodev", access] }),
        // By its type, as the machine may have those of version 1 as well.
        json!({ "destination": "/sys/fs/cgroup", "type": "cgroup2", "source": "cgroup2",
            "options": ["nosuid", "noexec", "nodev", access] }),
    ];
    let (volumes, root_propagation) = volume_mounts(pod, container, is_privileged, place);
    mounts.extend(volumes);
    if pod.automount_service_account_token != Some(false) {
        let account = (place.volumes)(SERVICE_ACCOUNT).unwrap();
        mounts.push(
            json!({ "destination": SERVICE_ACCOUNT, "type": "none", "source": account,
            "options": ["rbind", "ro"] }),
        );
    }
    let mut namespaces = vec![
        json!({ "type": "pid" }),
        json!({ "type": "ipc" }),
        json!({ "type": "uts" }),
        json!({ "type": "mount" }),
        // That of the node.
        json!({ "type": "network", "path": place.node.path() }),
    ];
    let (mut masked, mut read_only) = (&MASKED[..], &READ_ONLY[..]);
    if is_privileged {
        (masked, read_only) = (&[], &[]);
    } else {
        namespaces.push(json!({ "type": "cgroup" }));
    }
    // The entry point is the image's.
    let entry_point = ["/shunt"].into_iter();
    let command: Vec<_> = entry_point.chain(args.iter().map(String::as_str)).collect();
    json!({
        "ociVersion": "1.0.2",
        "root": { "path": "rootfs", "readonly": read_only_root_filesystem.unwrap_or_default() },
        "process": {
            "terminal": false,
            "user": { "uid": run_as_user.unwrap_or_default(), "gid": 0 },
            "args": command,
            "env": place.environment,
            "cwd": "/",
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
            },
            "noNewPrivileges": allow_privilege_escalation == Some(false),
        },
        "mounts": mounts,
        "linux": {
            "namespaces": namespaces,
            "rootfsPropagation": root_propagation,
            "maskedPaths": masked,
            "readonlyPaths": read_only,
        },
    })
}

/// The container's volumes as mounts, and how mounts of its root have to be known outside.
fn volume_mounts(
    pod: &PodSpec,
    container: &Container,
    is_privileged: bool,
    place: &Place<'_>,
) -> (Vec<Value>, &'static str) {
    let mut root_propagation = "rslave";
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let Some(source) = (place.volumes)(&volume(pod, mount)) else {
            continue;
        };
        let propagation = match mount.mount_propagation.as_deref() {
            Some("Bidirectional") => "rshared",
            Some("HostToContainer") => "rslave",
            _ => "rprivate",
        };
        if propagation == "rshared" {
            assert!(is_privileged, "Kubernetes refuses it");
            root_propagation = propagation;
        }
        let access = if mount.read_only == Some(true) {
            "ro"
        } else {
            "rw"
        };
        mounts.push(
            json!({ "destination": mount.mount_path, "type": "none", "source": source,
            "options": ["rbind", propagation, access] }),
        );
    }
    (mounts, root_propagation)
}

/// The name of the volume, which the pod has to have.
fn volume(pod: &PodSpec, mount: &VolumeMount) -> String {
    let mut volumes = pod.volumes.iter().flatten();
    let found = volumes.find(|volume| volume.name == mount.name);
    found
        .unwrap_or_else(|| panic!("no volume {}", mount.name))
        .name
        .clone()
}
