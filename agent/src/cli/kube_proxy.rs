//! `shunt cleanup --kube-proxy`: the end of kube-proxy's rules.

use std::{process::ExitCode, thread::sleep, time::Duration};

use anyhow::{Context as _, Result};
use shunt_common::{SCTP, TCP, UDP};
use shunt_print::output::complain;

use crate::host::kube_proxy::rules::{KubeProxyConnections, KubeProxyRules};

/// Interval at which the connections that are left are counted.
const INTERVAL: Duration = Duration::from_secs(1);

/// Removes kube-proxy's nftables tables: when no connection goes by them any more, or `now`.
///
/// # Errors
///
/// If netfilter does not answer, or does not remove them.
pub(crate) fn run(now: bool) -> Result<ExitCode> {
    let rules = KubeProxyRules::find().context("cannot look for kube-proxy's rules")?;
    if rules.has_others() {
        complain(format_args!(
            "rules of kube-proxy on this host: {rules}; of these only those of nftables are removed \
             here: for the others run kube-proxy's own image with --cleanup"
        ));
    }
    let tables = rules.tables().join(", ");
    if tables.is_empty() {
        println!("nftables has no table of kube-proxy's");
        return Ok(if rules.has_others() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        });
    }
    let connections = || rules.connections().context("cannot list the connections");
    let mut left = connections()?;
    if now {
        for line in listed(&left) {
            println!("cut: {line}");
        }
    } else {
        let mut said = 0;
        while !left.is_empty() {
            let count: usize = left.values().sum();
            if count != said {
                println!(
                    "{tables}: {count} connections go by them: waiting for their end (--now does not)"
                );
                said = count;
            }
            sleep(INTERVAL);
            left = connections()?;
        }
    }
    rules.remove_tables().context("cannot remove the tables")?;
    println!("removed {tables}");
    Ok(ExitCode::SUCCESS)
}

/// Each service's connections, a line each.
fn listed(connections: &KubeProxyConnections) -> impl Iterator<Item = String> {
    connections.iter().map(|((protocol, to), count)| {
        let protocol = match *protocol {
            TCP => "TCP".to_owned(),
            UDP => "UDP".to_owned(),
            SCTP => "SCTP".to_owned(),
            other => other.to_string(),
        };
        format!("{count} connections to {to}/{protocol}")
    })
}
