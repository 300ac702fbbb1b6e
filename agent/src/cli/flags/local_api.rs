//! Services that are registered with the agent itself, and the API for that.

use std::{collections::BTreeSet, fs, net::IpAddr, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use shunt_catalog::{
    HttpChecks, Keeper, LocalNode, LocalOptions, LocalSource, Shown, local_monitor,
};
use shunt_http::{ServeAddress, ServeListener};
use shunt_runtime::{EventQueue, HereWatch};
use shunt_serve::LocalApiServer;
use shunt_source::EventSource as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};

use crate::{
    cli::flags::{
        federation::{FederationArgs, FederationPlace, RunningFederation},
        switch::Switch,
    },
    host::addresses::host_addresses,
};

/// File with the host's name, as gethostname(2) has it.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Services that are registered with the agent itself.
#[derive(Debug, Clone, Args)]
#[command(
    next_help_heading = "Local API",
    mut_arg("local_any_http_check", Switch::flag)
)]
pub(crate) struct LocalApiArgs {
    /// Address at which services of this host are registered, in the form of Consul's agent: IP:port of this host
    /// alone, as in 127.0.0.1:8500, or unix:PATH [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    local_api: Option<ServeAddress>,

    /// The frontends of registered services, in the form of --consul-config
    #[arg(
        long,
        value_name = "FILE",
        requires = "local_api",
        conflicts_with_all = ["events", "kubernetes", "consul"]
    )]
    local_frontends: Option<PathBuf>,

    /// A file of definitions, or a folder of *.json, as `consul services register` takes them; read again
    /// at SIGHUP
    #[arg(long, value_name = "PATH", requires = "local_api")]
    local_services: Option<PathBuf>,

    /// The file in which registrations outlive the agent
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/shunt/local.json",
        requires = "local_api"
    )]
    local_state: PathBuf,

    /// The address of services that have none of their own [default: this host's first]
    #[arg(long, value_name = "IP", requires = "local_api")]
    local_address: Option<IpAddr>,

    /// Take HTTP checks by API with any method, header and body
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = Switch::default(),
        requires = "local_api"
    )]
    local_any_http_check: Switch,

    #[command(flatten)]
    federation: FederationArgs,
}

impl LocalApiArgs {
    /// Listens, if an address is given. Nothing is read yet.
    ///
    /// # Errors
    ///
    /// The address cannot be had, or is one that others get to.
    pub(crate) async fn listen(self) -> Result<LocalPlace> {
        let Self {
            local_api,
            local_frontends,
            local_services,
            local_state,
            local_address,
            local_any_http_check,
            federation,
        } = self;
        let Some(address) = local_api else {
            return Ok(LocalPlace(None));
        };
        ensure!(
            address.is_of_this_host(),
            "--local-api: other hosts get to {address}, and could register services here: use an \
             address of this host alone, as 127.0.0.1:8500, or unix:PATH"
        );
        let shown = address.to_string();
        let listener = address.listen().await.context("--local-api")?;
        Ok(LocalPlace(Some(Open {
            listener,
            address: shown,
            federation: federation.open()?,
            frontends: local_frontends,
            options: LocalOptions {
                node: node(local_address)?,
                state: local_state,
                services: local_services,
                http_checks: if local_any_http_check.is_on() {
                    HttpChecks::Any
                } else {
                    HttpChecks::Limited
                },
            },
        })))
    }
}

/// This host, with that address or else its first one.
fn node(address: Option<IpAddr>) -> Result<LocalNode> {
    let name = fs::read_to_string(HOST_NAME).with_context(|| format!("cannot read {HOST_NAME}"))?;
    let address = match address {
        Some(address) => Some(address),
        None => first(&host_addresses().context("cannot read the addresses of this host")?),
    };
    Ok(LocalNode {
        name: name.trim().to_owned(),
        address,
    })
}

/// The first address that others may know this host by: of IPv4 if there is one.
fn first(addresses: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    let mut addresses = addresses.iter().copied();
    addresses.find(|address| match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    })
}

/// Place where services are going to be registered, if anywhere.
#[derive(Debug)]
pub(crate) struct LocalPlace(Option<Open>);

#[derive(Debug)]
struct Open {
    listener: ServeListener,
    address: String,
    federation: Option<FederationPlace>,
    frontends: Option<PathBuf>,
    options: LocalOptions,
}

impl LocalPlace {
    /// Reads what was registered, and the frontends.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is wrong.
    pub(crate) async fn keep(self) -> Result<LocalKept> {
        let Self(open) = self;
        let Some(Open {
            listener,
            address,
            federation,
            frontends,
            options,
        }) = open
        else {
            return Ok(LocalKept(None));
        };
        let state = options.state.clone();
        let keeper = Keeper::start(options).await?;
        let registrar = keeper.registrar();
        let known = federation.as_ref().map(|place| place.federation.clone());
        let source = frontends.map(|path| {
            let mut kept = state.clone().into_os_string();
            kept.push(".addresses");
            LocalSource::open(registrar.clone(), known, &path, kept.into())
        });
        Ok(LocalKept(Some(Kept {
            listener,
            address,
            state,
            federation,
            source: source.transpose().context("--local-frontends")?,
            keeper,
        })))
    }
}

/// Services that are registered, and not served yet.
#[derive(Debug)]
pub(crate) struct LocalKept(Option<Kept>);

#[derive(Debug)]
struct Kept {
    listener: ServeListener,
    address: String,
    state: PathBuf,
    federation: Option<FederationPlace>,
    source: Option<LocalSource>,
    keeper: Keeper,
}

/// The running API, with what keeps its registrations. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct LocalApi {
    _server: LocalApiServer,
    _federation: Option<RunningFederation>,
    _keeper: Keeper,
}

impl LocalKept {
    /// The source that follows what is registered, as it names itself, if there is one.
    pub(crate) fn source_name(&self) -> Option<String> {
        let source = self.0.as_ref()?.source.as_ref()?;
        Some(source.to_string())
    }

    /// Begins to serve, to send events to the renderer, and to follow SIGHUP. `here` are the addresses on this host,
    /// whenever they change.
    ///
    /// # Errors
    ///
    /// There is no room for a thread.
    pub(crate) fn serve(self, queue: &EventQueue, here: HereWatch) -> Result<Option<LocalApi>> {
        let Self(kept) = self;
        let Some(Kept {
            listener,
            address,
            state,
            federation,
            source,
            keeper,
        }) = kept
        else {
            return Ok(None);
        };
        let registrar = keeper.registrar();
        let shown = source
            .as_ref()
            .map_or_else(Shown::default, LocalSource::shown);
        let known = federation.as_ref().map(|place| place.federation.clone());
        let monitor = local_monitor(registrar, address, &state, shown, known.clone());
        queue.reports().set_local(monitor);
        let offered = source.as_ref().map(LocalSource::offered);
        let federation =
            federation.map(|place| place.start(registrar, offered.unwrap_or_default()));
        if let Some(source) = source {
            info!("{source}");
            source
                .among(here)
                .start(queue.clone())
                .context("cannot start following registered services")?;
        }
        let mut hangups = signal(SignalKind::hangup()).context("cannot take SIGHUP")?;
        let reloaded = registrar.clone();
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                match reloaded.reload().await {
                    Ok(()) => info!("the definitions were read again"),
                    Err(error) => error!("the definitions stay as they were: {error}"),
                }
            }
        });
        let server = LocalApiServer::start(listener, registrar.clone(), known);
        Ok(Some(LocalApi {
            _server: server.context("cannot serve the local API")?,
            _federation: federation.transpose()?,
            _keeper: keeper,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_first_address() {
        let addresses = |all: &[&str]| all.iter().map(|text| text.parse().unwrap()).collect();
        for (all, expected) in [
            (
                &["127.0.0.1", "fd00::1", "10.0.0.2", "192.168.0.1"][..],
                "10.0.0.2",
            ),
            (
                &["127.0.0.1", "169.254.0.1", "fe80::1", "fd00::1"],
                "fd00::1",
            ),
        ] {
            assert_eq!(first(&addresses(all)), Some(expected.parse().unwrap()));
        }
        assert_eq!(first(&addresses(&["127.0.0.1", "::1"])), None);
    }
}
