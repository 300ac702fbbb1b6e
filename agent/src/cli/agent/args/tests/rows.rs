//! The flags with a value each, and where it acts.

/// A flag with its value, and behind it other flags that it needs; the setting that it changes; and the setting's text
/// with the value. `DIR` is a folder of the test, and [`SHORT`] has other words.
pub(super) struct Row(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
);

pub(super) const ROWS: &[Row] = &[
    Row("--events=/run/events", "events", "/run/events"),
    Row("--kubernetes", "cluster", "Some(KubernetesOptions"),
    Row(
        "--kubeconfig=/etc/k --kubernetes",
        "cluster",
        "kubeconfig: Some(\"/etc/k\")",
    ),
    Row(
        "--kube-apiserver=https://a --kubernetes",
        "cluster",
        "url: Some(\"https://a\")",
    ),
    Row(
        "--master=https://a --kubernetes",
        "cluster",
        "url: Some(\"https://a\")",
    ),
    Row(
        "--hostname-override=n7 --kubernetes",
        "cluster",
        "node_name: \"n7\"",
    ),
    Row(
        "--service-proxy-name=own --kubernetes",
        "cluster",
        "proxy_name: Some(\"own\")",
    ),
    Row(
        "--nodeport-addresses=10.9.0.0/16 --kubernetes",
        "cluster",
        "10.9.0.0/16",
    ),
    Row(
        "--forwarding-annotation=false --kubernetes",
        "cluster",
        "forwarding_by_annotation: false",
    ),
    Row(
        "--protect-host-ports=false --kubernetes",
        "cluster",
        "protects_host_ports: false",
    ),
    Row(
        "--remote-node-ports --kubernetes",
        "cluster",
        "remote_node_ports: true",
    ),
    Row(
        "--lookup-pods=node --kubernetes",
        "cluster",
        "lookup_pods: Node",
    ),
    Row(
        "--linkerd-cluster-domain=example --kubernetes",
        "cluster",
        "cluster_domain: \"example\"",
    ),
    Row(
        "--consul=http://192.0.2.7:8500 --consul-config=DIR/consul.toml",
        "consul",
        "192.0.2.7",
    ),
    Row(
        "--consul-config=DIR/consul.toml --consul",
        "consul",
        "ConsulSource",
    ),
    Row("--consul-node=n7 CONSUL", "consul", "\"n7\""),
    Row(
        "--consul-token-file=DIR/token CONSUL",
        "consul",
        "DIR/token",
    ),
    Row("--consul-settle=77s CONSUL", "consul", "77s"),
    Row(
        "--consul-state=DIR/kept.json CONSUL",
        "consul",
        "DIR/kept.json",
    ),
    Row("--socket=/run/x.sock", "socket", "/run/x.sock"),
    Row("--interface=veth*", "interfaces", "veth*"),
    Row(
        "--exclude-interface=docker0",
        "excluded interfaces",
        "docker0",
    ),
    Row("--node-ip=192.0.2.7", "node addresses", "192.0.2.7"),
    Row(
        "--local-backend-weight=7",
        "balancing",
        "local_backend_weight: 7",
    ),
    Row(
        "--external-selection=maglev",
        "balancing",
        "external_selection: Maglev",
    ),
    Row("--maglev-entries-per-backend=700", "balancing", "700"),
    Row("--forwarding=dsr", "balancing", "forwarding: Dsr"),
    Row("--masquerade-external", "balancing", "masquerade: true"),
    Row(
        "--max-socket-connections=2077",
        "socket limits",
        "connections: 2077",
    ),
    Row("--max-socket-streams=77", "socket limits", "streams: 77"),
    Row("--max-socket-unread=7", "socket limits", "bytes: 7340032"),
    Row(
        "--forwarding=dsr --kubernetes",
        "cluster",
        "forwarding: Dsr",
    ),
    Row(
        "--dsr-lower-mss=false",
        "dsr",
        "dsr_lower_mss: Switch(false)",
    ),
    Row("--dsr-source-range=10.77.0.0/16", "dsr", "10.77.0.0/16"),
    Row("--pod-cidr=10.77.0.0/16", "pod ranges", "10.77.0.0/16"),
    Row(
        "--detect-local-mode=BridgeInterface --pod-bridge-interface=cni0",
        "pods",
        "Bridge(\"cni0\")",
    ),
    Row(
        "--pod-bridge-interface=cni0 --detect-local-mode=BridgeInterface",
        "pods",
        "Bridge(\"cni0\")",
    ),
    Row(
        "--pod-interface-name-prefix=cali --detect-local-mode=InterfaceNamePrefix",
        "pods",
        "Prefix(\"cali\")",
    ),
    Row("--cluster-cidr=10.77.0.0/16", "pods", "10.77.0.0/16"),
    Row("--hairpin-ip=169.254.7.7", "hairpin", "169.254.7.7"),
    Row("--snat-ip=192.0.2.7", "SNAT addresses", "192.0.2.7"),
    Row(
        "--snat-ports=2000-2006",
        "SNAT ports",
        "first: 2000, count: 7",
    ),
    Row("--reject-rate=77", "reject rate", "77"),
    Row("--max-client-share=77", "client share", "Some(77)"),
    Row("--redirect", "redirect", "true"),
    Row("--xdp=generic", "XDP", "mode: Generic"),
    Row("--xdp-interface=bond0", "XDP", "bond0"),
    Row("--masquerade-all", "masquerade all", "true"),
    Row("--take-over=off", "take over", "Off"),
    Row("--guard", "guard", "guard: true"),
    Row("--answer-echo=false", "guard", "echo: false"),
    Row("--socket-lb=all", "sockets", "mode: All, required: true"),
    Row(
        "--cgroup=/sys/fs/x",
        "sockets",
        "cgroup: Some(\"/sys/fs/x\")",
    ),
    Row(
        "--iptables-localhost-nodeports=false",
        "loopback NodePorts",
        "false",
    ),
    Row(
        "--protect-node-ports",
        "sockets",
        "protect_node_ports: true",
    ),
    Row("--terminate-tcp", "sockets", "terminate_tcp: true"),
    Row("--ip-families=ipv6", "families", "ipv4: false, ipv6: true"),
    Row("--ip-families=ipv6", "HTTP", "families: [V6]"),
    Row("--packet-log=debug", "packet log", "Debug"),
    Row("--log-format=json", "log", "Json"),
    Row(
        "--log-filter=shunt_datapath=trace",
        "log",
        "shunt_datapath=trace",
    ),
    Row("--overrides=DIR/own.json", "steering", "DIR/own.json"),
    Row("--max-removal=77", "removal", "Some(77)"),
    Row("--max-frontends=77", "sizes", "frontends: 77,"),
    Row("--max-slots=77", "sizes", "slots: 77,"),
    Row("--max-backends=77", "sizes", "backends: 77,"),
    Row("--max-conntrack=77", "sizes", "conntrack: 77,"),
    Row("--max-affinity=77", "sizes", "affinity: 77,"),
    Row("--max-source-ranges=77", "sizes", "source_ranges: 77,"),
    Row("--max-fragments=77", "sizes", "fragments: 77,"),
    Row("--max-services=77", "sizes", "services: 77 "),
    Row(
        "--conntrack-tcp-timeout-established=77s",
        "timeouts",
        "tcp_established: 77,",
    ),
    Row(
        "--conntrack-tcp-timeout-close-wait=77s",
        "timeouts",
        "tcp_closing: 77,",
    ),
    Row(
        "--conntrack-tcp-timeout-closed=77s",
        "timeouts",
        "tcp_closed: 77,",
    ),
    Row(
        "--conntrack-tcp-timeout-time-wait=77s",
        "timeouts",
        "tcp_time_wait: 77,",
    ),
    Row("--conntrack-udp-timeout=77s", "timeouts", "udp: 77,"),
    Row(
        "--conntrack-udp-timeout-stream=77s",
        "timeouts",
        "udp_stream: 77,",
    ),
    Row("--conntrack-scan-interval=77s", "scan interval", "77s"),
    Row(
        "--healthz-bind-address=192.0.2.7:77",
        "HTTP",
        "health: Some(192.0.2.7:77)",
    ),
    Row(
        "--metrics-bind-address=192.0.2.7:77",
        "HTTP",
        "metrics: Some(192.0.2.7:77)",
    ),
    Row(
        "--probe-bind-address=192.0.2.7:77",
        "HTTP",
        "probes: Some(192.0.2.7:77)",
    ),
    Row("--bind-address-hard-fail", "HTTP", "hard_fail: true"),
    Row("--count-service-traffic", "service traffic", "true"),
    Row("--service-metrics=false", "HTTP", "shows_services: false"),
    Row(
        "--linkerd-api=unix:DIR/linkerd",
        "APIs",
        "LinkerdPlace(Some",
    ),
    Row(
        "--linkerd-opaque-ports=77 --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "PortRange { first: 77, last: 77 }",
    ),
    Row(
        "--linkerd-cluster-domain=example --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "cluster_domain: \"example\"",
    ),
    Row(
        "--max-linkerd-connections=77 --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "connections: 77",
    ),
    Row(
        "--max-linkerd-streams=77 --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "streams: 77",
    ),
    Row(
        "--max-linkerd-unread=7 --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "bytes: 7340032",
    ),
    Row(
        "--linkerd-trust-domain=example --linkerd-control-plane-namespace=linkerd \
         --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "trust_domain: \"example\"",
    ),
    Row(
        "--linkerd-control-plane-namespace=linkerd --linkerd-trust-domain=example \
         --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "control_plane: \"linkerd\"",
    ),
    Row(
        "--linkerd-ipv6=false --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "ipv6: false",
    ),
    Row("--ui=unix:DIR/ui", "APIs", "UiPlace(Some"),
    Row(
        "--ui-host=page.example --ui=unix:DIR/ui",
        "APIs",
        "page.example",
    ),
    Row(
        "--ui-token-file=DIR/token --ui=unix:DIR/ui",
        "APIs",
        "token: Some",
    ),
    Row(
        "--local-api=unix:DIR/api --local-state=DIR/local.json",
        "APIs",
        "unix:DIR/api",
    ),
    Row(
        "--local-frontends=DIR/consul.toml LOCAL",
        "APIs",
        "path: \"DIR/consul.toml\"",
    ),
    Row(
        "--local-services=DIR/services LOCAL",
        "APIs",
        "Some(\"DIR/services\")",
    ),
    Row("--local-address=192.0.2.7 LOCAL", "APIs", "Some(192.0.2.7)"),
    Row("--local-any-http-check LOCAL", "APIs", "http_checks: Any"),
    Row(
        "--federation-datacenter=dc2 --federation-primary=dc1 --federation-gateway=gw:8443 KEPT LOCAL",
        "APIs",
        "datacenter: \"dc2\"",
    ),
    Row(
        "--federation-primary=dc1 --federation-datacenter=dc2 --federation-gateway=gw:8443 KEPT LOCAL",
        "APIs",
        "primary: \"dc1\"",
    ),
    Row(
        "--federation-gateway=gw2:8443 DC2 KEPT LOCAL",
        "APIs",
        "\"gw2:8443\"",
    ),
    Row(
        "--federation-listen=127.0.0.1:0 --federation-datacenter=dc1 --federation-primary=dc1 KEPT LOCAL",
        "APIs",
        "TcpListener { addr: 127.0.0.1:",
    ),
    Row(
        "--federation-read-only DC2 KEPT LOCAL",
        "APIs",
        "only_reads: true",
    ),
    Row(
        "--federation-token-file=DIR/tokens --federation-state=DIR/federation.json DC2 LOCAL",
        "APIs",
        "token_file: \"DIR/tokens\"",
    ),
    Row("--pin-dir=/sys/fs/bpf/x", "pins", "/sys/fs/bpf/x"),
    Row("--no-pin", "pins", "None"),
];

/// Flags whose defaults are files of the host, and one that permits an address. Each has an end-to-end test.
pub(super) const ELSEWHERE: [&str; 3] = ["federation-state", "linkerd-api-remote", "local-state"];

/// Words that stand for flags which others need.
pub(super) const SHORT: [(&str, &str); 4] = [
    (
        "LOCAL",
        "--local-api=unix:DIR/api --local-state=DIR/local.json",
    ),
    (
        "DC2",
        "--federation-datacenter=dc2 --federation-primary=dc1 --federation-gateway=gw:8443",
    ),
    (
        "KEPT",
        "--federation-token-file=DIR/tokens --federation-state=DIR/federation.json",
    ),
    ("CONSUL", "--consul --consul-config=DIR/consul.toml"),
];
