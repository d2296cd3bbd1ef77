//! Anthropic Messages.

use super::{WriteTurn, quoted};
use crate::body::Body;

#[derive(Debug)]
pub(super) struct Writer {
    body: Body,
    blocks: usize,
    open: Option<Open>,
    has_call: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Call,
}

impl Writer {
    pub(super) fn start() -> Self {
        let mut writer = Self { body: Body::default(), blocks: 0, open: None, has_call: false };
        writer.frame(
            "message_start",
            r#","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_01B7kQ2s9Xh","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":472,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2,"service_tier":"standard"}}"#,
        );
        writer
    }

    fn frame(&mut self, kind: &str, fields: &str) {
        self.body.push(kind, &format!(r#"{{"type":"{kind}"{fields}}}"#));
    }

    fn delta(&mut self, delta: &str) {
        let index = self.blocks - 1;
        let data = format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#);
        self.body.push_delta("content_block_delta", &data);
    }

    fn open(&mut self, kind: Open, block: &str) {
        self.close();
        let index = self.blocks;
        self.frame("content_block_start", &format!(r#","index":{index},"content_block":{block}"#));
        self.blocks += 1;
        self.open = Some(kind);
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            let index = self.blocks - 1;
            self.frame("content_block_stop", &format!(r#","index":{index}"#));
        }
    }
}

impl WriteTurn for Writer {
    fn text(&mut self, text: &str) {
        if self.open != Some(Open::Text) {
            self.open(Open::Text, r#"{"type":"text","text":""}"#);
        }
        self.delta(&format!(r#"{{"type":"text_delta","text":{}}}"#, quoted(text)));
    }

    fn call(&mut self, id: &str, name: &str) {
        self.has_call = true;
        self.open(Open::Call, &format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}"#));
    }

    fn fragment(&mut self, fragment: &str) {
        self.delta(&format!(r#"{{"type":"input_json_delta","partial_json":{}}}"#, quoted(fragment)));
    }

    fn comment(&mut self) {
        self.body.push_comment();
    }

    fn finish(mut self: Box<Self>) -> Body {
        self.close();
        let reason = if self.has_call { "tool_use" } else { "end_turn" };
        self.frame(
            "message_delta",
            &format!(
                r#","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":89}}"#
            ),
        );
        self.frame("message_stop", "");
        self.body
    }
}
