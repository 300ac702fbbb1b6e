//! At SIGHUP the file of `--config` is read again.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow};
use clap::{ArgMatches, Command, FromArgMatches as _};
use shunt::{EventQueue, LiveSettings};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::cli::{
    agent::{
        args::AgentArgs,
        notify,
        refusals::{check_families, check_snat_ports},
    },
    config::{agent_file::with_file, settings::KubeProxySettings},
    log::{RunningFilter, is_filtered_by_environment},
    output::causes,
};

/// What is logged.
const LOG_FILTER: &str = "--log-filter";

/// The flags that take effect while the agent runs. All others are of the programs, the tables or the sources,
/// which an agent begins with.
const LIVE: [&str; 4] = [
    "--exclude-interface",
    "--interface",
    LOG_FILTER,
    "--max-removal",
];

/// As the agent was started.
#[derive(Debug, Clone)]
pub(crate) struct CommandLine {
    /// All of it, without what a file says.
    pub(crate) given: Vec<OsString>,
    /// What `shunt agent` takes.
    pub(crate) agent: Command,
}

impl CommandLine {
    /// What it says with what is in the file now.
    fn read(&self) -> Result<ArgMatches> {
        let Self { given, agent } = self;
        let whole = with_file(given.clone(), agent)?;
        let matches = agent
            .clone()
            .try_get_matches_from(whole.into_iter().skip(1));
        matches.map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            anyhow!("{}", first.trim_start_matches("error: "))
        })
    }

    /// The values of each flag, by its long name with the dashes.
    fn flags(&self, matches: &ArgMatches) -> BTreeMap<String, Vec<OsString>> {
        let named = self.agent.get_arguments().filter_map(|arg| {
            let values = matches.try_get_raw(arg.get_id().as_str()).ok().flatten();
            let values = values.into_iter().flatten().map(ToOwned::to_owned);
            Some((format!("--{}", arg.get_long()?), values.collect()))
        });
        named.collect()
    }
}

/// SIGHUP, which would end the process if nobody took it.
#[derive(Debug)]
pub(super) struct Hangups(Signal);

impl Hangups {
    /// Takes it from now on.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub(super) fn listen() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }
}

/// What is read again, and what of it holds.
#[derive(Debug)]
pub(crate) struct Reload {
    line: CommandLine,
    /// The values that hold, by the flag's long name.
    flags: BTreeMap<String, Vec<OsString>>,
    /// kube-proxy's configuration, and what it says, if that is the file.
    kube_proxy: Option<(PathBuf, String)>,
    filter: RunningFilter,
}

/// What is new in a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct News {
    /// The flags that take effect.
    live: Vec<String>,
    /// Those that do with the next start.
    waiting: Vec<String>,
    /// What is logged is new, and RUST_LOG says what is logged.
    is_log_fixed: bool,
}

impl News {
    /// What is another flag than before.
    fn between(
        before: &BTreeMap<String, Vec<OsString>>,
        now: &BTreeMap<String, Vec<OsString>>,
    ) -> Self {
        let is_new = |name: &&String| before.get(*name) != now.get(*name);
        let changed = now.keys().filter(is_new).cloned();
        let (live, waiting) = changed.partition(|flag: &String| LIVE.contains(&flag.as_str()));
        Self {
            live,
            waiting,
            is_log_fixed: false,
        }
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            live,
            waiting,
            is_log_fixed,
        } = self;
        let mut parts = Vec::new();
        if !live.is_empty() {
            parts.push(format!("in effect: {}", live.join(", ")));
        }
        if !waiting.is_empty() {
            let waiting = waiting.join(", ");
            parts.push(format!(
                "needs a restart, which interrupts nothing: {waiting}"
            ));
        }
        if *is_log_fixed {
            parts.push(format!("no effect while RUST_LOG is set: {LOG_FILTER}"));
        }
        if parts.is_empty() {
            parts.push("nothing is new".to_owned());
        }
        write!(f, "the settings were read again: {}", parts.join("; "))
    }
}

impl Reload {
    /// Of an agent that begins with `args`, and logs what `filter` lets through.
    ///
    /// # Errors
    ///
    /// The file is another one than a moment ago, and wrong.
    pub(super) fn new(line: CommandLine, args: &AgentArgs, filter: RunningFilter) -> Result<Self> {
        let kube_proxy = match &args.kube_proxy.config {
            Some(path) => Some((path.clone(), read(path)?)),
            None => None,
        };
        Ok(Self {
            flags: line.flags(&line.read()?),
            line,
            kube_proxy,
            filter,
        })
    }

    /// Reads again whenever the signal comes, for as long as the agent runs.
    pub(super) fn follow(mut self, mut hangups: Hangups, queue: EventQueue) {
        tokio::spawn(async move {
            while hangups.0.recv().await.is_some() {
                notify::reloading();
                let said = self.take(&queue).await;
                notify::reloaded(&said);
            }
        });
    }

    /// Reads, and has what is new take effect. Gives what is logged of it.
    async fn take(&mut self, queue: &EventQueue) -> String {
        match self.read() {
            Ok((news, settings)) => {
                let said = news.to_string();
                // An agent that ends takes nothing any more.
                let _taken = queue.change_settings(settings).await;
                if news.waiting.is_empty() {
                    info!("{said}");
                } else {
                    warn!("{said}");
                }
                said
            }
            Err(error) => {
                let said = format!("the settings stay as they were: {}", causes(&error));
                error!("{said}");
                said
            }
        }
    }

    /// What is new, and what holds from now on. The log is filtered by it already.
    fn read(&mut self) -> Result<(News, LiveSettings)> {
        let matches = self.line.read()?;
        let flags = self.line.flags(&matches);
        let args = AgentArgs::from_arg_matches(&matches)?;
        let kube_proxy = KubeProxySettings::of(&args.kube_proxy)?;
        check_snat_ports(args.snat.snat_ports)?;
        check_families(&args.node.pod_cidrs, args.families.families())?;
        let filter = args.log_filter(&kube_proxy)?;
        let mut news = News::between(&self.flags, &flags);
        if let Some((path, text)) = &self.kube_proxy
            && read(path)? != *text
        {
            news.waiting.push(format!("what {} says", path.display()));
        }
        if news.live.iter().any(|flag| flag == LOG_FILTER) {
            self.filter.set(filter)?;
            news.is_log_fixed = is_filtered_by_environment();
        }
        if news.is_log_fixed {
            news.live.retain(|flag| flag != LOG_FILTER);
        }
        let is_live = |flag: &str| LIVE.contains(&flag);
        let live = flags.into_iter().filter(|(flag, _)| is_live(flag));
        self.flags.extend(live);
        let (interfaces, excluded_interfaces) = args.interfaces.sets();
        let settings = LiveSettings {
            interfaces,
            excluded_interfaces,
            max_removal: args.operator.max_removal,
        };
        Ok((news, settings))
    }
}

/// The text of a configuration.
fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("--config {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(all: &[(&str, &[&str])]) -> BTreeMap<String, Vec<OsString>> {
        let all = all.iter().map(|(name, values)| {
            let values = values.iter().map(OsString::from);
            ((*name).to_owned(), values.collect())
        });
        all.collect()
    }

    #[test]
    fn what_is_new_takes_effect_or_is_named() {
        let before = flags(&[
            ("--interface", &["eth0"]),
            ("--max-removal", &[]),
            ("--max-slots", &["7"]),
            ("--reject-rate", &["1000"]),
        ]);
        let now = flags(&[
            ("--interface", &["eth0", "veth*"]),
            ("--max-removal", &["20"]),
            ("--max-slots", &["7"]),
            ("--reject-rate", &["0"]),
        ]);
        let news = News::between(&before, &now);
        assert_eq!(
            news.to_string(),
            "the settings were read again: in effect: --interface, --max-removal; needs a restart, which \
             interrupts nothing: --reject-rate"
        );
        assert_eq!(
            News::between(&now, &now).to_string(),
            "the settings were read again: nothing is new"
        );
        let fixed = News {
            is_log_fixed: true,
            ..News::default()
        };
        assert_eq!(
            fixed.to_string(),
            "the settings were read again: no effect while RUST_LOG is set: --log-filter"
        );
    }
}
