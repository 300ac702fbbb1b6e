//! Taking over from kube-proxy: whose packets that begin no connection are.

use std::{io, sync::Arc, time::Duration};

use clap::ValueEnum as _;
use shunt_api::view;
use shunt_datapath::UnknownConnections;
use shunt_runtime::Reports;
use tokio::{task::spawn_blocking, time::interval};
use tracing::{info, warn};

use crate::{cli::flags::take_over::TakeOver, host::kube_proxy::rules::KubeProxyRules};

/// Interval of the checks for kube-proxy's rules and connections.
const INTERVAL: Duration = Duration::from_secs(10);

/// At every so many of these looks, connections are counted also while rules are there: netfilter
/// lists all that it has.
const COUNTED: u32 = 6;

/// Rules and connections of kube-proxy on this host.
struct Left {
    rules: KubeProxyRules,
    /// Connections that netfilter translates, if they were counted.
    connections: Option<usize>,
}

impl Left {
    /// Reads both. Connections are counted if `counts` returns true for the rules.
    fn look(counts: fn(&KubeProxyRules) -> bool) -> io::Result<Self> {
        let rules = KubeProxyRules::find()?;
        let connections = counts(&rules).then(KubeProxyRules::translated);
        Ok(Self {
            rules,
            connections: connections.transpose()?,
        })
    }

    const fn is_nothing(&self) -> bool {
        self.rules.is_empty() && matches!(self.connections, Some(0))
    }
}

/// The take-over from kube-proxy's rules, and its reports.
struct Taking {
    mode: TakeOver,
    unknown: UnknownConnections,
    state: view::TakeOver,
    reports: Arc<Reports>,
}

/// Logs what kube-proxy has left on this host, and leaves connections that are not known to that, for as long as `mode`
/// requires. `reports` show it.
pub(crate) fn start_to_take_over(
    mode: TakeOver,
    unknown: UnknownConnections,
    reports: Arc<Reports>,
) {
    let name = mode.to_possible_value();
    let mut taking = Taking {
        mode,
        unknown,
        state: view::TakeOver {
            mode: name.map_or_else(String::new, |name| name.get_name().to_owned()),
            ..view::TakeOver::default()
        },
        reports,
    };
    // The connections do not matter at the start.
    taking.begin(Left::look(|_| false));
    tokio::spawn(taking.follow());
}

impl Taking {
    /// Begins, or does not, by what is found at the start.
    fn begin(&mut self, found: io::Result<Left>) {
        let are_there = match &found {
            Ok(left) => {
                info!("rules of kube-proxy on this host: {}", left.rules);
                !left.rules.is_empty()
            }
            Err(error) => {
                warn!(%error, "whether kube-proxy's rules are on this host is not known");
                false
            }
        };
        let reason = match (self.mode, &found) {
            (TakeOver::On, _) => {
                info!("taking over: connections that are not known are left to the host's stack");
                "--take-over on".to_owned()
            }
            (TakeOver::Off, _) => "--take-over off".to_owned(),
            (TakeOver::Auto, Ok(_)) if are_there => {
                info!(
                    "taking over: connections that are not known are left to kube-proxy's rules \
                     until these and the connections are gone"
                );
                "until kube-proxy's rules and connections are gone".to_owned()
            }
            (TakeOver::Auto, Ok(_)) => {
                "kube-proxy had no rules on this host when the agent started".to_owned()
            }
            (TakeOver::Auto, Err(error)) => {
                format!("kube-proxy's rules could not be looked for: {error}")
            }
        };
        let is_active = match self.mode {
            TakeOver::On => true,
            TakeOver::Auto => are_there,
            TakeOver::Off => false,
        };
        self.set(is_active, reason);
        if let Ok(left) = found {
            self.note(&left);
        }
    }

    /// Looks again and again. Once kube-proxy's rules are gone, and every connection that netfilter
    /// translates, a packet of a connection that is not known opens one if the mode is `auto`.
    async fn follow(mut self) {
        // The first one is at once.
        let mut looks = interval(INTERVAL);
        for number in 0_u32.. {
            looks.tick().await;
            let is_active = self.state.active;
            let counts: fn(&KubeProxyRules) -> bool = match number % COUNTED {
                0 if is_active => |_| true,
                _ if is_active => KubeProxyRules::is_empty,
                0 => |_| false,
                _ => continue,
            };
            match spawn_blocking(move || Left::look(counts)).await {
                Ok(Ok(left)) => {
                    if is_active && self.mode == TakeOver::Auto && left.is_nothing() {
                        self.set(
                            false,
                            "kube-proxy's rules and connections are gone".to_owned(),
                        );
                        info!("taken over: kube-proxy's rules and connections are gone");
                    }
                    self.note(&left);
                }
                Ok(Err(error)) => warn!(%error, "what kube-proxy has left is not known"),
                Err(error) => warn!(%error, "looking for what kube-proxy has left failed"),
            }
        }
    }

    fn set(&mut self, is_active: bool, reason: String) {
        self.unknown.leave_to_stack(is_active);
        self.state.active = is_active;
        self.state.reason = reason;
        self.show();
    }

    /// Takes note of what was found. How many connections there were the last time stands until
    /// they are counted again.
    fn note(&mut self, left: &Left) {
        let Left { rules, connections } = left;
        self.state.rules = (!rules.is_empty()).then(|| rules.to_string());
        if let Some(count) = connections {
            self.state.connections = Some(*count as u64);
        }
        self.show();
    }

    fn show(&self) {
        self.reports.set_take_over(self.state.clone());
    }
}
