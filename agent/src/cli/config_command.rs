//! `shunt config`: a configuration file is looked at, without an agent.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Args, Command, Subcommand, parser::ValueSource};
use shunt_print::output::{causes, complain, print};

use crate::cli::config::{
    agent_file::{AgentFile, is_agent_file},
    flags::KubeProxyFlags,
    settings::KubeProxySettings,
};

/// The file is wrong.
const WRONG: u8 = 1;

/// Look at a configuration file of the agent, without one
///
/// It is TOML, in which each key is a flag of `shunt agent` without its dashes, or kube-proxy's
/// KubeProxyConfiguration.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print what is wrong with a file. Exit status: 0; 1 if something is
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print all settings that follow from a file, as a file: those that it does not have are comments
    Show {
        /// The file; without one, the defaults
        file: Option<PathBuf>,
    },
}

/// Looks at the file, whose keys are flags of the subcommand `agent` of `command`.
pub(crate) fn run(args: &ConfigArgs, command: Command) -> ExitCode {
    let agent = agent_of(command);
    let looked = match &args.command {
        ConfigCommand::Check { file } => check(file, &agent),
        ConfigCommand::Show { file } => show(file.as_deref(), &agent),
    };
    looked.unwrap_or_else(|error| {
        for line in causes(&error).lines() {
            complain(line);
        }
        ExitCode::from(WRONG)
    })
}

/// The agent's own command line.
fn agent_of(mut whole: Command) -> Command {
    whole.build();
    let agent = whole.find_subcommand("agent").cloned();
    agent.unwrap_or(whole)
}

fn check(file: &Path, agent: &Command) -> Result<ExitCode> {
    if !is_agent_file(file) {
        let settings = KubeProxySettings::of(&KubeProxyFlags {
            config: Some(file.to_owned()),
            given: Vec::new(),
        })?;
        for warning in &settings.warnings {
            complain(warning);
        }
        if !settings.unknown.is_empty() {
            return Ok(ExitCode::from(WRONG));
        }
        print(|out| writeln!(out, "{} is a right KubeProxyConfiguration", file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let known = AgentFile::read(file, agent)?;
    let words = ["agent".to_owned()]
        .into_iter()
        .chain(known.words().cloned());
    agent.clone().try_get_matches_from(words)?;
    let count = known.len();
    print(|out| writeln!(out, "{} is right: {count} settings", file.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn show(file: Option<&Path>, agent: &Command) -> Result<ExitCode> {
    let known = match file {
        Some(file) => AgentFile::read(file, agent)?,
        None => AgentFile::default(),
    };
    let words = ["agent".to_owned()]
        .into_iter()
        .chain(known.words().cloned());
    let matches = agent.clone().try_get_matches_from(words)?;
    let mut text = String::new();
    for arg in agent.get_arguments() {
        let Some(long) = arg.get_long().filter(|_| !arg.is_hide_set()) else {
            continue;
        };
        if matches!(long, "config" | "help") {
            continue;
        }
        let id = arg.get_id().as_str();
        let values = matches.get_raw(id).into_iter().flatten();
        let values: Vec<String> = values
            .map(|value| shown(&value.to_string_lossy()))
            .collect();
        let is_said = matches.value_source(id) == Some(ValueSource::CommandLine);
        let comment = if is_said { "" } else { "# " };
        text += &match values.as_slice() {
            [] => format!("# {long} =\n"),
            [one] => format!("{comment}{long} = {one}\n"),
            several => format!("{comment}{long} = [{}]\n", several.join(", ")),
        };
    }
    print(|out| out.write_all(text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

/// A value as the file has it: what is a number or a switch is no text.
fn shown(value: &str) -> String {
    let is_plain = matches!(value, "true" | "false") || value.parse::<i64>().is_ok();
    if is_plain {
        value.to_owned()
    } else {
        // Text is written as in JSON.
        serde_json::Value::from(value).to_string()
    }
}
