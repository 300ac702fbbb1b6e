//! The real Consul, as processes in namespaces. `cargo xtask setup` fetches and unpacks it.

use std::{
    fmt, fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    agent::log::Log,
    http::{HttpAnswer, http_send},
    namespace::Namespace,
    needs::fetched,
    process::{command_line, contain},
    wait::wait_until,
};

/// Time that it may take to have a leader, and to end.
const START: Duration = Duration::from_mins(1);
const EXIT: Duration = Duration::from_secs(10);

/// The token that may do everything, where there are rights.
const ROOT: &str = "00000000-0000-0000-0000-000000000001";

/// Finds Consul's binary: `SHUNT_CONSUL`, or else in the search path, or else where `cargo xtask test`
/// puts it. Skips the test if there is none.
pub fn consul_binary() -> Option<PathBuf> {
    fetched("consul", "SHUNT_CONSUL")
}

/// Settings of a Consul.
#[derive(Debug, Clone)]
pub struct ConsulSettings {
    /// The name of its node.
    pub node: String,
    /// The address that other servers know it by, and its node has.
    pub address: IpAddr,
    /// Its port of HTTP; the others follow.
    pub port: u16,
    /// True if nothing is allowed without a token.
    pub acl: bool,
    /// Number of servers that elect a leader.
    pub servers: u32,
    /// Further configuration, which goes over what there is.
    pub further: Value,
}

impl ConsulSettings {
    /// One server, on this address.
    pub fn new(address: IpAddr) -> Self {
        Self {
            node: "n1".to_owned(),
            address,
            port: 8500,
            acl: false,
            servers: 1,
            further: json!({}),
        }
    }
}

/// A Consul server that runs. Dropping it ends it.
pub struct Consul {
    binary: PathBuf,
    settings: ConsulSettings,
    child: Option<Child>,
    log: Log,
    folder: TempDir,
}

impl Consul {
    /// Starts a server in the namespace, without waiting for a leader.
    ///
    /// It is killed when the thread that called this ends, so call it from one that stays.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn launch(binary: &Path, namespace: &Namespace, settings: ConsulSettings) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (child, log) = spawn(binary, namespace, &settings, folder.path())?;
        Ok(Self {
            binary: binary.to_owned(),
            settings,
            child: Some(child),
            log,
            folder,
        })
    }

    /// As [`Self::launch`], and waits until it has a leader and knows its own node.
    ///
    /// # Errors
    ///
    /// When it does not come to that; the text has its log.
    pub fn start(binary: &Path, namespace: &Namespace, settings: ConsulSettings) -> Result<Self> {
        let consul = Self::launch(binary, namespace, settings)?;
        consul.wait(namespace)?;
        Ok(consul)
    }

    /// Waits until it has a leader and knows its own node.
    ///
    /// # Errors
    ///
    /// When it does not come to that; the text has its log.
    pub fn wait(&self, namespace: &Namespace) -> Result<()> {
        let path = format!("/v1/catalog/node/{}", self.settings.node);
        let ready = || {
            let answer = self.ask(namespace, "GET", &path, "").ok()?;
            (answer.status == 200 && answer.body.contains("\"Address\"")).then_some(())
        };
        wait_until("Consul knows its node", START, ready)
            .map_err(|error| anyhow!("{error}; its log:\n{}", self.log.text()))
    }

    /// Returns the address that it answers at, in its namespace.
    pub const fn at(&self) -> SocketAddr {
        SocketAddr::new(
            IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
            self.settings.port,
        )
    }

    /// The folder of what it keeps.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Asks it, with all rights.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub fn ask(
        &self,
        namespace: &Namespace,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<HttpAnswer> {
        let token = format!("X-Consul-Token: {ROOT}");
        let headers: &[&str] = if self.settings.acl { &[&token] } else { &[] };
        namespace.enter(|| http_send(self.at(), method, path, headers, body))
    }

    /// Sends it a request that it has to take. Returns its answer.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn put(&self, namespace: &Namespace, path: &str, body: &Value) -> Result<String> {
        let answer = self.ask(namespace, "PUT", path, &body.to_string())?;
        if answer.status != 200 {
            bail!("PUT {path} {body}: {} {}", answer.status, answer.body);
        }
        Ok(answer.body)
    }

    /// Makes a token with these rules. Returns its secret.
    ///
    /// # Errors
    ///
    /// When it does not take them.
    pub fn token(&self, namespace: &Namespace, name: &str, rules: &str) -> Result<String> {
        let policy = json!({ "Name": name, "Rules": rules });
        self.put(namespace, "/v1/acl/policy", &policy)?;
        let token = json!({ "Policies": [{ "Name": name }] });
        let made: Value = serde_json::from_str(&self.put(namespace, "/v1/acl/token", &token)?)?;
        let secret = made["SecretID"].as_str();
        Ok(secret.context("no SecretID")?.to_owned())
    }

    /// Changes the rules of a policy.
    ///
    /// # Errors
    ///
    /// When it does not take them.
    pub fn change_policy(&self, namespace: &Namespace, name: &str, rules: &str) -> Result<()> {
        let found = self.ask(namespace, "GET", "/v1/acl/policies", "")?;
        let policies: Vec<Value> = serde_json::from_str(&found.body)?;
        let policy = policies.iter().find(|policy| policy["Name"] == name);
        let id = policy.and_then(|policy| policy["ID"].as_str());
        let id = id.with_context(|| format!("no policy {name}"))?;
        let policy = json!({ "ID": id, "Name": name, "Rules": rules });
        self.put(namespace, &format!("/v1/acl/policy/{id}"), &policy)?;
        Ok(())
    }

    /// Kills it with SIGKILL, which it cannot prepare for. What it keeps stays.
    ///
    /// # Errors
    ///
    /// When it does not end.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)?;
        wait_until("Consul's exit", EXIT, || child.try_wait().transpose())??;
        Ok(())
    }

    /// Starts it again, with what it keeps, or, if it is to be built `anew`, with nothing. Does not wait
    /// for a leader.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn come_back(&mut self, namespace: &Namespace, anew: bool) -> Result<()> {
        self.kill()?;
        if anew {
            fs::remove_dir_all(self.folder.path().join("data"))?;
        }
        let (child, log) = spawn(&self.binary, namespace, &self.settings, self.folder.path())?;
        self.child = Some(child);
        self.log = log;
        Ok(())
    }
}

fn spawn(
    binary: &Path,
    namespace: &Namespace,
    settings: &ConsulSettings,
    folder: &Path,
) -> Result<(Child, Log)> {
    let ConsulSettings {
        node,
        address,
        port,
        acl,
        servers,
        further,
    } = settings;
    let file = folder.join("consul.json");
    let mut configuration = json!({
        "server": true,
        "bootstrap_expect": servers,
        "node_name": node,
        "data_dir": folder.join("data"),
        "bind_addr": address.to_string(),
        "client_addr": "127.0.0.1",
        "disable_update_check": true,
        "check_update_interval": "0s",
        "log_level": "warn",
        "performance": { "raft_multiplier": 1 },
        // It answers for resolvers of services then.
        "connect": { "enabled": true },
        "ports": {
            "http": port, "dns": -1, "grpc": -1, "serf_wan": -1,
            "server": port + 100, "serf_lan": port + 101,
        },
    });
    if *acl {
        configuration["acl"] = json!({
            "enabled": true,
            "default_policy": "deny",
            "tokens": { "master": ROOT, "agent": ROOT },
        });
    }
    if let (Some(known), Some(further)) = (configuration.as_object_mut(), further.as_object()) {
        known.extend(further.clone());
    }
    fs::write(&file, configuration.to_string())?;
    let mut command = Command::new(binary);
    command
        .arg("agent")
        .arg("-config-file")
        .arg(&file)
        .stdin(Stdio::null())
        // Its log goes there.
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    contain(&mut command, namespace);
    let line = command_line(&command);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let output = child.stdout.take();
    let output = output.ok_or_else(|| anyhow!("`{line}` has no pipe"))?;
    Ok((child, Log::follow(output)?))
}

impl Drop for Consul {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("{error:#}");
        }
    }
}

impl fmt::Debug for Consul {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consul")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
