//! OpenAI Chat Completions.

use super::{WriteTurn, quoted};
use crate::body::Body;

#[derive(Debug)]
pub(super) struct Writer {
    body: Body,
    calls: usize,
}

impl Writer {
    pub(super) fn start() -> Self {
        let mut writer = Self { body: Body::default(), calls: 0 };
        let opening = chunk(r#"{"role":"assistant","content":"","refusal":null}"#, "null");
        writer.body.push("", &opening);
        writer
    }

    fn index(&self) -> usize {
        self.calls - 1
    }
}

impl WriteTurn for Writer {
    fn text(&mut self, text: &str) {
        self.body.push_delta("", &chunk(&format!(r#"{{"content":{}}}"#, quoted(text)), "null"));
    }

    fn call(&mut self, id: &str, name: &str) {
        self.calls += 1;
        let index = self.index();
        let delta = format!(
            r#"{{"tool_calls":[{{"index":{index},"id":"{id}","type":"function","function":{{"name":"{name}","arguments":""}}}}]}}"#
        );
        self.body.push("", &chunk(&delta, "null"));
    }

    fn fragment(&mut self, fragment: &str) {
        let (index, fragment) = (self.index(), quoted(fragment));
        let delta =
            format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":{fragment}}}}}]}}"#);
        self.body.push_delta("", &chunk(&delta, "null"));
    }

    fn comment(&mut self) {
        self.body.push_comment();
    }

    fn finish(mut self: Box<Self>) -> Body {
        let reason = if self.calls > 0 { r#""tool_calls""# } else { r#""stop""# };
        self.body.push("", &chunk("{}", reason));
        self.body.push("", "[DONE]");
        self.body
    }
}

fn chunk(delta: &str, reason: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-CkQ2s9XhB7","object":"chat.completion.chunk","created":1796040000,"model":"gpt-5.2-2025-12-11","service_tier":"default","system_fingerprint":"fp_07871e2ad8","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}],"usage":null,"obfuscation":"kPz1Wq"}}"#
    )
}
