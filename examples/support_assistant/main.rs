//! A support assistant that looks orders up and opens tickets.
//!
//! By default it answers from a recorded conversation, over real HTTP, at the recorded pace (`--fast`: at
//! once). With `--provider` and a key in the environment it talks to the real one, or with `--base-url` to any
//! compatible server.

mod recording;
mod screen;
mod tools;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use turnstream::{
    Client, Model, Request, RunStatus, ToolChoice, ToolLoop, anthropic::Anthropic, openai_chat::OpenAiChat,
    openai_responses::OpenAiResponses,
};

use crate::{screen::Screen, tools::Shop};

const QUESTION: &str = "Where are my orders A-4471 and A-4502? If one is stuck, please open a ticket.";

/// A support assistant that looks orders up and opens tickets.
#[derive(Debug, Parser)]
struct Options {
    /// Replay the recorded conversation without its pauses.
    #[arg(long)]
    fast: bool,
    /// Talk to a real provider instead of the recording. The key comes from the environment.
    #[arg(long, value_enum, requires = "model")]
    provider: Option<Provider>,
    /// The model to ask.
    #[arg(long)]
    model: Option<String>,
    /// The address of a compatible server, instead of the provider's own. A key is sent if there is one.
    #[arg(long, requires = "provider")]
    base_url: Option<String>,
    /// Force a call in the first turn, for models too small to think of it, and allow none afterwards.
    #[arg(long)]
    force_call: bool,
    /// The most tokens of one turn.
    #[arg(long, default_value_t = 1024)]
    max_tokens: u64,
    /// Also write every event as a JSON line to this file.
    #[arg(long)]
    events: Option<PathBuf>,
    /// What to ask.
    #[arg(default_value = QUESTION)]
    question: String,
}

/// Who answers.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Provider {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Openai,
    /// OpenAI Chat Completions.
    OpenaiChat,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let replay = match options.provider {
        Some(_) => None,
        None => Some(recording::serve(options.fast).await?),
    };
    let model: Arc<dyn Model> = match (options.provider, &replay) {
        (Some(provider), _) => real(provider, &options)?,
        (None, Some(replay)) => {
            let wire = Anthropic::new("claude-sonnet-4-5").key("none".to_owned()).base_url(replay.base_url());
            Arc::new(Client::new(wire))
        }
        (None, None) => unreachable!("without a provider the recording is served"),
    };

    let shop = Shop::new();
    let mut request = Request::new()
        .system("You are the support assistant of a shop. Look orders up before you answer. Be brief.")
        .user(&options.question)
        .max_tokens(options.max_tokens);
    if options.force_call {
        request = request.tool_choice(ToolChoice::Required).temperature(0.0);
    }
    let mut run = ToolLoop::new(model)
        .tool(tools::lookup_order(shop.clone()))
        .tool(tools::create_ticket(shop))
        .max_turns(8)
        .run(request);

    println!("> {}\n", options.question);
    let mut screen = Screen::new(options.events.as_deref())?;
    while let Some(event) = run.next().await {
        screen.show(&event)?;
    }
    let outcome = run.outcome();
    println!("\n\n[{} turns, {} calls]", outcome.turns, outcome.calls);
    Ok(match outcome.status {
        RunStatus::Finished => ExitCode::SUCCESS,
        RunStatus::Failed(error) => {
            eprintln!("[failed: {error}]");
            ExitCode::FAILURE
        }
        other => {
            eprintln!("[ended: {:?}]", other.kind());
            ExitCode::FAILURE
        }
    })
}

/// A client for a real provider. A server at an address of one's own may need no key.
fn real(provider: Provider, options: &Options) -> Result<Arc<dyn Model>> {
    let model = options.model.as_deref().context("--provider needs --model")?;
    let Some(base_url) = &options.base_url else {
        return Ok(match provider {
            Provider::Anthropic => Arc::new(Client::new(Anthropic::from_env(model)?)),
            Provider::Openai => Arc::new(Client::new(OpenAiResponses::from_env(model)?)),
            Provider::OpenaiChat => Arc::new(Client::new(OpenAiChat::from_env(model)?)),
        });
    };
    Ok(match provider {
        Provider::Anthropic => {
            let wire = Anthropic::from_env(model).unwrap_or_else(|_| Anthropic::new(model));
            Arc::new(Client::new(wire.base_url(base_url)))
        }
        Provider::Openai => {
            let wire = OpenAiResponses::from_env(model).unwrap_or_else(|_| OpenAiResponses::new(model));
            Arc::new(Client::new(wire.base_url(base_url)))
        }
        Provider::OpenaiChat => {
            let wire = OpenAiChat::from_env(model).unwrap_or_else(|_| OpenAiChat::new(model));
            Arc::new(Client::new(wire.base_url(base_url)))
        }
    })
}
