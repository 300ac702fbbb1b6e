//! Membership of this host's datacenter in a federation.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use shunt_catalog::{Federation, FederationKeeper, FederationOptions, OfferedFrontends, Registrar};
use shunt_serve::FederationServer;

/// Other datacenters, known without Consul.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Federation")]
pub(crate) struct FederationArgs {
    /// Name of this datacenter. Other datacenters receive its gateways, and this host theirs
    #[arg(long, value_name = "NAME", requires = "local_api")]
    federation_datacenter: Option<String>,

    /// The name of the datacenter that keeps the gateways of all; with the own name this agent does
    #[arg(long, value_name = "NAME", requires = "federation_datacenter")]
    federation_primary: Option<String>,

    /// Address at which the primary's agent serves those of other datacenters
    #[arg(long, value_name = "IP:PORT", requires = "federation_datacenter")]
    federation_listen: Option<SocketAddr>,

    /// An address that leads to the primary's agent; may be given several times
    #[arg(
        long = "federation-gateway",
        value_name = "HOST:PORT",
        requires = "federation_datacenter"
    )]
    federation_gateways: Vec<String>,

    /// A file with a line `DATACENTER TOKEN` for each datacenter, in the primary; for the own one elsewhere
    #[arg(long, value_name = "FILE", requires = "federation_datacenter")]
    federation_token_file: Option<PathBuf>,

    /// The file in which what is known of other datacenters outlives the agent
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/shunt/federation.json",
        requires = "federation_datacenter"
    )]
    federation_state: PathBuf,

    /// Follow other datacenters, and report nothing: another agent reports this datacenter's gateways
    #[arg(long, requires = "federation_datacenter")]
    federation_read_only: bool,
}

impl FederationArgs {
    /// Reads what is known of other datacenters, and listens if this is the primary.
    ///
    /// # Errors
    ///
    /// Something that is needed is not given, or cannot be had.
    pub(super) fn open(self) -> Result<Option<FederationPlace>> {
        let Some((options, listen)) = self.options()? else {
            return Ok(None);
        };
        let listener = listen.map(|address| {
            let failed = format!("--federation-listen: cannot listen at {address}");
            TcpListener::bind(address).context(failed)
        });
        Ok(Some(FederationPlace {
            listener: listener.transpose()?,
            federation: Federation::open(options)?,
        }))
    }

    fn options(self) -> Result<Option<(FederationOptions, Option<SocketAddr>)>> {
        let Self {
            federation_datacenter,
            federation_primary,
            federation_listen,
            federation_gateways,
            federation_token_file,
            federation_state,
            federation_read_only,
        } = self;
        let Some(datacenter) = federation_datacenter else {
            return Ok(None);
        };
        let primary = federation_primary.with_context(|| {
            format!(
                "--federation-primary: say which datacenter keeps the gateways of all, {datacenter} if it \
                 is this one"
            )
        })?;
        for (flag, name) in [("datacenter", &datacenter), ("primary", &primary)] {
            let is_part = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
            ensure!(
                !name.is_empty() && name.bytes().all(is_part),
                "--federation-{flag}: `{name}` is no name of a datacenter, which has small letters, digits, \
                 `-` and `_`"
            );
        }
        let token_file = federation_token_file.with_context(|| {
            format!(
                "--federation-token-file: datacenters are told apart by tokens, and nobody is told anything \
                 without: give a file with a line `{datacenter} TOKEN`"
            )
        })?;
        let is_primary = datacenter == primary && !federation_read_only;
        ensure!(
            is_primary == federation_listen.is_some(),
            "--federation-listen: the agent that keeps the gateways of all needs it, and no other: {}",
            if is_primary {
                "give it, as 192.0.2.1:8502"
            } else {
                "take it away"
            }
        );
        ensure!(
            is_primary || !federation_gateways.is_empty(),
            "--federation-gateway: give an address that leads to the agent of {primary}"
        );
        let options = FederationOptions {
            datacenter,
            primary,
            gateways: federation_gateways,
            token_file,
            state: federation_state,
            only_reads: federation_read_only,
        };
        Ok(Some((options, federation_listen)))
    }
}

/// A federation that has not begun.
#[derive(Debug)]
pub(super) struct FederationPlace {
    pub(super) listener: Option<TcpListener>,
    pub(super) federation: Federation,
}

/// A federation that this agent takes part in. Dropping it ends that.
#[derive(Debug)]
pub(super) struct RunningFederation {
    _server: Option<FederationServer>,
    _keeper: FederationKeeper,
}

impl FederationPlace {
    /// Begins, with what `registrar` knows and the frontends that are offered.
    ///
    /// # Errors
    ///
    /// There is no room for a thread.
    pub(super) fn start(
        self,
        registrar: &Registrar,
        offered: OfferedFrontends,
    ) -> Result<RunningFederation> {
        let Self {
            listener,
            federation,
        } = self;
        let server = listener.map(|listener| FederationServer::start(listener, federation.clone()));
        Ok(RunningFederation {
            _server: server.transpose().context("cannot serve the federation")?,
            _keeper: FederationKeeper::start(&federation, registrar, offered)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(long)]
        local_api: Option<String>,
        #[command(flatten)]
        federation: FederationArgs,
    }

    fn read(line: &str) -> Result<Option<(FederationOptions, Option<SocketAddr>)>> {
        let words = format!("shunt --local-api x {line}");
        let Line {
            local_api: _,
            federation,
        } = Line::try_parse_from(words.split_whitespace())?;
        federation.options()
    }

    #[test]
    fn what_is_missing_is_said_and_nobody_goes_without_a_token() {
        let dc2 = "--federation-datacenter dc2";
        let with = |more: &str| format!("{dc2} {more}");
        assert!(read("").unwrap().is_none());
        for (line, word) in [
            (with(""), "--federation-primary"),
            (with("--federation-primary dc1"), "--federation-token-file"),
            (
                with("--federation-primary DC1 --federation-token-file f"),
                "no name of a datacenter",
            ),
            (
                with("--federation-primary dc1 --federation-token-file f"),
                "--federation-gateway",
            ),
            (
                with("--federation-primary dc2 --federation-token-file f"),
                "give it, as",
            ),
            (
                with(
                    "--federation-primary dc1 --federation-token-file f --federation-listen 127.0.0.1:1",
                ),
                "take it away",
            ),
            (
                "--federation-primary dc1".to_owned(),
                "--federation-datacenter",
            ),
        ] {
            let error = read(&line).unwrap_err().to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
        let (primary, listen) = read(&with(
            "--federation-primary dc2 --federation-token-file f --federation-listen 127.0.0.1:1",
        ))
        .unwrap()
        .unwrap();
        assert_eq!(primary.datacenter, primary.primary);
        assert!(listen.is_some());
        let secondary = with(
            "--federation-primary dc1 --federation-token-file f --federation-gateway a:1 --federation-gateway b:1",
        );
        let (secondary, listen) = read(&secondary).unwrap().unwrap();
        assert_eq!((secondary.gateways.len(), listen), (2, None));
    }
}
