//! The one list of kube-proxy's flags and fields: what each does here, and why. Messages, the checks of
//! the command line, and docs/kube-proxy-config.md are made of it.

/// Type of a flag's value, and so of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing, or `=true`, `=false`.
    Switch,
    /// A whole number.
    Number,
    /// A number.
    Decimal,
    /// Text, durations among it.
    Text,
    /// A list, separated by commas.
    List,
    /// `NAME=true`, separated by commas.
    Gates,
}

/// Effect of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It does what it does in kube-proxy, or what the text describes.
    Honoured(&'static str),
    /// It is accepted, and the log has the reason why it has no effect.
    Ignored(&'static str),
    /// The agent does not start, and its error has the reason.
    Refused(&'static str),
}

/// A flag of kube-proxy, the field that it stands for, and what becomes of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The flag without its dashes; empty if there is none.
    pub(crate) flag: &'static str,
    /// The field, with dots between its parts; empty if there is none.
    pub(crate) field: &'static str,
    pub(crate) takes: Takes,
    /// kube-proxy's default, as it is written in JSON. A setting with this value counts as not set, so nothing is
    /// logged about it.
    pub(crate) default: &'static str,
    pub(crate) effect: Effect,
    /// True if the agent has this flag anyway, for everyone.
    pub(crate) is_ours: bool,
}

impl Setting {
    /// Returns whether a flag of this value means the same as no flag.
    pub(crate) fn is_default(&self, value: &str) -> bool {
        self.default.trim_matches('"') == value
    }
}

const fn setting(
    flag: &'static str,
    field: &'static str,
    takes: Takes,
    default: &'static str,
    effect: Effect,
) -> Setting {
    Setting {
        flag,
        field,
        takes,
        default,
        effect,
        is_ours: false,
    }
}

const fn ours(
    flag: &'static str,
    field: &'static str,
    takes: Takes,
    default: &'static str,
    effect: Effect,
) -> Setting {
    Setting {
        is_ours: true,
        ..setting(flag, field, takes, default, effect)
    }
}

use Effect::{Honoured, Ignored, Refused};
use Takes::{Decimal, Gates, List, Number, Switch, Text};

const JSON: &str = "the API server is asked in JSON, and only watched";
const NO_RULES: &str = "no rules are written, and packets carry no mark";
const AT_ONCE: &str = "each change is applied at once and alone; health allows it 60 seconds";
const NO_IPVS: &str = "IPVS is not used";
const CONNTRACK_SIZE: &str = "of the kernel's nf_conntrack_max and its hash table, which `shunt init --config` raises and never \
     lowers; the agent's own table has --max-conntrack";
const NO_CADVISOR: &str = "nothing reads it, in kube-proxy neither";
const WINDOWS: &str = "this is Linux";
const LOG_FORM: &str =
    "the log goes to standard error, as --log-format and RUST_LOG or --log-filter set it";

/// All of them, in the order of kube-proxy's documents.
pub(crate) const SETTINGS: &[Setting] = &[
    ours(
        "hostname-override",
        "hostnameOverride",
        Text,
        "\"\"",
        Honoured("with --kubernetes"),
    ),
    ours(
        "kubeconfig",
        "clientConnection.kubeconfig",
        Text,
        "\"\"",
        Honoured("with --kubernetes"),
    ),
    ours(
        "master",
        "",
        Text,
        "\"\"",
        Honoured("with --kubernetes, as --kube-apiserver, which counts beside --config too"),
    ),
    setting(
        "kube-api-content-type",
        "clientConnection.contentType",
        Text,
        "\"application/vnd.kubernetes.protobuf\"",
        Ignored(JSON),
    ),
    setting(
        "",
        "clientConnection.acceptContentTypes",
        Text,
        "\"\"",
        Ignored(JSON),
    ),
    setting(
        "kube-api-qps",
        "clientConnection.qps",
        Decimal,
        "5.0",
        Ignored(JSON),
    ),
    setting(
        "kube-api-burst",
        "clientConnection.burst",
        Number,
        "10",
        Ignored(JSON),
    ),
    setting(
        "config-sync-period",
        "configSyncPeriod",
        Text,
        "\"15m0s\"",
        Ignored("an object that has not changed changes nothing"),
    ),
    setting(
        "bind-address",
        "bindAddress",
        Text,
        "\"0.0.0.0\"",
        Honoured(
            "with --kubernetes, this node's address of its family in place of the Node's, for NodePorts at \
             `primary` and for source ranges; an IPv6 address has health and metrics at `[::]` and `[::1]` if \
             they have no value; SNAT is by the addresses of the interfaces and of --node-ip",
        ),
    ),
    ours(
        "healthz-bind-address",
        "healthzBindAddress",
        Text,
        "\"0.0.0.0:10256\"",
        Honoured("`\"\"` switches it off as a flag, and is the default in a file"),
    ),
    ours(
        "metrics-bind-address",
        "metricsBindAddress",
        Text,
        "\"127.0.0.1:10249\"",
        Honoured("likewise; the flag counts beside --config too"),
    ),
    ours(
        "bind-address-hard-fail",
        "bindAddressHardFail",
        Switch,
        "false",
        Honoured("the agent does not start; without it, each address is tried every five seconds"),
    ),
    setting(
        "healthz-port",
        "",
        Number,
        "10256",
        Ignored("--healthz-bind-address has address and port"),
    ),
    setting(
        "metrics-port",
        "",
        Number,
        "10249",
        Ignored("--metrics-bind-address has address and port"),
    ),
    setting(
        "proxy-mode",
        "mode",
        Text,
        "\"\"",
        Ignored(
            "there is one mode, which /proxyMode calls `shunt`; where kube-proxy's modes differ, \
                 it is as nftables",
        ),
    ),
    ours(
        "detect-local-mode",
        "detectLocalMode",
        Text,
        "\"ClusterCIDR\"",
        Honoured(
            "all four; ClusterCIDR without a range takes those of --pod-cidr, or else of the Node's \
             spec.podCIDRs; ranges of one family alone are refused on a node of the other",
        ),
    ),
    ours(
        "cluster-cidr",
        "clusterCIDR",
        Text,
        "\"\"",
        Honoured("a pod in it is a client of this node where kube-proxy takes it for one"),
    ),
    ours(
        "pod-bridge-interface",
        "detectLocal.bridgeInterface",
        Text,
        "\"\"",
        Honoured("of the mode BridgeInterface"),
    ),
    ours(
        "pod-interface-name-prefix",
        "detectLocal.interfaceNamePrefix",
        Text,
        "\"\"",
        Honoured("of the mode InterfaceNamePrefix"),
    ),
    ours(
        "nodeport-addresses",
        "nodePortAddresses",
        List,
        "[]",
        Honoured("with --kubernetes; nothing is `primary`, as in nftables mode"),
    ),
    ours(
        "masquerade-all",
        "iptables.masqueradeAll",
        Switch,
        "false",
        Honoured("in a file, the section of the mode that it names counts"),
    ),
    setting(
        "",
        "nftables.masqueradeAll",
        Switch,
        "false",
        Honoured("likewise"),
    ),
    setting(
        "iptables-masquerade-bit",
        "iptables.masqueradeBit",
        Number,
        "14",
        Ignored(NO_RULES),
    ),
    setting(
        "",
        "nftables.masqueradeBit",
        Number,
        "14",
        Ignored(NO_RULES),
    ),
    ours(
        "iptables-localhost-nodeports",
        "iptables.localhostNodePorts",
        Switch,
        "true",
        Honoured(
            "with --socket-lb, for the node's own processes and in both families, where no socket of the node's is",
        ),
    ),
    setting(
        "iptables-sync-period",
        "iptables.syncPeriod",
        Text,
        "\"30s\"",
        Ignored(AT_ONCE),
    ),
    setting(
        "iptables-min-sync-period",
        "iptables.minSyncPeriod",
        Text,
        "\"1s\"",
        Ignored(AT_ONCE),
    ),
    setting("", "nftables.syncPeriod", Text, "\"30s\"", Ignored(AT_ONCE)),
    setting(
        "",
        "nftables.minSyncPeriod",
        Text,
        "\"1s\"",
        Ignored(AT_ONCE),
    ),
    setting(
        "ipvs-scheduler",
        "ipvs.scheduler",
        Text,
        "\"\"",
        Ignored("each backend gets its share of new connections at random, by weight"),
    ),
    setting(
        "ipvs-exclude-cidrs",
        "ipvs.excludeCIDRs",
        List,
        "[]",
        Ignored(NO_IPVS),
    ),
    setting(
        "ipvs-strict-arp",
        "ipvs.strictARP",
        Switch,
        "false",
        Ignored("no service's address is given to an interface, so nothing answers ARP for it"),
    ),
    setting(
        "ipvs-sync-period",
        "ipvs.syncPeriod",
        Text,
        "\"30s\"",
        Ignored(AT_ONCE),
    ),
    setting(
        "ipvs-min-sync-period",
        "ipvs.minSyncPeriod",
        Text,
        "\"1s\"",
        Ignored(AT_ONCE),
    ),
    setting(
        "ipvs-tcp-timeout",
        "ipvs.tcpTimeout",
        Text,
        "\"0s\"",
        Ignored(NO_IPVS),
    ),
    setting(
        "ipvs-tcpfin-timeout",
        "ipvs.tcpFinTimeout",
        Text,
        "\"0s\"",
        Ignored(NO_IPVS),
    ),
    setting(
        "ipvs-udp-timeout",
        "ipvs.udpTimeout",
        Text,
        "\"0s\"",
        Ignored(NO_IPVS),
    ),
    setting(
        "conntrack-max-per-core",
        "conntrack.maxPerCore",
        Number,
        "32768",
        Honoured(CONNTRACK_SIZE),
    ),
    setting(
        "conntrack-min",
        "conntrack.min",
        Number,
        "131072",
        Honoured(CONNTRACK_SIZE),
    ),
    ours(
        "conntrack-tcp-timeout-established",
        "conntrack.tcpEstablishedTimeout",
        Text,
        "\"24h0m0s\"",
        Honoured(
            "of the agent's table; in a file of the kernel's too, which `shunt init --config` sets",
        ),
    ),
    ours(
        "conntrack-tcp-timeout-close-wait",
        "conntrack.tcpCloseWaitTimeout",
        Text,
        "\"1h0m0s\"",
        Honoured("likewise"),
    ),
    ours(
        "conntrack-udp-timeout",
        "conntrack.udpTimeout",
        Text,
        "\"0s\"",
        Honoured("likewise"),
    ),
    ours(
        "conntrack-udp-timeout-stream",
        "conntrack.udpStreamTimeout",
        Text,
        "\"0s\"",
        Honoured("likewise"),
    ),
    setting(
        "conntrack-tcp-be-liberal",
        "conntrack.tcpBeLiberal",
        Switch,
        "false",
        Honoured("of the kernel's connection tracking; the agent's own has no windows"),
    ),
    setting(
        "oom-score-adj",
        "oomScoreAdj",
        Number,
        "-999",
        Honoured("kube-proxy's -999 if only a file is given; to lower it needs CAP_SYS_RESOURCE"),
    ),
    setting(
        "profiling",
        "enableProfiling",
        Switch,
        "false",
        Ignored(
            "there is no /debug/pprof of Go here; perf(1) shows the agent, bpftool the programs",
        ),
    ),
    setting(
        "feature-gates",
        "featureGates",
        Gates,
        "{}",
        Honoured(
            "AllowServiceExternalIPs=false (1.36) leaves external IPs alone; another gate has no effect, \
             and the log names it",
        ),
    ),
    setting(
        "show-hidden-metrics-for-version",
        "showHiddenMetricsForVersion",
        Text,
        "\"\"",
        Ignored("no metric is hidden"),
    ),
    setting(
        "cleanup",
        "",
        Switch,
        "false",
        Refused("`shunt cleanup` removes everything and ends"),
    ),
    setting(
        "init-only",
        "",
        Switch,
        "false",
        Refused(
            "`shunt init` mounts what the agent needs, sets what its --config asks for, and exits",
        ),
    ),
    setting(
        "write-config-to",
        "",
        Text,
        "\"\"",
        Refused("a running agent shows its configuration at /configz of --metrics-bind-address"),
    ),
    setting(
        "boot-id-file",
        "",
        Text,
        "\"/proc/sys/kernel/random/boot_id\"",
        Ignored(NO_CADVISOR),
    ),
    setting(
        "machine-id-file",
        "",
        Text,
        "\"/etc/machine-id,/var/lib/dbus/machine-id\"",
        Ignored(NO_CADVISOR),
    ),
    setting(
        "logging-format",
        "logging.format",
        Text,
        "\"text\"",
        Ignored(LOG_FORM),
    ),
    setting(
        "log-flush-frequency",
        "logging.flushFrequency",
        Text,
        "\"5s\"",
        Ignored(LOG_FORM),
    ),
    setting("", "logging.options", Text, "{}", Ignored(LOG_FORM)),
    setting(
        "v",
        "logging.verbosity",
        Number,
        "0",
        Honoured("4 and more is RUST_LOG=debug; RUST_LOG itself comes first"),
    ),
    setting("vmodule", "", Text, "\"\"", Ignored(LOG_FORM)),
    setting("", "logging.vmodule", Text, "[]", Ignored(LOG_FORM)),
    setting("", "portRange", Text, "\"\"", Ignored(NO_CADVISOR)),
    setting("", "winkernel.networkName", Text, "\"\"", Ignored(WINDOWS)),
    setting("", "winkernel.sourceVip", Text, "\"\"", Ignored(WINDOWS)),
    setting("", "winkernel.enableDSR", Switch, "false", Ignored(WINDOWS)),
    setting(
        "",
        "winkernel.rootHnsEndpointName",
        Text,
        "\"\"",
        Ignored(WINDOWS),
    ),
    setting(
        "",
        "winkernel.forwardHealthCheckVip",
        Switch,
        "false",
        Ignored(WINDOWS),
    ),
    setting("", "windowsRunAsService", Switch, "false", Ignored(WINDOWS)),
];

#[cfg(test)]
mod tests;
