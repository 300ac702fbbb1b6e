//! `shunt services`: the frontends that are live.

use std::{
    io::{BufWriter, StdoutLock},
    process::ExitCode,
};

use anyhow::Result;
use clap::Args;
use shunt_api::{
    proto::StatusRequest,
    view::{self, Difference, Frontend, FrontendKey, SocketLb, SocketLbMode, Status},
};
use shunt_print::{
    frontend_table::write_frontends,
    output::{self, ListFormat, complain},
    service_table::write_counters,
};
use tonic::transport::Channel;

use crate::cli::{
    client::{inspection, refused, understood, with_agent},
    flags::paths::SocketArgs,
    frontend_filter::FrontendFilter,
    listing::{Listed, list},
    watch::WatchArgs,
};

/// So many differences are enough for a person.
const SHOWN: usize = 20;

/// Show the frontends that are live, as the kernel's tables have them
///
/// A line each, or with `-o wide` a line for each backend. Differences between kernel and events are shown on standard
/// error, in the column STATE, and in the field `difference` of JSON: `unknown`, `changed`. The counts of each service
/// port, all its frontends together, are a table of their own, and the field `counters` of JSON. If processes of the
/// node itself are left out, against the agent's settings, standard error shows that too. Exit status: 0; 2 without an
/// agent.
#[derive(Debug, Args)]
pub(crate) struct ServicesArgs {
    #[command(flatten)]
    filter: FrontendFilter,

    #[command(flatten)]
    watch: WatchArgs,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: ListFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

/// The result.
struct Found {
    /// The frontends that match the filters.
    live: Vec<Frontend>,
    /// The differences among them, in words.
    differences: Vec<String>,
    sockets: SocketLb,
}

/// Queries the agent and prints.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: &ServicesArgs) -> Result<ExitCode> {
    let ServicesArgs {
        filter,
        watch,
        output,
        socket: SocketArgs { socket },
    } = args;
    let filter = filter.into();
    with_agent(socket, async |channel| {
        watch
            .follow(*output != ListFormat::Json, async || {
                let found = ask(channel.clone(), &filter).await?;
                Ok((
                    move |out: &mut BufWriter<StdoutLock<'static>>| {
                        let Found { live, .. } = &found;
                        if write_frontends(live, *output, out)? {
                            write_counters(live, out)?;
                        } else {
                            output::write_json(live, out)?;
                        }
                        remark(&found);
                        Ok(())
                    },
                    ExitCode::SUCCESS,
                ))
            })
            .await
    })
}

async fn ask(channel: Channel, filter: &view::FrontendFilter) -> Result<Found> {
    let status = inspection(channel.clone())
        .status(StatusRequest { brief: true })
        .await
        .map_err(|status| refused(&status))?;
    let Status { socket_lb, .. } = understood(status.into_inner().try_into())?;
    let Listed { live, missing } = list(channel, filter.clone()).await?;
    let missing = missing.into_iter();
    let missing = missing.map(|key| difference(key, Difference::Missing));
    let mut differences: Vec<String> = missing.collect();
    let found = live
        .iter()
        .filter_map(|frontend| Some(difference(frontend.key, frontend.difference?)));
    differences.extend(found);
    Ok(Found {
        live,
        differences,
        sockets: socket_lb,
    })
}

/// Prints the problems on standard error.
fn remark(found: &Found) {
    let Found {
        live: _,
        differences,
        sockets,
    } = found;
    for text in differences.iter().take(SHOWN) {
        complain(format_args!("difference: {text}"));
    }
    if let Some(text) = left_out(sockets) {
        complain(format_args!("{text}"));
    }
    if differences.len() > SHOWN {
        complain(format_args!(
            "and {} more differences",
            differences.len() - SHOWN
        ));
    }
}

/// A difference in words for people.
fn difference(key: FrontendKey, difference: Difference) -> String {
    let what = match difference {
        Difference::Changed => "is not in the kernel as the events lead to",
        Difference::Unknown => "is in the kernel, but no event leads to it",
        Difference::Missing => "is not in the kernel, but events lead to it",
    };
    format!("{key} {what}")
}

/// Returns the processes of the node that reach none of this, though they were to; `None` if all do.
fn left_out(sockets: &SocketLb) -> Option<String> {
    let SocketLb {
        mode,
        cgroup,
        root,
        hooks,
        problem,
    } = sockets;
    if *mode == SocketLbMode::Off {
        return None;
    }
    if hooks.is_empty() {
        let why = problem.as_deref().unwrap_or("nothing is attached");
        return Some(format!("processes of this node are no clients: {why}"));
    }
    let cgroup = cgroup.as_deref().unwrap_or_default();
    (!root).then(|| {
        format!(
            "processes of this node outside {cgroup} are no clients: it is not the root of all cgroups"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_are_left_out_are_told() {
        let sockets = SocketLb {
            mode: SocketLbMode::Host,
            cgroup: Some("/a".to_owned()),
            root: true,
            hooks: vec!["connect4".to_owned()],
            problem: None,
        };
        assert_eq!(left_out(&sockets), None);
        let elsewhere = SocketLb {
            root: false,
            ..sockets.clone()
        };
        let text = left_out(&elsewhere).unwrap();
        assert!(text.contains("outside /a"), "{text}");
        let missing = SocketLb {
            hooks: Vec::new(),
            problem: Some("an old kernel".to_owned()),
            ..sockets
        };
        let text = left_out(&missing).unwrap();
        assert!(text.contains("an old kernel"), "{text}");
        let off = SocketLb {
            mode: SocketLbMode::Off,
            ..missing
        };
        assert_eq!(left_out(&off), None);
    }
}
