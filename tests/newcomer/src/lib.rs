//! A concierge: tells guests what is on tonight.

use std::sync::Arc;

use serde_json::Value;
use turnstream::{Event, Model, Request, RunEvent, RunStatus, Schema, Tool, ToolLoop};

/// Answers guests.
pub struct Concierge {
    model: Arc<dyn Model>,
}

/// An answer to a guest.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// What the guest reads.
    pub text: String,
    /// Which programmes were looked up.
    pub looked_up: Vec<String>,
    /// Whether the answer came to its end.
    pub is_whole: bool,
}

impl Concierge {
    /// A concierge who asks this model.
    pub fn new(model: impl Model + 'static) -> Self {
        Self { model: Arc::new(model) }
    }

    /// Answers one question.
    pub async fn answer(&self, question: &str) -> Answer {
        let programme = Tool::new("programme")
            .description("What is on in a house tonight.")
            .parameters(Schema::object().string("house", "The name of the house."))
            .handler(|args: Value| async move {
                match args["house"].as_str() {
                    Some("Opera") => Ok("Tosca, 19:30"),
                    _ => Err("there is no such house".into()),
                }
            });
        let request = Request::new().system("You are a concierge.").user(question);
        let mut run = ToolLoop::new(self.model.clone()).tool(programme).run(request);
        let (mut text, mut looked_up) = (String::new(), Vec::new());
        while let Some(event) = run.next().await {
            match event {
                RunEvent::Turn(turn) => match turn.event {
                    Event::TextDelta(delta) => text.push_str(&delta.text),
                    Event::CallFinished(call) => looked_up.push(call.name.to_string()),
                    _ => {}
                },
                RunEvent::TurnBegan(_) if !text.is_empty() => text.push(' '),
                _ => {}
            }
        }
        let is_whole = matches!(run.outcome().status, RunStatus::Finished);
        Answer { text, looked_up, is_whole }
    }
}
