//! The source of services on hosts with Consul.

use std::{env, fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use clap::Args;
use shunt_catalog::{ConsulAddress, ConsulOptions, ConsulSource};
use shunt_print::duration::Seconds;
use shunt_runtime::{EventQueue, HereWatch};
use shunt_source::EventSource as _;

/// Settings of Consul as a source, and of its frontends.
#[derive(Debug, Clone, Args)]
#[expect(
    clippy::option_option,
    reason = "so clap has a flag that need not have a value"
)]
pub(crate) struct ConsulArgs {
    /// Translate services of a Consul catalog, as the agent at URL reports them: http://HOST:PORT, https://HOST:PORT or
    /// unix:///PATH [default without URL: CONSUL_HTTP_ADDR, or else http://127.0.0.1:8500]
    #[arg(
        long,
        value_name = "URL",
        num_args = 0..=1,
        requires = "consul_config",
        conflicts_with_all = ["events", "kubernetes"]
    )]
    consul: Option<Option<ConsulAddress>>,

    /// File in TOML that gives services of Consul their frontends
    #[arg(long, value_name = "FILE", requires = "consul")]
    consul_config: Option<PathBuf>,

    /// The name of this host's node in Consul [default: that of the Consul agent]
    #[arg(long, value_name = "NAME", requires = "consul")]
    consul_node: Option<String>,

    /// A file with the token for Consul, in place of CONSUL_HTTP_TOKEN and CONSUL_HTTP_TOKEN_FILE; read
    /// again when it changes
    #[arg(long, value_name = "FILE", requires = "consul")]
    consul_token_file: Option<PathBuf>,

    /// Time that removals of backends wait after the Consul agent was out of reach: its checks may not have run yet.
    /// Additions do not wait; with 0s removals do not either
    #[arg(long, value_name = "TIME", default_value_t = Seconds(10), requires = "consul")]
    consul_settle: Seconds,

    /// The file in which addresses by vip_from_tag outlive the agent
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/shunt/consul.json",
        requires = "consul"
    )]
    consul_state: PathBuf,
}

/// The source, opened and not started, if there is to be one.
#[derive(Debug)]
pub(crate) struct Consul(Option<ConsulSource>);

impl ConsulArgs {
    /// Reads the source's settings, and sends no request to Consul yet. `here` are the addresses on this host, whenever
    /// they change.
    ///
    /// # Errors
    ///
    /// The configuration, the environment or a file is not as it should be.
    pub(crate) fn open(self, here: HereWatch) -> Result<Consul> {
        let Self {
            consul,
            consul_config,
            consul_node,
            consul_token_file,
            consul_settle,
            consul_state,
        } = self;
        let (Some(address), Some(config)) = (consul, consul_config) else {
            return Ok(Consul(None));
        };
        let file = config.display().to_string();
        let text = fs::read_to_string(&config)
            .with_context(|| format!("--consul-config: cannot read {file}"))?;
        let environment = |name: &str| env::var(name).ok();
        let options = ConsulOptions::new(address, &environment, &file, &text)?;
        let options = options
            .on(consul_node)
            .with_token_file(consul_token_file)
            .settling(Duration::from_secs(consul_settle.0.into()))
            .kept_in(consul_state);
        let source = ConsulSource::new(options, here).context("--consul")?;
        Ok(Consul(Some(source)))
    }
}

impl Consul {
    /// The source, as it names itself, if there is one.
    pub(crate) fn name(&self) -> Option<String> {
        self.0.as_ref().map(ToString::to_string)
    }

    /// Starts the source. Returns its name.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(crate) fn start(self, queue: &EventQueue) -> Result<Option<String>> {
        let Self(Some(source)) = self else {
            return Ok(None);
        };
        let name = source.to_string();
        source
            .start(queue.clone())
            .context("cannot start following Consul")?;
        Ok(Some(name))
    }
}
