//! Taking over from kube-proxy: whose packets that begin no connection are.

use std::{io, time::Duration};

use shunt::KubeProxyRules;
use shunt_datapath::UnknownConnections;
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{info, warn};

use crate::cli::flags::take_over::TakeOver;

/// How often it is looked whether kube-proxy's rules and connections have gone.
const INTERVAL: Duration = Duration::from_secs(10);

/// Says what kube-proxy has left on this host, and leaves connections that are not known to that, for
/// as long as `mode` says.
pub(crate) fn start_to_take_over(mode: TakeOver, mut unknown: UnknownConnections) {
    let rules = KubeProxyRules::find();
    let are_there = match &rules {
        Ok(rules) => {
            info!("rules of kube-proxy on this host: {rules}");
            !rules.is_empty()
        }
        Err(error) => {
            warn!(%error, "whether kube-proxy's rules are on this host is not known");
            false
        }
    };
    match mode {
        TakeOver::On => {
            unknown.leave_to_stack(true);
            info!("taking over: connections that are not known are left to the host's stack");
        }
        TakeOver::Auto if are_there => {
            unknown.leave_to_stack(true);
            info!(
                "taking over: connections that are not known are left to kube-proxy's rules until \
                 these and the connections are gone"
            );
            tokio::spawn(end_with_kube_proxy(unknown));
        }
        TakeOver::Auto | TakeOver::Off => {}
    }
}

/// Waits until kube-proxy's rules are gone, and every connection that netfilter translates. From
/// then on a packet of a connection that is not known opens one.
async fn end_with_kube_proxy(mut unknown: UnknownConnections) {
    loop {
        sleep(INTERVAL).await;
        match spawn_blocking(is_over).await {
            Ok(Ok(true)) => break,
            Ok(Ok(false)) => {}
            Ok(Err(error)) => warn!(%error, "what kube-proxy has left is not known"),
            Err(error) => warn!(%error, "looking for what kube-proxy has left failed"),
        }
    }
    unknown.leave_to_stack(false);
    info!("taken over: kube-proxy's rules and connections are gone");
}

fn is_over() -> io::Result<bool> {
    Ok(KubeProxyRules::find()?.is_empty() && !KubeProxyRules::translates_any()?)
}
