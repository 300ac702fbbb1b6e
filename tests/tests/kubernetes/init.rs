//! `shunt init` sets for the agent what that may not set itself.

use std::{env, fs, process::id};

use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::json;
use shunt_tests::{PinDir, Sandbox, agent_binary, has_root};

use crate::manifests::{rendered, the_only};

/// A setting of the kernel's connection tracking.
fn setting(sandbox: &Sandbox, name: &str) -> String {
    let file = format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
    let value = sandbox.node().enter(|| fs::read_to_string(&file).unwrap());
    value.trim().to_owned()
}

#[test]
fn the_kernel_is_set_as_the_configuration_asks_for() {
    if !has_root() {
        return;
    }
    let sandbox = Sandbox::new().unwrap();
    let pins = PinDir::new();
    let pin_dir = pins.path().to_str().unwrap();
    let init = |arguments: &[&str]| {
        let arguments = [&["init", "--pin-dir", pin_dir], arguments].concat();
        sandbox
            .node()
            .run_with_input(agent_binary().to_str().unwrap(), &arguments, "")
    };
    let names = [
        "tcp_timeout_established",
        "tcp_timeout_close_wait",
        "udp_timeout",
        "tcp_be_liberal",
    ];
    let settings = || names.map(|name| setting(&sandbox, name));
    let [_, _, udp, _] = settings();
    init(&[]).unwrap();
    assert_ne!(settings()[1], "7200", "without a file nothing is set");
    let config = env::temp_dir().join(format!("shunt-test-{}-init", id()));
    let text = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "conntrack": { "tcpCloseWaitTimeout": "2h", "tcpBeLiberal": true },
    });
    fs::write(&config, text.to_string()).unwrap();
    init(&["--config", config.to_str().unwrap()]).unwrap();
    // What is not set is as kube-proxy has it, or as it was.
    assert_eq!(settings(), ["86400", "7200", &*udp, "1"]);
    fs::write(&config, "{}").unwrap();
    let wrong = init(&["--config", config.to_str().unwrap()]);
    fs::remove_file(&config).unwrap();
    assert!(wrong.is_err(), "what the agent refuses is refused here");
}

#[test]
fn the_manifest_has_it_set_what_the_agent_is_told() {
    let Some(objects) = rendered("overlays/replace-kube-proxy") else {
        return;
    };
    let set: DaemonSet = the_only(&objects, "DaemonSet");
    let pod = set.spec.unwrap().template.spec.unwrap();
    let (init, agent) = (&pod.init_containers.unwrap()[0], &pod.containers[0]);
    let config = |args: &Option<Vec<String>>| {
        let mut args = args.iter().flatten();
        args.find(|arg| arg.starts_with("--config=")).cloned()
    };
    assert_eq!(init.args.as_ref().unwrap()[0], "init");
    assert!(config(&agent.args).is_some());
    assert_eq!(config(&init.args), config(&agent.args));
    for container in [init, agent] {
        let mut mounts = container.volume_mounts.iter().flatten();
        assert!(mounts.any(|mount| mount.name == "kube-proxy"));
    }
    let security = init.security_context.as_ref().unwrap();
    assert_eq!(security.privileged, Some(true));
}
