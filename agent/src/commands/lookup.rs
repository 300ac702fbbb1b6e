//! `shunt lookup`: what an address is.

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    str::FromStr,
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use shunt_api::proto::{self, LookupRequest, LookupResponse};

use crate::commands::{
    client::{inspection, refused, with_agent},
    listing::{Row, write_table},
    options::SocketArgs,
    output::{self, OutputFormat},
};

/// Nothing is there.
const NOT_FOUND: u8 = 1;

/// Show the live frontends at an address, and those that have it as a backend
///
/// Exit status: 0; 1 if there is neither; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct LookupArgs {
    /// 10.96.0.10, 10.96.0.10:80, fd00::1 or [fd00::1]:80
    #[arg(value_name = "IP[:PORT]")]
    place: Place,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

/// An address, with or without a port.
#[derive(Debug, Clone, Copy)]
struct Place {
    ip: IpAddr,
    port: Option<u16>,
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(ip) = text.parse() {
            return Ok(Self { ip, port: None });
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Ok(Self {
                ip: address.ip(),
                port: Some(address.port()),
            }),
            Ok(_) => Err("the port is 0"),
            Err(_) => Err("not an IP address, nor one with a port"),
        }
    }
}

/// What was found.
#[derive(Serialize)]
struct Found {
    frontends: Vec<Row>,
    backend_of: Vec<Row>,
}

impl TryFrom<LookupResponse> for Found {
    type Error = anyhow::Error;

    fn try_from(response: LookupResponse) -> Result<Self> {
        let LookupResponse {
            frontends,
            backend_of,
        } = response;
        let rows = |frontends: Vec<proto::Frontend>| {
            frontends
                .into_iter()
                .map(Row::try_from)
                .collect::<Result<_>>()
        };
        Ok(Self {
            frontends: rows(frontends)?,
            backend_of: rows(backend_of)?,
        })
    }
}

/// Asks and prints.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: &LookupArgs) -> Result<ExitCode> {
    let LookupArgs {
        place: Place { ip, port },
        output,
        socket: SocketArgs { socket },
    } = args;
    with_agent(socket, async |channel| {
        let request = LookupRequest {
            ip: ip.to_string(),
            port: port.map(u32::from),
        };
        let response = inspection(channel)
            .lookup(request)
            .await
            .map_err(|status| refused(&status))?;
        let found = Found::try_from(response.into_inner()).context("the agent answers nonsense")?;
        output::print(|out| match output {
            OutputFormat::Json => output::write_json(&found, out),
            OutputFormat::Table => write_found(&found, out),
        })?;
        let nothing = found.frontends.is_empty() && found.backend_of.is_empty();
        Ok(if nothing {
            ExitCode::from(NOT_FOUND)
        } else {
            ExitCode::SUCCESS
        })
    })
}

fn write_found(found: &Found, output: &mut impl std::io::Write) -> std::io::Result<()> {
    let Found {
        frontends,
        backend_of,
    } = found;
    if frontends.is_empty() && backend_of.is_empty() {
        return writeln!(output, "neither a frontend nor a backend");
    }
    if !frontends.is_empty() {
        writeln!(output, "Frontends here:")?;
        write_table(frontends, output)?;
    }
    if !backend_of.is_empty() {
        writeln!(output, "A backend of:")?;
        write_table(backend_of, output)?;
    }
    Ok(())
}
