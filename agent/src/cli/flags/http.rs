//! The addresses of health and metrics.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use shunt_datapath::Families;
use shunt_runtime::IpFamily;
use shunt_serve::HttpOptions;

use crate::cli::flags::switch::Switch;

/// Address of kube-proxy's health.
pub(crate) const HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 10_256);

/// Address of kube-proxy's metrics: for this host alone.
pub(crate) const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10_249);

/// The port of kubelet's probes, which is none of kube-proxy's.
const PROBES: u16 = 10_268;

/// Address of a server; none if it is given as an empty word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BindAddress(pub(crate) Option<SocketAddr>);

impl BindAddress {
    /// Parses an address with a port, or without one if it is to be `port`.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub(crate) fn parse(text: &str, port: u16) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let whole = text.parse().ok().or_else(|| {
            let ip = text.parse().ok()?;
            Some(SocketAddr::new(ip, port))
        });
        match whole {
            Some(address) if address.port() != 0 => Ok(Self(Some(address))),
            _ => Err("must be IP:port, as in 0.0.0.0:10256 or [::]:10256".to_owned()),
        }
    }
}

fn health(text: &str) -> Result<BindAddress, String> {
    BindAddress::parse(text, HEALTH.port())
}

fn metrics(text: &str) -> Result<BindAddress, String> {
    BindAddress::parse(text, METRICS.port())
}

fn probes(text: &str) -> Result<BindAddress, String> {
    BindAddress::parse(text, PROBES)
}

/// HTTP servers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "HTTP")]
#[command(mut_arg("bind-address-hard-fail", Switch::flag))]
pub(crate) struct HttpArgs {
    /// Address of /healthz and /livez, as in kube-proxy; an unspecified address is that of both families, an empty one
    /// switches it off [default: off; 0.0.0.0:10256 with --kubernetes or --config]
    #[arg(
        id = "healthz-bind-address",
        long,
        value_name = "IP:PORT",
        value_parser = health
    )]
    pub(crate) healthz: Option<BindAddress>,

    /// Address of /metrics, /healthz, /proxyMode and /configz; likewise [default: off; 127.0.0.1:10249 with
    /// --kubernetes or --config]
    #[arg(
        id = "metrics-bind-address",
        long,
        value_name = "IP:PORT",
        value_parser = metrics,
        overrides_with = "metrics-bind-address"
    )]
    pub(crate) metrics: Option<BindAddress>,

    /// Address of /livez and /readyz for kubelet's probes, whatever the configuration of kube-proxy is; an address that
    /// cannot be had is tried again every five seconds. If the flag is repeated, the last one counts [default: off]
    #[arg(
        id = "probe-bind-address",
        long,
        value_name = "IP:PORT",
        value_parser = probes,
        overrides_with = "probe-bind-address"
    )]
    pub(crate) probes: Option<BindAddress>,

    /// Do not start if the address of health or metrics cannot be had; without this, it is tried again
    /// every five seconds
    #[arg(
        id = "bind-address-hard-fail",
        long,
        value_name = "BOOL",
        default_value_t,
        hide_default_value = true
    )]
    pub(crate) hard_fail: Switch,
}

impl HttpArgs {
    /// Returns the settings of the servers of an agent that translates these families and has this configuration, with
    /// or without the counts of each service port.
    pub(crate) fn options(
        self,
        families: Families,
        configuration: String,
        shows_services: Switch,
    ) -> HttpOptions {
        let Self {
            healthz,
            metrics,
            probes,
            hard_fail,
        } = self;
        let Families { ipv4, ipv6 } = families;
        let families = [(IpFamily::V4, ipv4), (IpFamily::V6, ipv6)].into_iter();
        HttpOptions {
            health: healthz.and_then(|BindAddress(address)| address),
            probes: probes.and_then(|BindAddress(address)| address),
            metrics: metrics.and_then(|BindAddress(address)| address),
            hard_fail: hard_fail.is_on(),
            configuration,
            shows_services: shows_services.is_on(),
            families: families
                .filter_map(|(family, is_translated)| is_translated.then_some(family))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        http: HttpArgs,
    }

    /// A kustomization can add to a list of arguments, not change one of them.
    #[test]
    fn a_patch_may_add_another_address() {
        let flags = [
            "shunt",
            "--probe-bind-address=127.0.0.1",
            "--metrics-bind-address=127.0.0.1",
            "--probe-bind-address=127.0.0.1:10278",
            "--metrics-bind-address=0.0.0.0:10249",
        ];
        let parsed = |flags| {
            let HttpArgs {
                probes, metrics, ..
            } = Parsed::try_parse_from(flags).unwrap().http;
            [probes, metrics]
        };
        let at = |text: &str| Some(BindAddress(Some(text.parse().unwrap())));
        assert_eq!(
            parsed(&flags[..3]),
            [at("127.0.0.1:10268"), at("127.0.0.1:10249")]
        );
        assert_eq!(parsed(&flags), [at("127.0.0.1:10278"), at("0.0.0.0:10249")]);
    }

    #[test]
    fn a_missing_port_is_filled_in_and_an_empty_address_is_none() {
        for (text, address) in [
            ("0.0.0.0:1234", Some("0.0.0.0:1234")),
            ("127.0.0.1", Some("127.0.0.1:10256")),
            ("::1", Some("[::1]:10256")),
            ("[::]:1", Some("[::]:1")),
            ("", None),
        ] {
            let address = address.map(|address| address.parse().unwrap());
            assert_eq!(health(text), Ok(BindAddress(address)), "{text}");
        }
        for text in [
            "localhost:1",
            ":10256",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "[::1]",
        ] {
            assert!(health(text).is_err(), "{text}");
        }
    }
}
