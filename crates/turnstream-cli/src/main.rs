//! The `turnstream` command: decodes recorded bodies, shows the requests that would be sent, records turns,
//! serves recordings, and chats. `docs/command-line.md` is its manual.

mod chat;
mod completions;
mod decode;
mod encode;
mod output;
mod record;
mod recordings;
mod replay;
mod wires;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::{MISUSED, Misuse};

/// Language models that stream, from the command line.
#[derive(Debug, Parser)]
#[command(
    name = "turnstream",
    version,
    after_help = "Exit codes:\n  \
        0  the turn finished\n  \
        1  the command could not do its work: a file, an address, a setting\n  \
        2  it was called wrongly\n  \
        3  the turn did not finish: it ended in an error, was stopped, or was cancelled\n\n\
        Keys are read from the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY, ...) and shown nowhere.\n\
        Colours are for terminals; NO_COLOR turns them off."
)]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Decode(decode::Decode),
    Encode(encode::Encode),
    Record(record::Record),
    Replay(replay::Replay),
    Chat(chat::Chat),
    Completions(completions::Completions),
}

fn main() -> ExitCode {
    let done = match Command::parse().task {
        Task::Decode(task) => task.run(),
        Task::Encode(task) => task.run(),
        Task::Record(task) => task.run(),
        Task::Replay(task) => task.run(),
        Task::Chat(task) => task.run(),
        Task::Completions(task) => task.run(),
    };
    done.unwrap_or_else(|error| {
        // Who closes the pipe has seen enough.
        if is_closed_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        output::complain(&format!("{error:#}"));
        match error.is::<Misuse>() {
            true => ExitCode::from(MISUSED),
            false => ExitCode::FAILURE,
        }
    })
}

/// Whether who reads the output has gone.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |kind| kind == Some(std::io::ErrorKind::BrokenPipe);
    error.chain().any(|cause| closed(cause.downcast_ref().map(std::io::Error::kind)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_is_sound_and_its_manual_names_every_word_of_it() {
        let mut command = Command::command();
        command.build();
        command.clone().debug_assert();
        let manual = include_str!("../../../docs/command-line.md");
        for task in command.get_subcommands().filter(|task| task.get_name() != "help") {
            assert!(manual.contains(&format!("## `turnstream {}", task.get_name())), "{}", task.get_name());
            for flag in task.get_arguments().filter_map(clap::Arg::get_long).filter(|flag| *flag != "help") {
                assert!(manual.contains(&format!("`--{flag}")), "{} --{flag}", task.get_name());
            }
        }
    }
}
