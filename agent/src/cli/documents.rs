//! Files that are shipped beside the program and made of it: completions, man pages, the description of the gRPC
//! interface.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use shunt_api::DESCRIPTION;
use shunt_print::output::print;

/// Print what completes the command line in a shell
///
/// For bash: `source <(shunt completions bash)`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the man pages, one for each subcommand, into a directory
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory; it is made if there is none
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Write the description of the gRPC interface, a FileDescriptorSet, for clients that compile nothing
#[derive(Debug, Args)]
pub(crate) struct DescriptionArgs {
    /// The file; without one it goes to standard output
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Prints what completes `command`.
///
/// # Errors
///
/// The output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "shunt", &mut text);
    print(|out| out.write_all(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the man pages of `command`.
///
/// # Errors
///
/// One cannot be written.
pub(crate) fn man(args: &ManArgs, mut command: Command) -> Result<ExitCode> {
    let ManArgs { folder } = args;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Subcommands inherit nothing before.
    command.build();
    page(&command, "shunt", folder)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command, and those of what is below it.
fn page(command: &Command, name: &str, folder: &Path) -> Result<()> {
    let path = folder.join(format!("{name}.1"));
    let mut text = Vec::new();
    Man::new(command.clone())
        .render(&mut text)
        .with_context(|| format!("cannot make the page of {name}"))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let below = command.get_subcommands();
    let below = below.filter(|found| !found.is_hide_set() && found.get_name() != "help");
    for found in below {
        page(found, &format!("{name}-{}", found.get_name()), folder)?;
    }
    Ok(())
}

/// Writes the description.
///
/// # Errors
///
/// It cannot be written.
pub(crate) fn description(args: &DescriptionArgs) -> Result<ExitCode> {
    match &args.file {
        Some(file) => fs::write(file, DESCRIPTION)
            .with_context(|| format!("cannot write {}", file.display()))?,
        None => io::stdout()
            .write_all(DESCRIPTION)
            .context("cannot write the description")?,
    }
    Ok(ExitCode::SUCCESS)
}
