//! Dispatch of the subcommands.

use std::{env, ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use shunt_print::output::{causes, complain};

use crate::cli::{
    agent::{self, args::AgentArgs},
    apply::{self, ApplyArgs},
    cleanup::{self, CleanupArgs},
    config::agent_file::with_file,
    config_command::{self, ConfigArgs},
    conntrack::{self, ConntrackArgs},
    controller::{self, ControllerArgs},
    decide::{self, ConfirmArgs, DiscardArgs},
    documents::{self, CompletionsArgs, DescriptionArgs, ManArgs},
    dump::{self, DumpArgs},
    init::{self, InitArgs},
    lookup::{self, LookupArgs},
    monitor::{self, MonitorArgs},
    proxy::{self, ProxyArgs},
    render::{self, RenderArgs},
    retired,
    services::{self, ServicesArgs},
    status::{self, StatusArgs},
    steer::{self, DrainArgs, UndrainArgs, WeightArgs},
    top::{self, TopArgs},
    trace::{self, TraceArgs},
};

/// In-kernel translation of Kubernetes services.
#[derive(Debug, Parser)]
#[command(name = "shunt", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(Box<AgentArgs>),
    Init(InitArgs),
    Cleanup(CleanupArgs),
    Controller(ControllerArgs),
    Status(StatusArgs),
    Services(ServicesArgs),
    Lookup(LookupArgs),
    Conntrack(ConntrackArgs),
    Monitor(MonitorArgs),
    Top(TopArgs),
    Trace(TraceArgs),
    Dump(DumpArgs),
    Apply(ApplyArgs),
    Drain(DrainArgs),
    Undrain(UndrainArgs),
    Weight(WeightArgs),
    Confirm(ConfirmArgs),
    Discard(DiscardArgs),
    Proxy(ProxyArgs),
    Render(RenderArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    Description(DescriptionArgs),
}

/// The command line makes no sense.
const UNUSABLE: u8 = 2;

/// The subcommands as the help shows them, each under its purpose.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Run translation",
        &["agent", "init", "cleanup", "controller"],
    ),
    (
        "See what is going on",
        &[
            "status",
            "services",
            "lookup",
            "conntrack",
            "monitor",
            "top",
            "trace",
            "dump",
            "proxy",
        ],
    ),
    (
        "Change something",
        &["apply", "drain", "undrain", "weight", "confirm", "discard"],
    ),
    (
        "Without an agent",
        &["render", "config", "completions", "man", "description"],
    ),
];

/// The command line, with its help in groups.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text += &format!("{heading}:\n");
        for name in names {
            let found = command.find_subcommand(name);
            let about = found.and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text += &format!("  {name:<12} {about}\n");
        }
        text += "\n";
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}\n\n\
         `shunt COMMAND --help` says more of each."
    ))
}

/// Returns the command line with the settings of the file that its `--config` names.
///
/// # Errors
///
/// If the file is wrong, or one of the two has a flag or value that the agent no longer takes.
fn arguments(given: Vec<OsString>, agent: &clap::Command) -> Result<Vec<OsString>> {
    retired::refuse(&given)?;
    Ok(with_file(given, agent)?)
}

/// Runs the subcommand that the command line names.
pub(crate) fn main() -> ExitCode {
    let mut whole = command();
    // The flags of subcommands are known then.
    whole.build();
    let agent = whole.find_subcommand("agent").cloned().unwrap_or_default();
    let arguments = match arguments(env::args_os().collect(), &agent) {
        Ok(arguments) => arguments,
        Err(error) => {
            complain(format_args!("error: {}", causes(&error)));
            return ExitCode::from(UNUSABLE);
        }
    };
    let parsed = Cli::from_arg_matches(&command().get_matches_from(arguments));
    let result = match parsed.unwrap_or_else(|error| error.exit()).command {
        Command::Agent(args) => agent::run(*args),
        Command::Init(args) => init::run(&args),
        Command::Cleanup(args) => cleanup::run(&args),
        Command::Controller(args) => controller::run(args),
        Command::Status(args) => status::run(&args),
        Command::Services(args) => services::run(&args),
        Command::Lookup(args) => lookup::run(&args),
        Command::Conntrack(args) => conntrack::run(&args),
        Command::Monitor(args) => monitor::run(&args),
        Command::Top(args) => top::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Dump(args) => dump::run(&args),
        Command::Apply(args) => apply::run(args),
        Command::Drain(args) => steer::drain(args),
        Command::Undrain(args) => steer::undrain(args),
        Command::Weight(args) => steer::weight(args),
        Command::Confirm(args) => decide::confirm(&args),
        Command::Discard(args) => decide::discard(&args),
        Command::Proxy(args) => Ok(proxy::run(&args)),
        Command::Render(args) => render::run(args),
        Command::Config(args) => Ok(config_command::run(&args, command())),
        Command::Completions(args) => documents::completions(&args, command()),
        Command::Man(args) => documents::man(&args, command()),
        Command::Description(args) => documents::description(&args),
    };
    result.unwrap_or_else(|error| {
        // The log of the kernel's verifier has several lines. None of them can be taken for the
        // beginning of a message.
        for (number, line) in causes(&error).lines().enumerate() {
            let start = if number == 0 { "error: " } else { "    " };
            complain(format_args!("{start}{line}"));
        }
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        command().debug_assert();
    }

    #[test]
    fn the_help_names_each_subcommand_once() {
        let command = command();
        let named: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        let set: BTreeSet<&str> = named.iter().copied().collect();
        assert_eq!(set.len(), named.len(), "one is named twice");
        let there = command
            .get_subcommands()
            .filter(|found| !found.is_hide_set());
        let there: BTreeSet<&str> = there.map(clap::Command::get_name).collect();
        assert_eq!(set, there);
    }
}
