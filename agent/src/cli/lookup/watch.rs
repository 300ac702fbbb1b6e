//! An address is followed.

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

use anyhow::{Result, bail};
use shunt_api::{
    message::join_watch,
    proto::{LookupRequest, WatchRequest, WatchResponse},
    view::{Change, Empty},
};
use shunt_model::Escaped;
use shunt_print::{
    lookup_tables::{describe, endpoint_line},
    output::{OutputFormat, write_json},
};
use tonic::{Streaming, transport::Channel};

use crate::cli::client::{inspection, refused, understood};

/// Prints each change when it comes, until the agent ends or the output is closed.
pub(super) async fn watch(
    channel: Channel,
    request: LookupRequest,
    output: OutputFormat,
) -> Result<ExitCode> {
    let LookupRequest {
        ip,
        port,
        protocol,
        service,
    } = request;
    let request = WatchRequest {
        ip,
        port,
        protocol,
        service,
    };
    let asked = inspection(channel).watch(request).await;
    let mut changes = asked.map_err(|status| refused(&status))?.into_inner();
    loop {
        let mut change = next(&mut changes).await?;
        while change.more {
            join_watch(&mut change, next(&mut changes).await?);
        }
        let change = understood(Change::try_from(change))?;
        let mut out = io::stdout().lock();
        let written = match output {
            OutputFormat::Json => write_json(&change, &mut out),
            OutputFormat::Table => write_change(&change, &mut out),
        };
        match written.and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            written => written?,
        }
    }
}

/// The next piece of a change.
async fn next(changes: &mut Streaming<WatchResponse>) -> Result<WatchResponse> {
    match changes.message().await {
        Ok(Some(piece)) => Ok(piece),
        Ok(None) => bail!("the agent has ended"),
        Err(status) => bail!("the agent answers no more: {}", status.message()),
    }
}

/// Writes a line for each thing that is new, under one with the time.
fn write_change(change: &Change, out: &mut impl Write) -> io::Result<()> {
    let Change {
        generation,
        snapshot,
        rebind,
        kind: _,
        targets,
        adds,
        removes,
        empty,
        member_of,
    } = change;
    let what = match (snapshot, rebind) {
        (true, _) => "all there is",
        (false, true) => "it belongs to others now",
        (false, false) => "what is new",
    };
    writeln!(out, "generation {generation}: {what}")?;
    for target in targets.iter().flatten() {
        writeln!(out, "= {}", Escaped(describe(target)))?;
    }
    if targets.as_ref().is_some_and(Vec::is_empty) {
        writeln!(out, "= nobody that is known")?;
    }
    for add in adds {
        writeln!(out, "+ {}", Escaped(endpoint_line(add)))?;
    }
    for remove in removes {
        writeln!(out, "- {remove}")?;
    }
    match empty {
        Some(Empty { exists: true }) => writeln!(out, "  no endpoint is behind it")?,
        Some(Empty { exists: false }) => writeln!(out, "  nothing is there")?,
        None => {}
    }
    for membership in member_of.iter().flatten() {
        let service = Escaped(&membership.service);
        writeln!(out, "< an endpoint of {service}")?;
    }
    if !snapshot && member_of.as_ref().is_some_and(Vec::is_empty) {
        writeln!(out, "< an endpoint of no service")?;
    }
    Ok(())
}
