//! Gemini's generateContent. A call's arguments come whole, in one frame, and the counts grow with every frame.

use super::{WriteTurn, quoted};
use crate::body::Body;

#[derive(Debug)]
pub(super) struct Writer {
    body: Body,
    open: Option<Call>,
    frames: usize,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Writer {
    pub(super) fn start() -> Self {
        Self { body: Body::default(), open: None, frames: 0 }
    }

    fn close(&mut self) {
        let Some(Call { id, name, arguments }) = self.open.take() else { return };
        let part = format!(r#"{{"functionCall":{{"name":"{name}","args":{arguments},"id":"{id}"}}}}"#);
        self.delta(&part);
    }

    fn delta(&mut self, part: &str) {
        let data = self.frame(part, "");
        self.body.push_delta("", &data);
    }

    fn frame(&mut self, part: &str, reason: &str) -> String {
        self.frames += 1;
        let (said, all) = (4 * self.frames, 472 + 4 * self.frames);
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}}{reason},"index":0}}],"usageMetadata":{{"promptTokenCount":472,"candidatesTokenCount":{said},"totalTokenCount":{all},"promptTokensDetails":[{{"modality":"TEXT","tokenCount":472}}]}},"modelVersion":"gemini-2.5-pro","responseId":"kQ2saXhB7KvP"}}"#
        )
    }
}

impl WriteTurn for Writer {
    fn text(&mut self, text: &str) {
        self.close();
        self.delta(&format!(r#"{{"text":{}}}"#, quoted(text)));
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
        let last = self.frame(r#"{"text":""}"#, r#","finishReason":"STOP""#);
        self.body.push("", &last);
        self.body
    }
}
