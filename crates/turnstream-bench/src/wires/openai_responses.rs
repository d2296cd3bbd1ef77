//! OpenAI Responses. It says every text four times: in deltas, at the end of the text, at the end of the
//! item, and at the end of the response.

use super::{WriteTurn, quoted};
use crate::body::Body;

#[derive(Debug)]
pub(super) struct Writer {
    body: Body,
    sequence: usize,
    open: Option<Open>,
    /// The items that are done, as JSON.
    items: Vec<String>,
}

/// The item that is open, and what it says so far.
#[derive(Debug)]
enum Open {
    Message { text: String },
    Call { id: String, name: String, arguments: String },
}

impl Writer {
    pub(super) fn start() -> Self {
        let mut writer = Self { body: Body::default(), sequence: 0, open: None, items: Vec::new() };
        for kind in ["response.created", "response.in_progress"] {
            writer.frame(kind, &format!(r#""response":{}"#, response("in_progress", "")));
        }
        writer
    }

    fn frame(&mut self, kind: &str, fields: &str) {
        let data = self.data(kind, fields);
        self.body.push(kind, &data);
    }

    fn delta(&mut self, kind: &str, fields: &str) {
        let data = self.data(kind, fields);
        self.body.push_delta(kind, &data);
    }

    fn data(&mut self, kind: &str, fields: &str) -> String {
        let sequence = self.sequence;
        self.sequence += 1;
        format!(r#"{{"type":"{kind}","sequence_number":{sequence},{fields}}}"#)
    }

    fn place(&self) -> String {
        let index = self.items.len();
        format!(r#""item_id":"item_0b22{index}","output_index":{index}"#)
    }

    fn item(&mut self, kind: &str, item: &str) {
        let index = self.items.len();
        self.frame(kind, &format!(r#""output_index":{index},"item":{item}"#));
    }

    fn close(&mut self) {
        let (index, place) = (self.items.len(), self.place());
        let item = match self.open.take() {
            None => return,
            Some(Open::Message { text }) => {
                let text = quoted(&text);
                let part =
                    format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{text}}}"#);
                let fields = format!(r#"{place},"content_index":0,"text":{text},"logprobs":[]"#);
                self.frame("response.output_text.done", &fields);
                let fields = format!(r#"{place},"content_index":0,"part":{part}"#);
                self.frame("response.content_part.done", &fields);
                format!(
                    r#"{{"id":"item_0b22{index}","type":"message","status":"completed","content":[{part}],"role":"assistant"}}"#
                )
            }
            Some(Open::Call { id, name, arguments }) => {
                let arguments = quoted(&arguments);
                self.frame(
                    "response.function_call_arguments.done",
                    &format!(r#"{place},"arguments":{arguments}"#),
                );
                format!(
                    r#"{{"id":"item_0b22{index}","type":"function_call","status":"completed","arguments":{arguments},"call_id":"{id}","name":"{name}"}}"#
                )
            }
        };
        self.item("response.output_item.done", &item);
        self.items.push(item);
    }
}

impl WriteTurn for Writer {
    fn text(&mut self, piece: &str) {
        if !matches!(self.open, Some(Open::Message { .. })) {
            self.close();
            self.open = Some(Open::Message { text: String::new() });
            let (index, place) = (self.items.len(), self.place());
            let item = format!(
                r#"{{"id":"item_0b22{index}","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#
            );
            self.item("response.output_item.added", &item);
            let part = r#""part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}"#;
            self.frame("response.content_part.added", &format!(r#"{place},"content_index":0,{part}"#));
        }
        if let Some(Open::Message { text }) = &mut self.open {
            text.push_str(piece);
        }
        let (place, piece) = (self.place(), quoted(piece));
        self.delta(
            "response.output_text.delta",
            &format!(r#"{place},"content_index":0,"delta":{piece},"logprobs":[],"obfuscation":"kPz1Wq""#),
        );
    }

    fn call(&mut self, id: &str, name: &str) {
        self.close();
        let index = self.items.len();
        let item = format!(
            r#"{{"id":"item_0b22{index}","type":"function_call","status":"in_progress","arguments":"","call_id":"{id}","name":"{name}"}}"#
        );
        self.item("response.output_item.added", &item);
        self.open = Some(Open::Call { id: id.to_owned(), name: name.to_owned(), arguments: String::new() });
    }

    fn fragment(&mut self, fragment: &str) {
        if let Some(Open::Call { arguments, .. }) = &mut self.open {
            arguments.push_str(fragment);
        }
        let (place, fragment) = (self.place(), quoted(fragment));
        self.delta(
            "response.function_call_arguments.delta",
            &format!(r#"{place},"delta":{fragment},"obfuscation":"kPz1Wq""#),
        );
    }

    fn comment(&mut self) {
        self.body.push_comment();
    }

    fn finish(mut self: Box<Self>) -> Body {
        self.close();
        let output = self.items.join(",");
        self.frame("response.completed", &format!(r#""response":{}"#, response("completed", &output)));
        self.body
    }
}

fn response(status: &str, output: &str) -> String {
    let usage = match status {
        "completed" => {
            r#"{"input_tokens":472,"input_tokens_details":{"cached_tokens":0},"output_tokens":89,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":561}"#
        }
        _ => "null",
    };
    format!(
        r#"{{"id":"resp_0b22","object":"response","created_at":1796040000,"status":"{status}","error":null,"incomplete_details":null,"model":"gpt-5.2-2025-12-11","output":[{output}],"parallel_tool_calls":true,"store":false,"usage":{usage}}}"#
    )
}
