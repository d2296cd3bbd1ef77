//! Gemini's generateContent. A call's arguments come whole, in one frame.

use super::{WriteTurn, quoted};
use crate::body::Body;

#[derive(Debug)]
pub(super) struct Writer {
    body: Body,
    open: Option<Call>,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Writer {
    pub(super) fn start() -> Self {
        Self { body: Body::default(), open: None }
    }

    fn close(&mut self) {
        let Some(Call { id, name, arguments }) = self.open.take() else { return };
        let part = format!(r#"{{"functionCall":{{"name":"{name}","args":{arguments},"id":"{id}"}}}}"#);
        self.body.push_delta("", &frame(&part, ""));
    }
}

impl WriteTurn for Writer {
    fn text(&mut self, text: &str) {
        self.close();
        self.body.push_delta("", &frame(&format!(r#"{{"text":{}}}"#, quoted(text)), ""));
    }

    fn call(&mut self, id: &str, name: &str) {
        self.close();
        self.open = Some(Call { id: id.to_owned(), name: name.to_owned(), arguments: String::new() });
    }

    fn fragment(&mut self, fragment: &str) {
        if let Some(call) = &mut self.open {
            call.arguments.push_str(fragment);
        }
    }

    fn comment(&mut self) {
        self.body.push_comment();
    }

    fn finish(mut self: Box<Self>) -> Body {
        self.close();
        self.body.push("", &frame(r#"{"text":""}"#, r#","finishReason":"STOP""#));
        self.body
    }
}

fn frame(part: &str, reason: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}}{reason},"index":0}}],"usageMetadata":{{"promptTokenCount":472,"candidatesTokenCount":89,"totalTokenCount":561,"promptTokensDetails":[{{"modality":"TEXT","tokenCount":472}}]}},"modelVersion":"gemini-2.5-pro","responseId":"kQ2saXhB7KvP"}}"#
    )
}
