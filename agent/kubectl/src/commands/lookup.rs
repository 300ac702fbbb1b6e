//! `kubectl shunt lookup`: an address or a service, as each node knows it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use shunt_api::{
    MESSAGE_LIMIT,
    message::join_lookup,
    proto::{LookupRequest, LookupResponse, inspection_client::InspectionClient},
};
use shunt_print::{
    asked::Asked,
    found::Found,
    lookup_tables::write_found,
    output::{self, OutputFormat},
};
use tonic::transport::Channel;

use crate::{
    commands::{exit::exit_status, resolve::resolve},
    fleet::Fleet,
    place::Named,
    print::{are_complete, write_lines, write_nodes},
    tunnel::Fault,
};

/// Show what is behind an address, a pod or a service, as each node knows it
///
/// Exit status: 0; 1 if nothing is there on some node, or one does not answer; 2 if the API server does not answer, or
/// there is no agent.
#[derive(Debug, Args)]
pub(super) struct LookupArgs {
    /// 10.96.0.10, 10.96.0.10:80, 10.96.0.10:53/udp, [fd00::1]:80, default/web:80, or a pod: pod/default/web-1
    #[arg(value_name = "ADDRESS[:PORT][/PROTOCOL]|NAMESPACE/NAME[:PORT]|pod/NAMESPACE/NAME")]
    target: Named<Asked>,

    /// The form of the output; JSON is a line for each node and address
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Asks all nodes and prints.
///
/// # Errors
///
/// The output cannot be written, or a pod cannot be found.
pub(super) async fn run(args: &LookupArgs, fleet: &Fleet) -> Result<ExitCode> {
    let LookupArgs { target, output } = args;
    let targets = resolve(fleet, target).await?;
    let requests: Vec<LookupRequest> = targets.iter().map(Asked::request).collect();
    let heard = fleet
        .ask(move |channel| ask(channel, requests.clone()))
        .await;
    output::print(|out| match output {
        OutputFormat::Json => write_lines(&heard, out, Vec::as_slice),
        OutputFormat::Table => write_nodes(&heard, out, |found, out| {
            found.iter().try_for_each(|found| write_found(found, out))
        }),
    })?;
    let is_there = heard.iter().all(|heard| {
        let answer = heard.answer.as_ref();
        answer.is_ok_and(|found| found.iter().any(Found::is_something))
    });
    Ok(exit_status(are_complete(&heard) && is_there))
}

async fn ask(channel: Channel, requests: Vec<LookupRequest>) -> Result<Vec<Found>, Fault> {
    let mut client = InspectionClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let mut found = Vec::new();
    for request in requests {
        let mut pieces = client.lookup(request).await?.into_inner();
        let mut response = LookupResponse::default();
        while let Some(piece) = pieces.message().await? {
            join_lookup(&mut response, piece);
        }
        found.push(Found::try_from(response)?);
    }
    Ok(found)
}
