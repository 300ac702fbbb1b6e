//! A catalog of many services, and its server.

use std::{
    fmt::Write as _,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use shunt_tests::{Consul, ConsulSettings, Namespace, interrupt};
use tempfile::TempDir;

use crate::machine::frontends::Expected;

/// Number of services.
const SERVICES: u32 = 5_000;

/// Number of instances of a service, each with a check of its own.
const INSTANCES: u32 = 10;

/// Number of instances in all.
pub(super) const ALL_INSTANCES: u32 = SERVICES * INSTANCES;

/// Number of their nodes.
const NODES: u32 = 100;

/// The frontends' port.
const PORT: u16 = 80;

/// Expected content of the kernel's tables. Over few connections it takes its time until all have been read.
pub(super) const ALL: Expected = Expected {
    services: SERVICES,
    backends: INSTANCES,
    address: vip,
    port: PORT,
    limit: Duration::from_mins(5),
};

/// The address of the host, and of Consul's server.
pub(super) const HOST: &str = "192.168.16.10";

/// Consul takes so many operations at once.
const OPERATIONS: usize = 64;

/// Rights of an agent that follows the catalog.
const RULES: &str = "service_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" } \
                     agent_prefix \"\" { policy = \"read\" }";

/// Consul's ACL: on if nothing may be read without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acl {
    Off,
    On,
}

impl Acl {
    /// The name of a study.
    pub(super) fn study(self, way: Way, what: &str) -> String {
        let acl = match self {
            Self::Off => "",
            Self::On => "-acl",
        };
        format!("consul/{}{acl}-{what}", way.name())
    }
}

/// Transport of an agent's queries to Consul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A query for each service, many of them on a connection.
    Https,
    /// Hints, and few connections.
    Http,
}

impl Way {
    /// Its name in those of studies.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    /// Consul's port.
    pub(super) const fn port(self) -> u16 {
        match self {
            Self::Https => 8501,
            Self::Http => 8500,
        }
    }
}

/// A server that has all services.
pub(super) struct World {
    // The server goes first.
    consul: Consul,
    folder: TempDir,
    pub(super) namespace: Namespace,
    pub(super) acl: Acl,
    /// The agent's token, if it needs one.
    token: Option<String>,
    changes: AtomicU32,
}

/// The first instance of a service becomes another, or what it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) service: u32,
    pub(super) is_another: bool,
}

impl World {
    /// Starts a server, and registers everything.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or refuses something.
    pub(super) fn new(binary: &Path, acl: Acl) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        certificates(binary, folder.path())?;
        let namespace = Namespace::new(next_number(), "consul")?;
        namespace.configure(&format!("address add {HOST}/32 dev lo\n"))?;
        let file = |name: &str| folder.path().join(name).display().to_string();
        let mut settings = ConsulSettings::new(HOST.parse()?);
        settings.acl = acl == Acl::On;
        settings.further = json!({
            "ca_file": file("consul-agent-ca.pem"),
            "cert_file": file("dc1-server-consul-0.pem"),
            "key_file": file("dc1-server-consul-0-key.pem"),
            "ports": {
                "http": 8500, "https": 8501, "dns": -1, "grpc": -1, "serf_wan": -1,
                "server": 8600, "serf_lan": 8601,
            },
        });
        let consul = Consul::start(binary, &namespace, settings)?;
        let token = match acl {
            Acl::Off => None,
            Acl::On => Some(consul.token(&namespace, "shunt", RULES)?),
        };
        let world = Self {
            consul,
            folder,
            namespace,
            acl,
            token,
            changes: AtomicU32::new(0),
        };
        eprintln!("consul: registering {ALL_INSTANCES} instances");
        world.register_all()?;
        Ok(world)
    }

    fn register_all(&self) -> Result<()> {
        let nodes = (0..NODES).map(|number| {
            let node = json!({ "Node": node(number), "Address": HOST });
            json!({ "Node": { "Verb": "set", "Node": node } })
        });
        let instances = (0..ALL_INSTANCES).flat_map(|number| {
            let service = instance(number, 8080);
            [
                json!({ "Service": { "Verb": "set", "Node": node(number % NODES), "Service": service } }),
                json!({ "Check": { "Verb": "set", "Check": check(number, "passing", "") } }),
            ]
        });
        let all: Vec<Value> = nodes.chain(instances).collect();
        for operations in all.chunks(OPERATIONS) {
            interrupt::check()?;
            self.put("/v1/txn", &json!(operations))?;
        }
        Ok(())
    }

    /// The name of a study in this world.
    pub(super) fn study(&self, way: Way, what: &str) -> String {
        self.acl.study(way, what)
    }

    /// The agent's token, if it needs one.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The file of the frontends.
    pub(super) fn frontends(&self) -> Result<PathBuf> {
        let mut text = String::new();
        for number in 0..SERVICES {
            let (name, vip) = (name(number), vip(number));
            write!(
                text,
                "[[frontend]]\nservice = \"{name}\"\nvip = \"{vip}\"\nport = {PORT}\n\n"
            )?;
        }
        let file = self.folder.path().join("frontends.toml");
        std::fs::write(&file, text)?;
        Ok(file)
    }

    /// The authority that has signed the server's certificate.
    pub(super) fn authority(&self) -> String {
        let file = self.folder.path().join("consul-agent-ca.pem");
        file.display().to_string()
    }

    /// The next change. Each second one takes the one before back, so that all rounds are alike; they are
    /// spread over all services, since 7,919 is a prime.
    pub(super) fn next(&self) -> Change {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        Change {
            service: (number / 2).wrapping_mul(7_919) % SERVICES,
            is_another: number.is_multiple_of(2),
        }
    }

    /// Has an instance turn critical, or pass again, with this output of its check.
    ///
    /// # Errors
    ///
    /// If Consul refuses it.
    pub(super) fn turn(&self, change: Change, output: &str) -> Result<()> {
        let number = change.service * INSTANCES;
        let status = if change.is_another {
            "critical"
        } else {
            "passing"
        };
        self.register(number, "Check", &check(number, status, output))
    }

    /// Registers an instance with another port, or with its own again. Its check stays as it is.
    ///
    /// # Errors
    ///
    /// If Consul refuses it.
    pub(super) fn move_port(&self, change: Change) -> Result<()> {
        let number = change.service * INSTANCES;
        let port = 8080 + u16::from(change.is_another);
        self.register(number, "Service", &instance(number, port))
    }

    /// Deregisters an instance, or registers it again.
    ///
    /// # Errors
    ///
    /// If Consul refuses it.
    pub(super) fn vanish(&self, change: Change) -> Result<()> {
        let number = change.service * INSTANCES;
        if change.is_another {
            let body = json!({ "Node": node(number % NODES), "ServiceID": id(number) });
            return self.put("/v1/catalog/deregister", &body);
        }
        let body = json!({
            "Node": node(number % NODES), "Address": HOST, "SkipNodeUpdate": true,
            "Service": instance(number, 8080), "Check": check(number, "passing", ""),
        });
        self.put("/v1/catalog/register", &body)
    }

    /// Registers something of an instance.
    fn register(&self, instance: u32, key: &str, what: &Value) -> Result<()> {
        let body = json!({
            "Node": node(instance % NODES), "Address": HOST, "SkipNodeUpdate": true, key: what,
        });
        self.put("/v1/catalog/register", &body)
    }

    fn put(&self, path: &str, body: &Value) -> Result<()> {
        self.consul.put(&self.namespace, path, body).map(drop)
    }
}

/// An authority, and the server's certificate.
fn certificates(binary: &Path, folder: &Path) -> Result<()> {
    for arguments in [
        &["ca", "create"][..],
        &["cert", "create", "-server", "-dc", "dc1"],
    ] {
        let mut command = Command::new(binary);
        let command = command.arg("tls").args(arguments).current_dir(folder);
        let output = command.output().context("cannot start Consul")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "no certificates: {said}");
    }
    Ok(())
}

fn node(number: u32) -> String {
    format!("ip-10-0-0-{number}.eu-central-1.compute.internal")
}

fn name(service: u32) -> String {
    format!("service-{service}")
}

fn id(instance: u32) -> String {
    let (service, number) = (instance / INSTANCES, instance % INSTANCES);
    format!("service-{service}-{number}")
}

fn instance(number: u32, port: u16) -> Value {
    json!({
        "Service": name(number / INSTANCES), "ID": id(number), "Port": port,
        "Address": address(number), "Tags": ["prod", "v1"], "Meta": { "version": "1" },
    })
}

fn check(instance: u32, status: &str, output: &str) -> Value {
    let id = id(instance);
    json!({
        "Node": node(instance % NODES), "CheckID": format!("service:{id}"),
        "Name": format!("Service '{}' check", name(instance / INSTANCES)),
        "Status": status, "Output": output, "ServiceID": id,
    })
}

/// Returns the address of a service.
fn vip(service: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a60_0001 + service)
}

fn address(instance: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a80_0000 + instance)
}

/// A number that no other namespace of this suite has.
fn next_number() -> u32 {
    // The other suites begin elsewhere.
    static NUMBER: AtomicU32 = AtomicU32::new(2_000_000);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}
