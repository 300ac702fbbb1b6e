//! `shunt drain`, `undrain` and `weight`: an operator's changes on this node, which override events.

mod effect;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use shunt_api::{
    proto::{RemoveOverrideRequest, SetOverrideRequest},
    view,
};
use shunt_model::Override;
use shunt_print::{
    duration::Seconds,
    named::{EndpointPlace, ServiceName},
    output::complain,
};
use tonic::{Code, Status};

use crate::cli::{
    client::{control, refused, with_agent},
    flags::paths::SocketArgs,
    steer::effect::{concerned, show_shares, unserved, warn},
    steered::write_applied,
};

/// Exit status if the agent refuses.
const NOT_DONE: u8 = 1;

/// The endpoints that are meant.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct DrainedArgs {
    /// Endpoints with this address, and this port if one is given: 10.1.1.3, 10.1.1.3:8080, [fd00::1]:80
    #[arg(value_name = "ADDRESS[:PORT]")]
    place: Option<EndpointPlace>,

    /// Endpoints on the node of this name, as far as the events name the nodes of endpoints
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

impl DrainedArgs {
    fn change(self) -> Option<Override> {
        let Self { place, node } = self;
        let drained = place.map(|EndpointPlace { ip, port }| Override::Drain { ip, port });
        drained.or_else(|| node.map(|node| Override::DrainNode { node }))
    }
}

/// Have endpoints on this node's tables get no new connection, regardless of events
///
/// Connections that they have go on. Services that lose their last backend are named on standard error. It holds for endpoints that come later too, and after a restart of the
/// agent, until `shunt undrain` or the end that --for gives. Exit status: 0; 1 if the agent refuses; 2
/// without an agent.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    endpoints: DrainedArgs,

    /// End by itself after so long: 30s, 10m, 2h
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Seconds>,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Take back `shunt drain` for the same address, port or node
///
/// Exit status: 0; 1 if there is no such drain; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct UndrainArgs {
    #[command(flatten)]
    endpoints: DrainedArgs,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Give an endpoint of a service another weight on this node, regardless of events
///
/// The new shares of the service's backends are printed. It holds after a restart of the agent, too, until --reset or the end that --for gives. Exit status: 0; 1 if
/// the agent refuses; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct WeightArgs {
    /// The service
    #[arg(value_name = "NAMESPACE/NAME")]
    service: ServiceName,

    /// Its endpoint: an address, or an address and a port
    #[arg(value_name = "ADDRESS[:PORT]")]
    endpoint: EndpointPlace,

    /// Its share of new connections is this weight of the sum of all; 0: it gets none
    #[arg(value_name = "WEIGHT", required_unless_present = "reset")]
    weight: Option<u32>,

    /// Use the weight of the events again
    #[arg(long, conflicts_with_all = ["weight", "time"])]
    reset: bool,

    /// End by itself after so long: 30s, 10m, 2h
    #[arg(id = "time", long = "for", value_name = "TIME")]
    time: Option<Seconds>,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Has endpoints drained.
pub(crate) fn drain(args: DrainArgs) -> Result<ExitCode> {
    let DrainArgs {
        endpoints,
        time,
        socket,
    } = args;
    set(endpoints.change(), time, &socket)
}

/// Has them serve again.
pub(crate) fn undrain(args: UndrainArgs) -> Result<ExitCode> {
    let UndrainArgs { endpoints, socket } = args;
    remove(endpoints.change(), &socket)
}

/// Sets a weight, or takes it back.
pub(crate) fn weight(args: WeightArgs) -> Result<ExitCode> {
    let WeightArgs {
        service: ServiceName(service),
        endpoint: EndpointPlace { ip, port },
        weight,
        reset,
        time,
        socket,
    } = args;
    let change = Override::Weight {
        service,
        ip,
        port,
        weight: weight.unwrap_or_default(),
    };
    if reset {
        remove(Some(change), &socket)
    } else {
        set(Some(change), time, &socket)
    }
}

fn set(change: Option<Override>, time: Option<Seconds>, socket: &SocketArgs) -> Result<ExitCode> {
    let Some(change) = change else {
        bail!("an endpoint or a node is needed");
    };
    let request = SetOverrideRequest {
        r#override: Some(view::Override(change.clone()).into()),
        seconds: time.map(|Seconds(seconds)| seconds.into()),
    };
    with_agent(&socket.socket, async |channel| {
        let concerned = concerned(&change);
        let before = unserved(channel.clone(), &concerned).await?;
        let applied = match control(channel.clone()).set_override(request).await {
            Ok(applied) => applied.into_inner(),
            Err(status) => return failed(&status),
        };
        write_applied(&change.to_string(), &applied)?;
        if !applied.held && applied.changed == 0 {
            // Most likely a name or an address is not what was meant.
            complain(
                "note: no frontend changes: none has such an endpoint, or it is so already; \
                 it holds for endpoints that come",
            );
        }
        if let Override::Weight { service, .. } = &change {
            show_shares(channel.clone(), service).await?;
        }
        warn(&before, &unserved(channel, &concerned).await?);
        Ok(ExitCode::SUCCESS)
    })
}

fn remove(change: Option<Override>, socket: &SocketArgs) -> Result<ExitCode> {
    let request = RemoveOverrideRequest {
        r#override: change.map(|change| view::Override(change).into()),
    };
    with_agent(&socket.socket, async |channel| {
        match control(channel).remove_override(request).await {
            Ok(applied) => {
                write_applied("taken back", &applied.into_inner())?;
                Ok(ExitCode::SUCCESS)
            }
            Err(status) => failed(&status),
        }
    })
}

/// The agent has refused it, or is not there any more.
pub(crate) fn failed(status: &Status) -> Result<ExitCode> {
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::ResourceExhausted => {
            complain(format_args!("error: {}", refused(status)));
            Ok(ExitCode::from(NOT_DONE))
        }
        _ => Err(refused(status)),
    }
}
