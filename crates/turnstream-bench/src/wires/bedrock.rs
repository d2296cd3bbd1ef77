//! Amazon Bedrock's ConverseStream: binary messages, whose payloads are padded by chance.

use turnstream_testing::bedrock::frame;

use super::{WriteTurn, quoted};
use crate::body::Body;

#[derive(Debug)]
pub(super) struct Writer {
    body: Body,
    blocks: usize,
    open: Option<Open>,
    has_call: bool,
    messages: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Call,
}

impl Writer {
    pub(super) fn start() -> Self {
        let mut writer = Self { body: Body::default(), blocks: 0, open: None, has_call: false, messages: 0 };
        let padding = writer.padding();
        writer.push("messageStart", &format!(r#"{{{padding},"role":"assistant"}}"#));
        writer
    }

    fn push(&mut self, event: &str, payload: &str) {
        self.body.push_frame(&frame(event, payload));
    }

    /// The field of every payload that hides how long it is.
    fn padding(&mut self) -> String {
        // A step without a factor in common with the number of letters meets every length once in 62 messages.
        self.messages += 1;
        let length = 1 + self.messages * 37 % LETTERS.len();
        format!(r#""p":"{}""#, LETTERS.get(..length).unwrap_or(LETTERS))
    }

    fn begin(&mut self, kind: Open) {
        self.close();
        (self.open, self.blocks) = (Some(kind), self.blocks + 1);
    }

    /// A delta of the block that began last.
    fn delta(&mut self, delta: &str) {
        let (index, padding) = (self.blocks - 1, self.padding());
        let payload = format!(r#"{{"contentBlockIndex":{index},"delta":{delta},{padding}}}"#);
        self.body.push_delta_frame(&frame("contentBlockDelta", &payload));
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            let (index, padding) = (self.blocks - 1, self.padding());
            self.push("contentBlockStop", &format!(r#"{{"contentBlockIndex":{index},{padding}}}"#));
        }
    }
}

impl WriteTurn for Writer {
    fn text(&mut self, text: &str) {
        // Blocks of text have no start.
        if self.open != Some(Open::Text) {
            self.begin(Open::Text);
        }
        self.delta(&format!(r#"{{"text":{}}}"#, quoted(text)));
    }

    fn call(&mut self, id: &str, name: &str) {
        self.begin(Open::Call);
        self.has_call = true;
        let (index, padding) = (self.blocks - 1, self.padding());
        let start = format!(r#"{{"toolUse":{{"name":"{name}","toolUseId":"{id}"}}}}"#);
        self.push(
            "contentBlockStart",
            &format!(r#"{{"contentBlockIndex":{index},{padding},"start":{start}}}"#),
        );
    }

    fn fragment(&mut self, fragment: &str) {
        self.delta(&format!(r#"{{"toolUse":{{"input":{}}}}}"#, quoted(fragment)));
    }

    fn finish(mut self: Box<Self>) -> Body {
        self.close();
        let reason = if self.has_call { "tool_use" } else { "end_turn" };
        let (stop, usage) = (self.padding(), self.padding());
        self.push("messageStop", &format!(r#"{{{stop},"stopReason":"{reason}"}}"#));
        self.push(
            "metadata",
            &format!(
                r#"{{"metrics":{{"latencyMs":1174}},{usage},"usage":{{"inputTokens":472,"outputTokens":89,"serverToolUsage":{{}},"totalTokens":561}}}}"#
            ),
        );
        self.body
    }
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
