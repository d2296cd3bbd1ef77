//! One run of the loop over HTTP, on any wire, with all that can be seen of it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use std::sync::{Arc, Mutex};

use serde_json::Value;
use turnstream::{ErrorKind, Outcome, Request, RunStatus, Tool, ToolError, ToolLoop};
use turnstream_testing::{
    HttpWire, OverHttp, Reply, Script, SentPart, SentRequest, anthropic, bedrock, gemini, ollama,
    openai_chat, openai_responses,
};
use turnstream_tests::TestedWire;
use wiremock::MockServer;

/// The testing kit's words for one wire.
#[derive(Clone, Copy)]
pub struct Kit<W> {
    pub wire: TestedWire,
    pub script: fn() -> Script<W>,
    pub reply: fn() -> Reply<OverHttp<W>>,
    /// How the wire says that calls wait.
    pub calls_word: &'static str,
}

pub const ANTHROPIC: Kit<anthropic::Messages> = Kit {
    wire: TestedWire::Anthropic,
    script: Script::anthropic,
    reply: anthropic::Reply::new,
    calls_word: "tool_use",
};

pub const CHAT: Kit<openai_chat::Completions> = Kit {
    wire: TestedWire::OpenAiChat,
    script: Script::openai_chat,
    reply: openai_chat::Reply::new,
    calls_word: "tool_calls",
};

pub const BEDROCK: Kit<bedrock::Converse> = Kit {
    wire: TestedWire::Bedrock,
    script: Script::bedrock,
    reply: bedrock::Reply::new,
    calls_word: "tool_use",
};

pub const GEMINI: Kit<gemini::Responses> =
    Kit { wire: TestedWire::Gemini, script: Script::gemini, reply: gemini::Reply::new, calls_word: "STOP" };

pub const OLLAMA: Kit<ollama::Chat> =
    Kit { wire: TestedWire::Ollama, script: Script::ollama, reply: ollama::Reply::new, calls_word: "stop" };

pub const RESPONSES: Kit<openai_responses::Responses> = Kit {
    wire: TestedWire::OpenAiResponses,
    script: Script::openai_responses,
    reply: openai_responses::Reply::new,
    calls_word: "completed",
};

/// What a run left, and what was sent.
pub struct Played {
    pub outcome: Outcome,
    pub requests: Vec<SentRequest>,
}

impl<W: HttpWire> Kit<W> {
    /// Runs the loop against a server that gives these replies, one a request, and no more.
    pub async fn play(
        &self,
        replies: impl IntoIterator<Item = Reply<OverHttp<W>>>,
        tools: impl IntoIterator<Item = Tool>,
        request: Request,
    ) -> Played {
        self.play_with(replies, request, |tool_loop| tool_loop.tools(tools)).await
    }

    /// The same, with a loop that the test sets up.
    pub async fn play_with(
        &self,
        replies: impl IntoIterator<Item = Reply<OverHttp<W>>>,
        request: Request,
        set_up: impl FnOnce(ToolLoop) -> ToolLoop,
    ) -> Played {
        let server = MockServer::start().await;
        let script = replies.into_iter().fold((self.script)(), Script::turn).mount(&server).await;
        let run = set_up(ToolLoop::new(self.wire.client(&server.uri()))).run(request);
        let outcome = run.finish().await;
        let requests = script.requests();
        script.verify();
        Played { outcome, requests }
    }

    /// A plain answer.
    pub fn answer(&self, text: &str) -> Reply<OverHttp<W>> {
        (self.reply)().text([text])
    }
}

/// What a request says behind the user's first words, a line a part.
pub fn tail(request: &SentRequest) -> Vec<String> {
    let parts = request.parts.iter().skip(1);
    parts
        .map(|part| match part {
            SentPart::Text(text) if text.is_user => format!("user: {}", text.text),
            SentPart::Text(text) => format!("model: {}", text.text),
            SentPart::Call(call) => format!("call {} {} {}", call.id, call.name, call.arguments),
            SentPart::Result(result) => format!("result {}: {}", result.call_id, result.content),
            other => panic!("{other:?} is not known"),
        })
        .collect()
}

/// How a run ended, in short.
pub fn ended(outcome: &Outcome) -> String {
    match &outcome.status {
        RunStatus::Stopped(reason) => format!("stopped by {reason}"),
        RunStatus::Failed(error) => format!("failed: {}", error.kind()),
        status => status.kind().to_string(),
    }
}

/// The kind of error in which a run ended.
pub fn failure(outcome: &Outcome) -> Option<ErrorKind> {
    outcome.error().map(turnstream::Error::kind)
}

/// The handlers that ran, each with its arguments.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// A tool that writes down its name and arguments, and answers with the words.
    pub fn tool(&self, name: &'static str, answer: &'static str) -> Tool {
        self.tool_that(name, move || Ok(answer))
    }

    /// A tool that writes down its name and arguments, and then does this.
    pub fn tool_that(
        &self,
        name: &'static str,
        answer: impl Fn() -> Result<&'static str, ToolError> + Send + Sync + 'static,
    ) -> Tool {
        let log = self.clone();
        Tool::new(name).handler(move |arguments: Value| {
            log.add(format!("{name} {arguments}"));
            let answer = answer();
            async move { answer }
        })
    }
}
