//! The `turnstream` command: decodes recorded bodies, shows the requests that would be sent, and chats.
//!
//! Exit codes: 0 the turn finished, 1 the command failed, 2 it was called wrongly, 3 the turn ended in an
//! error.

mod chat;
mod decode;
mod encode;
mod wires;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Language models that stream, from the command line.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Exit codes: 0 turn finished, 1 failed, 2 wrong usage, 3 turn ended in an error."
)]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Decode(decode::Decode),
    Encode(encode::Encode),
    Chat(chat::Chat),
}

fn main() -> ExitCode {
    let done = match Command::parse().task {
        Task::Decode(task) => task.run(),
        Task::Encode(task) => task.run(),
        Task::Chat(task) => task.run(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("turnstream: {error:#}");
        ExitCode::FAILURE
    })
}
