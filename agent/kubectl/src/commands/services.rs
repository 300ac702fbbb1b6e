//! `kubectl shunt services`: the frontends of each node.

use std::{net::IpAddr, process::ExitCode};

use anyhow::Result;
use clap::Args;
use shunt_api::{
    MESSAGE_LIMIT,
    message::join_services,
    proto::{ServicesRequest, ServicesResponse, inspection_client::InspectionClient},
    view::{Frontend, FrontendFilter, FrontendKey},
};
use shunt_model::Escaped;
use shunt_print::{
    frontend_table::write_frontends,
    named::ServiceName,
    output::{self, ListFormat},
    service_table::write_counters,
};
use tonic::transport::Channel;

use crate::{
    commands::{exit::exit_status, resolve::resolve_if_named},
    fleet::Fleet,
    place::Named,
    print::{are_complete, write_lines, write_nodes},
    tunnel::Fault,
};

/// Show the frontends that are live, node by node, as the kernels' tables have them
///
/// Exit status: 0; 1 if a node does not answer; 2 if the API server does not answer, or there is no agent.
#[derive(Debug, Args)]
pub(super) struct ServicesArgs {
    /// The frontends of this service alone
    #[arg(value_name = "NAMESPACE/NAME")]
    service: Option<ServiceName>,

    /// Filter by address of the frontend, or of a backend: an address, or pod/NAMESPACE/NAME
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Named<IpAddr>>,

    /// Show only frontends that differ from the events, or have no backend that takes connections
    #[arg(long)]
    not_right: bool,

    /// The form of the output; JSON is a line for each frontend
    #[arg(short, long, value_enum, default_value_t)]
    output: ListFormat,
}

/// Frontends of a node.
struct Found {
    live: Vec<Frontend>,
    missing: Vec<FrontendKey>,
}

/// Asks all nodes and prints.
///
/// # Errors
///
/// The output cannot be written, or a pod cannot be found.
pub(super) async fn run(args: &ServicesArgs, fleet: &Fleet) -> Result<ExitCode> {
    let ServicesArgs {
        service,
        address,
        not_right,
        output,
    } = args;
    let addresses = resolve_if_named(fleet, address.as_ref()).await?;
    let id = service.as_ref().map(|ServiceName(id)| id);
    let filters = addresses.into_iter().map(|address| FrontendFilter {
        namespace: id.map(|id| id.namespace.to_string()),
        name: id.map(|id| id.name.to_string()),
        address,
        kind: None,
        not_right: *not_right,
    });
    let filters: Vec<_> = filters.collect();
    let heard = fleet
        .ask(move |channel| ask(channel, filters.clone()))
        .await;
    output::print(|out| match output {
        ListFormat::Json => write_lines(&heard, out, |found| &found.live),
        form => write_nodes(&heard, out, |Found { live, missing }, out| {
            write_frontends(live, *form, out)?;
            write_counters(live, out)?;
            for key in missing {
                use std::io::Write as _;
                writeln!(out, "the kernel lacks the frontend {}", Escaped(key))?;
            }
            Ok(())
        }),
    })?;
    Ok(exit_status(are_complete(&heard)))
}

async fn ask(channel: Channel, filters: Vec<FrontendFilter>) -> Result<Found, Fault> {
    let mut client = InspectionClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let mut found = Found {
        live: Vec::new(),
        missing: Vec::new(),
    };
    for filter in filters {
        let request = ServicesRequest {
            filter: Some(filter.clone().into()),
        };
        let mut pieces = client.services(request).await?.into_inner();
        let mut listed = ServicesResponse::default();
        while let Some(piece) = pieces.message().await? {
            join_services(&mut listed, piece);
        }
        // An agent of an earlier version sends all of them.
        for frontend in listed.frontends {
            let frontend = Frontend::try_from(frontend)?;
            if filter.takes(&frontend) {
                found.live.push(frontend);
            }
        }
        for key in listed.missing {
            let key = FrontendKey::try_from(key)?;
            if filter.takes_missing(&key) {
                found.missing.push(key);
            }
        }
    }
    Ok(found)
}
