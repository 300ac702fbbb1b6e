//! `shunt render`: the frontends that events lead to, without the kernel.

use std::process::ExitCode;

use clap::Args;
use shunt_api::view::Frontend;
use shunt_model::{Line, LineFault, Lines, Renderer, RendererEvent};
use shunt_print::{
    frontend_table::write_frontends,
    output::{self, ListFormat, complain},
};
use shunt_runtime::{Circumstances, HeldEvents, Origin};
use shunt_source::Input;

use crate::cli::flags::node::NodeArgs;

/// A line was bad; the others were rendered.
const BAD_LINE: u8 = 1;
/// Nothing could be rendered: the flags or the file are of no use.
const UNUSABLE: u8 = 2;

/// Print the frontends that events lead to; neither root nor the kernel is needed
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// Events, one JSON object a line; - is standard input
    #[arg(long, value_name = "FILE")]
    events: Input,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: ListFormat,

    #[command(flatten)]
    node: NodeArgs,
}

/// Renders and prints. Exit status: 0; 1 if a line was bad (the rest is printed all the same);
/// 2 if the input cannot be read.
///
/// # Errors
///
/// This host's addresses cannot be read, or the output cannot be written.
pub(crate) fn run(args: RenderArgs) -> anyhow::Result<ExitCode> {
    let RenderArgs {
        events,
        output,
        node,
    } = args;
    let mut rendering = Rendering {
        renderer: Renderer::new(node.render_options()?),
        held: HeldEvents::default(),
        bad_lines: 0,
    };
    let reader = match events.open() {
        Ok(reader) => reader,
        Err(error) => {
            complain(format_args!("error: {events}: {error}"));
            return Ok(ExitCode::from(UNUSABLE));
        }
    };
    for line in Lines::new(reader) {
        match line {
            Ok(line) => rendering.accept(line),
            Err(error) if matches!(error.fault, LineFault::Read(_)) => {
                complain(format_args!("error: {events}: {error}"));
                return Ok(ExitCode::from(UNUSABLE));
            }
            Err(error) => rendering.refuse(&error.to_string()),
        }
    }
    let Rendering {
        renderer,
        held,
        bad_lines,
    } = rendering;
    for address in renderer.nodes().left_out() {
        complain(format_args!(
            "left out: node_ips: {address} leads to no single node"
        ));
    }
    for conflict in renderer.conflicts() {
        complain(format_args!("conflict: {conflict}"));
    }
    let held = held.count();
    if held > 0 {
        let events = if held == 1 { "event" } else { "events" };
        complain(format_args!(
            "error: no Resync came: held back until one does: {held} {events}"
        ));
    }

    let frontends: Vec<Frontend> = renderer.frontends().map(Frontend::from).collect();
    output::print(|out| {
        if write_frontends(&frontends, output, out)? {
            return Ok(());
        }
        output::write_json(&frontends, out)
    })?;
    let failed = bad_lines > 0 || held > 0;
    Ok(if failed {
        ExitCode::from(BAD_LINE)
    } else {
        ExitCode::SUCCESS
    })
}

/// The renderer and what went wrong with it.
struct Rendering {
    renderer: Renderer,
    held: HeldEvents,
    bad_lines: u64,
}

impl Rendering {
    /// Applies an event, and those that waited for it.
    fn accept(&mut self, line: Line) {
        let Line { number, event } = line;
        let origin = Origin {
            unit: "line",
            number,
        };
        let synced = self.renderer.is_synced();
        // Nothing comes with the events of a file.
        let circumstances = Circumstances::default();
        let admitted = self.held.admit(synced, origin, event, circumstances);
        let Some((event, _)) = admitted else {
            return;
        };
        self.apply(origin, event);
        if self.renderer.is_synced() {
            for (origin, event, _) in self.held.release() {
                self.apply(origin, event);
            }
        }
    }

    fn apply(&mut self, origin: Origin, event: RendererEvent) {
        match self.renderer.plan(event) {
            Ok(plan) => self.renderer.commit(plan),
            Err(error) => self.refuse(&format!("{origin}: {error}")),
        }
    }

    fn refuse(&mut self, error: &str) {
        complain(format_args!("error: {error}"));
        self.bad_lines += 1;
    }
}
