//! `kubectl shunt drain`, `undrain` and `weight`: an operator's changes on nodes, which override events.

use std::{io::Write as _, process::ExitCode};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use shunt_api::{
    proto::{Applied, RemoveOverrideRequest, SetOverrideRequest, control_client::ControlClient},
    view,
};
use shunt_model::Override;
use shunt_print::{
    duration::Seconds,
    named::{EndpointPlace, ServiceName},
    output::{self, OutputFormat},
};
use tonic::transport::Channel;

use crate::{
    cluster::addresses,
    commands::{exit::exit_status, resolve::resolve},
    fleet::Fleet,
    place::Named,
    print::{are_complete, write_lines, write_nodes},
    tunnel::Fault,
};

/// The endpoints that are meant.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct DrainedArgs {
    /// Endpoints with this address, and this port if one is given: 10.1.1.3, 10.1.1.3:8080, pod/shop/web-1
    #[arg(value_name = "ADDRESS[:PORT]|pod/NAMESPACE/NAME[:PORT]")]
    place: Option<Named<EndpointPlace>>,

    /// Endpoints on the node of this name, as far as the events name the nodes of endpoints
    #[arg(long, value_name = "NODE")]
    endpoints_on: Option<String>,
}

impl DrainedArgs {
    async fn changes(&self, fleet: &Fleet) -> Result<Vec<Override>> {
        let Self {
            place,
            endpoints_on,
        } = self;
        let mut changes = Vec::new();
        if let Some(place) = place {
            for EndpointPlace { ip, port } in own_places(fleet, place).await? {
                changes.push(Override::Drain { ip, port });
            }
        }
        let node = endpoints_on
            .clone()
            .map(|node| Override::DrainNode { node });
        changes.extend(node);
        Ok(changes)
    }
}

/// Returns the places of an endpoint, unless it would mean other pods too.
async fn own_places(fleet: &Fleet, place: &Named<EndpointPlace>) -> Result<Vec<EndpointPlace>> {
    if let Named::Pod(pod) = place
        && pod.is_whole()
        && addresses(&fleet.client, pod).await?.is_shared
    {
        bail!("{pod} has its node's address, as other pods there: name its port, {pod}:PORT");
    }
    resolve(fleet, place).await
}

/// Have endpoints get no new connection on the nodes that are meant, regardless of events
///
/// On all nodes, or those of --node. Connections that they have go on. It holds on each node for endpoints that come
/// later too, and after a restart of the agent, until `kubectl shunt undrain` or the end that --for gives; not on nodes
/// that come later. Exit status: 0; 1 if a node refuses or does not answer; 2 if the API server does not answer, or
/// there is no agent.
#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    #[command(flatten)]
    endpoints: DrainedArgs,

    /// End by itself after so long: 30s, 10m, 2h
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Seconds>,

    /// The form of the output; JSON is a line for each change
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Take back `kubectl shunt drain` for the same address, port or node
///
/// Exit status: 0; 1 if a node has no such drain or does not answer; 2 if the API server does not answer, or there is
/// no agent.
#[derive(Debug, Args)]
pub(super) struct UndrainArgs {
    #[command(flatten)]
    endpoints: DrainedArgs,

    /// The form of the output; JSON is a line for each change
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Give an endpoint of a service another weight on the nodes that are meant, regardless of events
///
/// On all nodes, or those of --node. It holds after a restart of the agent, too, until --reset or the end that --for
/// gives. Exit status: 0; 1 if a node refuses or does not answer; 2 if the API server does not answer, or there is no
/// agent.
#[derive(Debug, Args)]
pub(super) struct WeightArgs {
    /// The service
    #[arg(value_name = "NAMESPACE/NAME")]
    service: ServiceName,

    /// Its endpoint: an address, an address and a port, or pod/NAMESPACE/NAME
    #[arg(value_name = "ADDRESS[:PORT]|pod/NAMESPACE/NAME[:PORT]")]
    endpoint: Named<EndpointPlace>,

    /// Its share of new connections is this weight of the sum of all; 0: it gets none
    #[arg(value_name = "WEIGHT", required_unless_present = "reset")]
    weight: Option<u32>,

    /// Use the weight of the events again
    #[arg(long, conflicts_with_all = ["weight", "time"])]
    reset: bool,

    /// End by itself after so long: 30s, 10m, 2h
    #[arg(id = "time", long = "for", value_name = "TIME")]
    time: Option<Seconds>,

    /// The form of the output; JSON is a line for each change
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Has endpoints drained.
pub(super) async fn drain(args: &DrainArgs, fleet: &Fleet) -> Result<ExitCode> {
    let changes = args.endpoints.changes(fleet).await?;
    apply(changes, Action::Set(args.time), args.output, fleet).await
}

/// Has them serve again.
pub(super) async fn undrain(args: &UndrainArgs, fleet: &Fleet) -> Result<ExitCode> {
    let changes = args.endpoints.changes(fleet).await?;
    apply(changes, Action::TakeBack, args.output, fleet).await
}

/// Sets a weight, or takes it back.
pub(super) async fn weight(args: &WeightArgs, fleet: &Fleet) -> Result<ExitCode> {
    let WeightArgs {
        service: ServiceName(service),
        endpoint,
        weight,
        reset,
        time,
        output,
    } = args;
    let places = resolve(fleet, endpoint).await?;
    let changes = places
        .into_iter()
        .map(|EndpointPlace { ip, port }| Override::Weight {
            service: service.clone(),
            ip,
            port,
            weight: weight.unwrap_or_default(),
        });
    let action = if *reset {
        Action::TakeBack
    } else {
        Action::Set(*time)
    };
    apply(changes.collect(), action, *output, fleet).await
}

/// Outcome of a change on a node. The order of the fields is the order in JSON.
#[derive(Debug, Serialize)]
struct Done {
    /// The change.
    r#override: String,
    /// True if it has no effect before the first Resync.
    held: bool,
    /// Frontends that it has changed.
    changed: u64,
}

/// Action of an operator.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// A change that ends by itself after so long, if at all.
    Set(Option<Seconds>),
    /// The end of a change.
    TakeBack,
}

/// Has all nodes make the changes, or take them back.
async fn apply(
    changes: Vec<Override>,
    action: Action,
    output: OutputFormat,
    fleet: &Fleet,
) -> Result<ExitCode> {
    let heard = fleet
        .ask(move |channel| change_all(channel, changes.clone(), action))
        .await;
    let what = match action {
        Action::Set(_) => "",
        Action::TakeBack => ", taken back",
    };
    output::print(|out| match output {
        OutputFormat::Json => write_lines(&heard, out, Vec::as_slice),
        OutputFormat::Table => write_nodes(&heard, out, |done, out| {
            for Done {
                r#override,
                held,
                changed,
            } in done
            {
                match (held, changed) {
                    (true, _) => {
                        writeln!(out, "{override}{what}: no effect until the first Resync")?;
                    }
                    (false, 0) => writeln!(
                        out,
                        "{override}{what}: no frontend changes: none has such an endpoint, or it is so already"
                    )?,
                    (false, changed) => {
                        writeln!(out, "{override}{what}: {changed} frontends changed")?;
                    }
                }
            }
            Ok(())
        }),
    })?;
    Ok(exit_status(are_complete(&heard)))
}

async fn change_all(
    channel: Channel,
    changes: Vec<Override>,
    action: Action,
) -> Result<Vec<Done>, Fault> {
    let mut client = ControlClient::new(channel);
    let mut done = Vec::new();
    for change in changes {
        let text = change.to_string();
        let change = Some(view::Override(change).into());
        let applied = match action {
            Action::Set(time) => {
                let request = SetOverrideRequest {
                    r#override: change,
                    seconds: time.map(|Seconds(seconds)| seconds.into()),
                };
                client.set_override(request).await?
            }
            Action::TakeBack => {
                let request = RemoveOverrideRequest { r#override: change };
                client.remove_override(request).await?
            }
        };
        let Applied { held, changed, .. } = applied.into_inner();
        done.push(Done {
            r#override: text,
            held,
            changed,
        });
    }
    Ok(done)
}
