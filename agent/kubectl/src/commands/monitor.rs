//! `kubectl shunt monitor`: the events of all nodes, as they happen.

use std::{
    io::{self, Write as _},
    num::NonZeroU64,
    process::ExitCode,
};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use shunt_api::{
    MESSAGE_LIMIT,
    proto::{MonitorRequest, MonitorResponse, inspection_client::InspectionClient},
    view::{FlowEvent, FlowFilter, FlowKind, Place},
};
use shunt_model::Escaped;
use shunt_print::{
    event_line::event_line,
    output::{OutputFormat, complain, print_while_read},
    transport::Transport,
};
use tokio::{
    sync::mpsc::{self, Sender},
    task::JoinSet,
};

use crate::{
    cluster::Member,
    commands::{exit::exit_status, resolve::resolve_if_named},
    fleet::Fleet,
    place::Named,
    print::{write_error, write_line},
    tunnel::{Fault, Tunnel},
};

/// Messages of nodes that wait to be printed.
const WAITING: usize = 64;

/// Show what becomes of connections and packets on all nodes, as it happens
///
/// The kernel programs report it only while a client watches; docs/monitor.md has the cost of that. A node that does
/// not answer, or whose agent ends, is a line, and the others go on. Exit status: 0; 1 if all of them have ended; 2 if
/// the API server does not answer, or there is no agent.
#[derive(Debug, Args)]
pub(super) struct MonitorArgs {
    /// Filter by any end: 10.1.1.5, 10.1.0.0/16, [fd00::1]:80, pod/NAMESPACE/NAME
    #[arg(value_name = "FILTER")]
    any: Option<Named<Place>>,

    /// Filter by kind; may be given several times
    #[arg(short, long, value_enum, value_name = "KIND")]
    kind: Vec<Kind>,

    /// Filter by reason, such as `timed_out` or `drop_no_backend`; may be given several times
    #[arg(long, value_name = "REASON")]
    reason: Vec<String>,

    /// Filter by client
    #[arg(long, value_name = "PLACE")]
    client: Option<Named<Place>>,

    /// Filter by frontend
    #[arg(long, value_name = "PLACE")]
    frontend: Option<Named<Place>>,

    /// Filter by backend
    #[arg(long, value_name = "PLACE")]
    backend: Option<Named<Place>>,

    /// Filter by protocol
    #[arg(long, value_enum, value_name = "PROTOCOL", ignore_case = true)]
    protocol: Option<Transport>,

    /// Filter by service, NAMESPACE/NAME or NAMESPACE/NAME:PORT
    #[arg(short, long, value_name = "SERVICE")]
    service: Option<String>,

    /// Show one connection in so many, with all of its events, and one packet in so many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,

    /// End after so many events
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<NonZeroU64>,

    /// The form of the output; JSON is a line for each event
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// A kind of event, by the name that it is shown with.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// A connection began
    Opened,
    /// A connection ended
    Ended,
    /// A packet was rejected, and its sender notified
    Refused,
    /// A packet was dropped
    Dropped,
}

impl From<Kind> for FlowKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Opened => Self::Opened,
            Kind::Ended => Self::Ended,
            Kind::Refused => Self::Refused,
            Kind::Dropped => Self::Dropped,
        }
    }
}

/// News of a node.
enum News {
    /// It is watched from now on.
    Begun,
    Events {
        node: String,
        events: Vec<FlowEvent>,
        /// Events that were lost since the last news.
        lost: u64,
    },
    /// It is not watched, or no longer.
    Ended { node: String, reason: String },
}

/// Watches all nodes and prints.
///
/// # Errors
///
/// The output cannot be written, or a pod cannot be found.
pub(super) async fn run(args: &MonitorArgs, fleet: &Fleet) -> Result<ExitCode> {
    let requests = requests(args, fleet).await?;
    let (sender, mut news) = mpsc::channel(WAITING);
    let mut watched = JoinSet::new();
    for member in &fleet.members {
        for request in &requests {
            let (fleet, member) = (fleet.clone(), member.clone());
            let (request, sender) = (request.clone(), sender.clone());
            watched.spawn(async move {
                let node = member.node.clone();
                let reason = watch(&fleet, &member, request, &sender).await;
                // A reader that has gone needs no reason.
                drop(sender.send(News::Ended { node, reason }).await);
            });
        }
    }
    drop(sender);
    let mut printer = Printer {
        form: args.output,
        left: args.count.map(NonZeroU64::get),
        begun: 0,
        all: fleet.members.len() * requests.len(),
    };
    while let Some(news) = news.recv().await {
        if !printer.print(news)? {
            return Ok(exit_status(true));
        }
    }
    Ok(exit_status(false))
}

/// Returns a request for each combination of addresses that is meant.
async fn requests(args: &MonitorArgs, fleet: &Fleet) -> Result<Vec<MonitorRequest>> {
    let mut requests = Vec::new();
    let [any, client, frontend, backend] = [&args.any, &args.client, &args.frontend, &args.backend];
    let any = resolve_if_named(fleet, any.as_ref()).await?;
    let clients = resolve_if_named(fleet, client.as_ref()).await?;
    let frontends = resolve_if_named(fleet, frontend.as_ref()).await?;
    let backends = resolve_if_named(fleet, backend.as_ref()).await?;
    for any in &any {
        for client in &clients {
            for frontend in &frontends {
                for backend in &backends {
                    let filter = FlowFilter {
                        kinds: args.kind.iter().map(|kind| (*kind).into()).collect(),
                        reasons: args.reason.clone(),
                        client: *client,
                        frontend: *frontend,
                        backend: *backend,
                        any: *any,
                        protocol: args.protocol.map(|it| it.protocol().into()),
                        service: args.service.clone(),
                    };
                    requests.push(MonitorRequest {
                        filter: Some(filter.into()),
                        sample: args.sample,
                        packets: false,
                    });
                }
            }
        }
    }
    Ok(requests)
}

/// Passes on the events of a node. Returns the reason of the end.
async fn watch(
    fleet: &Fleet,
    member: &Member,
    request: MonitorRequest,
    sender: &Sender<News>,
) -> String {
    let mut tunnel = match fleet.open(member).await {
        Ok(tunnel) => tunnel,
        Err(reason) => return reason,
    };
    match pass_on(&tunnel, &member.node, request, sender).await {
        Ok(()) => "the agent has ended".to_owned(),
        Err(fault) => tunnel.explain(fault).await,
    }
}

async fn pass_on(
    tunnel: &Tunnel,
    node: &str,
    request: MonitorRequest,
    sender: &Sender<News>,
) -> Result<(), Fault> {
    let mut client = InspectionClient::new(tunnel.channel.clone());
    client = client.max_decoding_message_size(MESSAGE_LIMIT);
    let mut messages = client.monitor(request).await?.into_inner();
    let (mut is_begun, mut known) = (false, 0);
    while let Some(MonitorResponse { events, lost }) = messages.message().await? {
        // The first one comes when it begins, and has no event.
        if !is_begun && sender.send(News::Begun).await.is_err() {
            return Ok(());
        }
        is_begun = true;
        let events = events.into_iter().map(FlowEvent::try_from);
        let news = News::Events {
            node: node.to_owned(),
            events: events.collect::<Result<_, _>>()?,
            lost: lost.saturating_sub(known),
        };
        known = lost;
        if sender.send(news).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Lost {
    lost: u64,
}

/// Form of the output, and the number of events that are left.
struct Printer {
    form: OutputFormat,
    left: Option<u64>,
    /// Streams that have begun, and how many are to be.
    begun: usize,
    all: usize,
}

impl Printer {
    /// Prints it. Returns whether more is to be printed.
    fn print(&mut self, news: News) -> io::Result<bool> {
        let form = self.form;
        match news {
            News::Begun => {
                self.begun += 1;
                complain(format_args!(
                    "watching {} of {} from now on",
                    self.begun, self.all
                ));
                Ok(true)
            }
            News::Ended { node, reason } => print_while_read(|out| match form {
                OutputFormat::Json => write_error(&node, &reason, out),
                OutputFormat::Table => {
                    writeln!(
                        out,
                        "{}",
                        Escaped(format_args!("{node}: not watched: {reason}"))
                    )
                }
            }),
            News::Events { node, events, lost } => {
                let wanted = self.left.map_or(events.len(), |left| {
                    usize::try_from(left).map_or(events.len(), |left| left.min(events.len()))
                });
                if let Some(left) = &mut self.left {
                    *left -= wanted as u64;
                }
                let is_read = print_while_read(|out| {
                    for event in &events[..wanted] {
                        match form {
                            OutputFormat::Json => write_line(&node, event, out)?,
                            OutputFormat::Table => {
                                let line = event_line(event);
                                writeln!(out, "{}", Escaped(format_args!("{node}: {line}")))?;
                            }
                        }
                    }
                    match form {
                        _ if lost == 0 => Ok(()),
                        OutputFormat::Json => write_line(&node, &Lost { lost }, out),
                        OutputFormat::Table => {
                            writeln!(out, "{}: {lost} events were lost", Escaped(&node))
                        }
                    }
                })?;
                Ok(is_read && self.left != Some(0))
            }
        }
    }
}
