//! `turnstream completions`: a script that teaches a shell the command.

use std::{io, process::ExitCode};

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a script that completes this command in a shell.
#[derive(Debug, Args)]
#[command(after_help = "For bash:  source <(turnstream completions bash)")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode> {
        clap_complete::generate(self.shell, &mut crate::Command::command(), "turnstream", &mut io::stdout());
        Ok(ExitCode::SUCCESS)
    }
}
