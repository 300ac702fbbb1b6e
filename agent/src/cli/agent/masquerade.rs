//! Looking again and again for backends to which connections cannot be masqueraded.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    time::Duration,
};

use shunt_datapath::interface_to;
use shunt_model::{Frontend, Masquerade};
use shunt_runtime::{HostPart, Inspector};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::warn;

/// Interval of the looks.
const INTERVAL: Duration = Duration::from_mins(1);

/// Interval as long as no frontends are known, or some backends are not masqueraded: an interface gets its programs
/// soon after its pod has begun.
const SOON: Duration = Duration::from_secs(5);

/// The most backends that are named of an interface.
const NAMED: usize = 3;

/// Logs the interfaces without programs behind which backends of masqueraded frontends are, and has the status show
/// them, now and each minute.
pub(super) fn watch_masquerade(inspector: Inspector) {
    tokio::spawn(async move {
        loop {
            sleep(look(&inspector).await).await;
        }
    });
}

/// Returns the time until the next look.
async fn look(inspector: &Inspector) -> Duration {
    let complaints = match complaints(inspector).await {
        Ok(Some(complaints)) => complaints,
        Ok(None) => return SOON,
        Err(error) => {
            warn!(%error, "it is not known which backends cannot be masqueraded");
            return INTERVAL;
        }
    };
    let interval = if complaints.is_empty() {
        INTERVAL
    } else {
        SOON
    };
    inspector
        .reports()
        .set_host(HostPart::Masquerade, complaints);
    interval
}

/// Returns a sentence for each interface; `None` as long as there are no frontends.
async fn complaints(inspector: &Inspector) -> io::Result<Option<Vec<String>>> {
    // If the agent is ending, there are none any more.
    let frontends = inspector.wanted().await.unwrap_or_default();
    if frontends.is_empty() {
        return Ok(None);
    }
    let backends = backends(frontends.iter().map(|(_, frontend)| frontend));
    if backends.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let inspector = inspector.clone();
    // Interfaces and routes are read beside the event loop.
    let complaints = spawn_blocking(move || {
        let attached = inspector.attached()?;
        Ok(sentences(&behind_others(
            &backends,
            &attached,
            interface_to,
        )))
    });
    complaints
        .await
        .map_err(io::Error::other)
        .flatten()
        .map(Some)
}

/// Returns the addresses of the backends on this node to which connections are to be masqueraded.
fn backends<'a>(frontends: impl Iterator<Item = &'a Frontend>) -> BTreeSet<IpAddr> {
    let masqueraded = frontends.filter(|frontend| frontend.masquerade == Masquerade::On);
    let backends = masqueraded.flat_map(|frontend| &frontend.backends.backends);
    backends
        .filter(|backend| backend.local)
        .map(|backend| backend.ip)
        .collect()
}

/// Returns the backends by the interface that packets to them leave by, if that is none of those that are attached.
/// Backends at addresses of the host itself are left out: its processes have no other way out.
fn behind_others(
    backends: &BTreeSet<IpAddr>,
    attached: &BTreeSet<u32>,
    interface_to: impl Fn(IpAddr) -> Option<(u32, String)>,
) -> BTreeMap<String, Vec<IpAddr>> {
    let mut found: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for ip in backends {
        if let Some((index, name)) = interface_to(*ip)
            && !attached.contains(&index)
        {
            found.entry(name).or_default().push(*ip);
        }
    }
    found
}

/// Returns a sentence for each of these interfaces.
fn sentences(interfaces: &BTreeMap<String, Vec<IpAddr>>) -> Vec<String> {
    let sentence = |(name, backends): (&String, &Vec<IpAddr>)| {
        let named = backends.iter().take(NAMED).map(IpAddr::to_string);
        let mut named = named.collect::<Vec<_>>().join(", ");
        if backends.len() > NAMED {
            named += &format!(" and {} more", backends.len() - NAMED);
        }
        format!(
            "connections from outside to backends behind {name} are not masqueraded, since it has no programs for the \
             replies: {named}. Select {name} with --interface"
        )
    };
    interfaces.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [10, 1, 1, last].into()
    }

    #[test]
    fn interfaces_without_programs_are_named_with_some_of_their_backends() {
        let way = |address: IpAddr| match address {
            address if address == ip(1) => None,
            address if address == ip(2) => Some((2, "veth2".to_owned())),
            _ => Some((3, "cni0".to_owned())),
        };
        let named = |attached: &[u32]| {
            let backends = (1..=7).map(ip).collect();
            let attached = attached.iter().copied().collect();
            sentences(&behind_others(&backends, &attached, way))
        };
        assert_eq!(
            named(&[2]),
            [
                "connections from outside to backends behind cni0 are not masqueraded, since it has no programs for the \
                 replies: 10.1.1.3, 10.1.1.4, 10.1.1.5 and 2 more. Select cni0 with --interface"
            ]
        );
        assert_eq!(named(&[2, 3]), [""; 0]);
    }
}
