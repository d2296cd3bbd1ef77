//! Cohere's v2 chat. Content and calls are counted apart.

use super::{WriteTurn, quoted};
use crate::body::Body;

#[derive(Debug)]
pub(super) struct Writer {
    body: Body,
    contents: usize,
    calls: usize,
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Content,
    Call,
}

impl Writer {
    pub(super) fn start() -> Self {
        let mut writer = Self { body: Body::default(), contents: 0, calls: 0, open: None };
        writer.body.push(
            "message-start",
            r#"{"id":"dc483e13-1e7a-42fe-a063-48bd4f20a39e","type":"message-start","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}"#,
        );
        writer
    }

    /// A frame of the content or the call that began last.
    fn frame(&self, kind: &str, message: &str) -> String {
        let index = match kind {
            "content-start" | "content-delta" => self.contents - 1,
            _ => self.calls - 1,
        };
        format!(r#"{{"type":"{kind}","index":{index},"delta":{{"message":{{{message}}}}}}}"#)
    }

    fn close(&mut self) {
        let (kind, begun) = match self.open.take() {
            Some(Open::Content) => ("content-end", self.contents),
            Some(Open::Call) => ("tool-call-end", self.calls),
            None => return,
        };
        self.body.push(kind, &format!(r#"{{"type":"{kind}","index":{}}}"#, begun - 1));
    }
}

impl WriteTurn for Writer {
    fn text(&mut self, text: &str) {
        if self.open != Some(Open::Content) {
            self.close();
            (self.open, self.contents) = (Some(Open::Content), self.contents + 1);
            let data = self.frame("content-start", r#""content":{"type":"text","text":""}"#);
            self.body.push("content-start", &data);
        }
        let data = self.frame("content-delta", &format!(r#""content":{{"text":{}}}"#, quoted(text)));
        self.body.push_delta("content-delta", &data);
    }

    fn call(&mut self, id: &str, name: &str) {
        self.close();
        (self.open, self.calls) = (Some(Open::Call), self.calls + 1);
        let call = format!(
            r#""tool_calls":{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":""}}}}"#
        );
        let data = self.frame("tool-call-start", &call);
        self.body.push("tool-call-start", &data);
    }

    fn fragment(&mut self, fragment: &str) {
        let call = format!(r#""tool_calls":{{"function":{{"arguments":{}}}}}"#, quoted(fragment));
        let data = self.frame("tool-call-delta", &call);
        self.body.push_delta("tool-call-delta", &data);
    }

    fn comment(&mut self) {
        self.body.push_comment();
    }

    fn finish(mut self: Box<Self>) -> Body {
        self.close();
        let reason = if self.calls > 0 { "TOOL_CALL" } else { "COMPLETE" };
        self.body.push(
            "message-end",
            &format!(
                r#"{{"type":"message-end","delta":{{"finish_reason":"{reason}","usage":{{"billed_units":{{"input_tokens":61,"output_tokens":89}},"tokens":{{"input_tokens":1508,"output_tokens":91}},"cached_tokens":1472}}}}}}"#
            ),
        );
        self.body.push("", "[DONE]");
        self.body
    }
}
