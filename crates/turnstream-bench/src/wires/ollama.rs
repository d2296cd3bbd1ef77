//! Ollama's chat. Every line says when it was made, and a call's arguments come whole, in one line.

use super::{WriteTurn, quoted};
use crate::body::Body;

#[derive(Debug)]
pub(super) struct Writer {
    body: Body,
    open: Option<Call>,
    lines: usize,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Writer {
    pub(super) fn start() -> Self {
        Self { body: Body::default(), open: None, lines: 0 }
    }

    fn close(&mut self) {
        let Some(Call { id, name, arguments }) = self.open.take() else { return };
        let arguments = escaped(&arguments);
        self.delta(&format!(
            r#""content":"","tool_calls":[{{"id":"{id}","function":{{"index":0,"name":"{name}","arguments":{arguments}}}}}]"#
        ));
    }

    fn delta(&mut self, message: &str) {
        let line = self.line(message, r#""done":false"#);
        self.body.push_delta_frame(line.as_bytes());
    }

    fn line(&mut self, message: &str, end: &str) -> String {
        self.lines += 1;
        // A word each 16 ms or so. Go leaves the zeros at the end of a fraction out.
        let micros = self.lines * 16_273;
        let (minutes, seconds) = (micros / 60_000_000 % 60, micros / 1_000_000 % 60);
        let fraction = format!("{:06}", micros % 1_000_000);
        let fraction = fraction.trim_end_matches('0');
        format!(
            "{{\"model\":\"qwen3:4b\",\"created_at\":\"2026-08-17T15:{minutes:02}:{seconds:02}.{fraction}Z\",\"message\":{{\"role\":\"assistant\",{message}}},{end}}}\n"
        )
    }
}

impl WriteTurn for Writer {
    fn text(&mut self, text: &str) {
        self.close();
        self.delta(&format!(r#""content":{}"#, escaped(&quoted(text))));
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

    fn finish(mut self: Box<Self>) -> Body {
        self.close();
        let last = self.line(
            r#""content":"""#,
            r#""done":true,"done_reason":"stop","total_duration":25630105625,"load_duration":73434292,"prompt_eval_count":192,"prompt_eval_duration":2843630458,"eval_count":89,"eval_duration":20026841611"#,
        );
        self.body.push_frame(last.as_bytes());
        self.body
    }
}

/// JSON as Go writes it, which has escapes for what is markup in HTML. They stand inside of strings only.
fn escaped(json: &str) -> String {
    json.replace('&', r"\u0026").replace('<', r"\u003c").replace('>', r"\u003e")
}
