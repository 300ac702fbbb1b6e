//! `shunt lookup`: what an address is.

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    str::FromStr,
};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use shunt_api::{
    proto::{self, LookupRequest, LookupResponse},
    view::{Frontend, Malformed},
};

use crate::cli::{
    client::{inspection, refused, understood, with_agent},
    flags::paths::SocketArgs,
    frontend_table::write_table,
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
    target: Target,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

/// An address, with or without a port.
#[derive(Debug, Clone, Copy)]
struct Target {
    ip: IpAddr,
    port: Option<u16>,
}

impl FromStr for Target {
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
    frontends: Vec<Frontend>,
    backend_of: Vec<Frontend>,
}

impl TryFrom<LookupResponse> for Found {
    type Error = Malformed;

    fn try_from(response: LookupResponse) -> Result<Self, Malformed> {
        let LookupResponse {
            frontends,
            backend_of,
        } = response;
        let views = |list: Vec<proto::Frontend>| {
            let views = list.into_iter().map(Frontend::try_from);
            views.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            frontends: views(frontends)?,
            backend_of: views(backend_of)?,
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
        target: Target { ip, port },
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
        let found = understood(Found::try_from(response.into_inner()))?;
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
