use serde_json::{Value, json};
use turnstream_core::{
    Audio, Document, End, ErrorKind, Events, OpaquePart, OutputSchema, ReasoningPart, Replay, ToolSpec,
    TurnBuilder, Wire as _,
};

use super::*;

fn wire() -> Ollama {
    Ollama::new("m")
}

fn body(request: &Request) -> Value {
    serde_json::from_slice(&wire().encode(request).unwrap().body).unwrap()
}

fn messages(request: &Request) -> Value {
    body(request)["messages"].clone()
}

fn warnings(request: &Request) -> Vec<String> {
    wire().encode(request).unwrap().warnings.into_iter().map(|warning| warning.setting.into()).collect()
}

fn refusal(request: &Request) -> String {
    let error = wire().encode(request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    error.message().to_owned()
}

fn hi() -> Request {
    Request::new().user("hi")
}

fn assistant(parts: Vec<Part>) -> Message {
    Message::new(Role::Assistant, parts)
}

fn call(id: &str) -> CallPart {
    CallPart::new(id, "f", "{}")
}

#[test]
fn a_plain_request_is_small() {
    let request = wire().encode(&hi()).unwrap();
    assert_eq!(request.url.as_str(), "http://localhost:11434/api/chat");
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!((header("authorization"), header("accept")), (None, Some("application/x-ndjson")));
    let body = std::str::from_utf8(&request.body).unwrap();
    assert_eq!(body, r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}"#);
    let cloud = Ollama::cloud("m").key("k").encode(&hi()).unwrap();
    assert_eq!(cloud.url.as_str(), "https://ollama.com/api/chat");
    assert_eq!(cloud.headers.get("authorization").unwrap(), "Bearer k");
}

#[test]
fn every_setting_has_its_place() {
    let schema = RawJson::parse(r#"{"type": "object", "properties": {"a": {"type": "number"}}}"#).unwrap();
    let options = Options::new()
        .num_ctx(8192)
        .top_k(5)
        .min_p(0.05)
        .seed(7)
        .repeat_penalty(1.1)
        .keep_alive("10m")
        .model_option("num_gpu", json!(1))
        .extra("truncate", json!(false));
    let request = Request::new()
        .system("Be brief.")
        .system(" ")
        .system("Answer in Danish.")
        .user("hi")
        .tool(ToolSpec::new("f").description("Does f.").parameters(schema))
        .tool(ToolSpec::new("now"))
        .tool_choice(ToolChoice::Auto)
        .parallel_calls(true)
        .max_tokens(300)
        .temperature(0.5)
        .top_p(0.9)
        .stop("END")
        .reasoning(ReasoningEffort::High)
        .output_schema(OutputSchema::new("answer", json!({ "type": "object" })))
        .options(options);
    let encoded = wire().encode(&request).unwrap();
    assert!(encoded.warnings.is_empty());
    assert!(String::from_utf8_lossy(&encoded.body).contains(r#"{"type": "object", "properties": {"a""#));
    assert_eq!(
        serde_json::from_slice::<Value>(&encoded.body).unwrap(),
        json!({
            "model": "m",
            "messages": [
                { "role": "system", "content": "Be brief.\n\nAnswer in Danish." },
                { "role": "user", "content": "hi" },
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "f",
                        "description": "Does f.",
                        "parameters": { "type": "object", "properties": { "a": { "type": "number" } } },
                    },
                },
                {
                    "type": "function",
                    "function": {
                        "name": "now",
                        "parameters": { "type": "object", "properties": {}, "additionalProperties": false },
                    },
                },
            ],
            "format": { "type": "object" },
            "think": "high",
            "options": {
                "num_ctx": 8192,
                "num_predict": 300,
                "temperature": 0.5,
                "top_p": 0.9,
                "top_k": 5,
                "min_p": 0.05,
                "seed": 7,
                "repeat_penalty": 1.1,
                "stop": ["END"],
                "num_gpu": 1,
            },
            "keep_alive": "10m",
            "stream": true,
            "truncate": false,
        })
    );
}

#[test]
fn what_the_wire_has_no_word_for_is_a_warning_or_an_error() {
    let mut output = OutputSchema::new("answer", json!({}));
    output.description = Some("The answer.".to_owned());
    output.strict = false;
    let hints =
        hi().metadata("team", "t").output_schema(output.clone()).tool(ToolSpec::new("f").strict(true));
    assert_eq!(
        warnings(&hints),
        ["strict", "output_schema.description", "output_schema.strict", "metadata.team"]
    );

    let user = |part: Part| Request::new().message(Message::new(Role::User, vec![part]));
    assert!(refusal(&hi().tool(ToolSpec::new("f").free_form())).contains("free-form"));
    assert!(refusal(&hi().tool(ToolSpec::new("srv.get file"))).contains("srv.get file"));
    assert!(refusal(&user(Audio::base64("audio/wav", "UklGRg==").into())).contains("sound"));
    assert!(refusal(&user(Document::base64("application/pdf", "JVBERg==").into())).contains("documents"));
    assert!(refusal(&user(Image::url("https://h/a.png").into())).contains("base64"));
    assert!(refusal(&user(call("a").into())).contains("text, images and results"));
    let seen = assistant(vec![Image::base64("image/png", "iVBORw0KGgo=").into()]);
    assert!(refusal(&Request::new().message(seen)).contains("text, thinking and calls"));
    assert!(refusal(&hi().options(Options::new().extra("model", json!("x")))).contains("`model`"));
    let twice = hi().temperature(0.1).options(Options::new().model_option("temperature", json!(0.2)));
    assert!(refusal(&twice).contains("`temperature`"));
    let both = hi().output_schema(output).options(Options::new().json_object(true));
    assert!(refusal(&both).contains("any JSON object"));
    assert_eq!(body(&hi().options(Options::new().json_object(true)))["format"], "json");
}

#[test]
fn a_tool_choice_is_left_to_the_model_or_takes_the_tools_away() {
    let with_tool = || hi().tool(ToolSpec::new("f"));
    assert!(body(&with_tool().tool_choice(ToolChoice::Auto)).get("tools").is_some());
    assert_eq!(body(&with_tool().tool_choice(ToolChoice::None).parallel_calls(false)).get("tools"), None);
    let forced = "this wire cannot force a call: leave the tool choice to the model";
    assert_eq!(refusal(&with_tool().tool_choice(ToolChoice::Required)), forced);
    assert_eq!(refusal(&with_tool().tool_choice(ToolChoice::Tool("f".into()))), forced);
    assert_eq!(
        refusal(&hi().tool_choice(ToolChoice::Required)),
        "the tool choice forces a call, and no tool is offered"
    );
    assert_eq!(
        refusal(&with_tool().parallel_calls(false)),
        "this wire cannot forbid several calls in one turn"
    );
    // Without tools there are no calls to forbid.
    assert_eq!(body(&hi().parallel_calls(false)), body(&hi()));
}

#[test]
fn reasoning_becomes_think() {
    let think = |effort| body(&hi().reasoning(effort))["think"].clone();
    assert_eq!(think(ReasoningEffort::None), false);
    assert_eq!(think(ReasoningEffort::Low), "low");
    assert_eq!(think(ReasoningEffort::Medium), "medium");
    assert_eq!(think(ReasoningEffort::Max), "max");
    for (effort, word) in [(ReasoningEffort::Minimal, "low"), (ReasoningEffort::XHigh, "max")] {
        assert_eq!(think(effort), word);
        assert_eq!(warnings(&hi().reasoning(effort)), ["reasoning"]);
    }
    assert_eq!(body(&hi().options(Options::new().extra("think", json!(true))))["think"], true);
}

#[test]
fn results_are_messages_in_call_order_and_their_images_follow() {
    let image = || Image::base64("image/png", "iVBORw0KGgo=");
    let chart = vec![ResultContent::Text("chart".to_owned()), ResultContent::Image(image())];
    let results = [
        ResultPart::new("a", "f", chart),
        ResultPart::text("b", "g", "").with_error(),
        ResultPart::text("c", "h", " "),
        ResultPart::new("d", "i", vec![ResultContent::Image(image())]),
    ];
    let results = Message::results(results).with_part("And then?");
    let calls = ["a", "b", "c", "d"].map(|id| call(id).into());
    let request = Request::new().user("go").message(assistant(calls.into())).message(results);
    assert_eq!(
        messages(&request).as_array().unwrap()[2..],
        [
            json!({ "role": "tool", "content": "chart", "tool_name": "f", "tool_call_id": "a" }),
            json!({
                "role": "tool",
                "content": "Error: The tool failed and said nothing.",
                "tool_name": "g",
                "tool_call_id": "b",
            }),
            json!({ "role": "tool", "content": "(no output)", "tool_name": "h", "tool_call_id": "c" }),
            json!({ "role": "tool", "content": "(see the images below)", "tool_name": "i", "tool_call_id": "d" }),
            json!({
                "role": "user",
                "content": "Images from the result of `f`:\nImages from the result of `i`:\nAnd then?",
                "images": ["iVBORw0KGgo=", "iVBORw0KGgo="],
            }),
        ]
    );
    let document = ResultPart::new("a", "f", vec![ResultContent::Document(Document::url("https://h"))]);
    assert!(refusal(&Request::new().message(Message::results([document]))).contains("documents"));
}

#[test]
fn a_made_up_id_is_left_out_in_call_and_result_alike() {
    let calls = vec![call("turnstream_call_0").with_made_up_id().into(), call("b").into()];
    let results = ["turnstream_call_0", "b"].map(|id| ResultPart::text(id, "f", "x"));
    let request = Request::new().message(assistant(calls)).message(Message::results(results));
    assert_eq!(
        messages(&request),
        json!([
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    { "function": { "name": "f", "arguments": {} } },
                    { "id": "b", "function": { "name": "f", "arguments": {} } },
                ],
            },
            { "role": "tool", "content": "x", "tool_name": "f" },
            { "role": "tool", "content": "x", "tool_name": "f", "tool_call_id": "b" },
        ])
    );
}

#[test]
fn arguments_go_back_as_the_object_that_they_are() {
    let table = [
        ("", "{}"),
        (" null ", "{}"),
        ("{\"b\": 1.0, \"a\":\"\\u00e9\\ud83d\"}", "{\"b\": 1.0, \"a\":\"\\u00e9\\ud83d\"}"),
        ("[1, 2.0]", "{\"input\":[1, 2.0]}"),
        ("\"x\"", "{\"input\":\"x\"}"),
        ("{\"cut", "{\"input\":\"{\\\"cut\"}"),
    ];
    for (arguments, written) in table {
        let part = CallPart::new("a", "f", arguments);
        let sent = wire().encode(&Request::new().message(assistant(vec![part.into()]))).unwrap().body;
        let sent = String::from_utf8_lossy(&sent).into_owned();
        assert!(sent.contains(&format!("\"name\":\"f\",\"arguments\":{written}}}")), "{arguments}: {sent}");
    }
    let free = CallPart::new("a", "f", "{\"a\":1}").with_input(InputKind::Text);
    let sent = messages(&Request::new().message(assistant(vec![free.into()])));
    assert_eq!(sent[0]["tool_calls"][0]["function"]["arguments"], json!({ "input": "{\"a\":1}" }));
}

#[test]
fn what_another_wire_left_stays_here() {
    let foreign = || Replay::new("openai-responses", json!({ "type": "reasoning", "id": "rs_1" }).into());
    let parts = vec![
        Part::Reasoning(ReasoningPart::new("theirs", Some(foreign()))),
        Part::Reasoning(ReasoningPart::new("hm", None)),
        Part::Opaque(OpaquePart::new(foreign())),
        Part::text("So."),
        call("a").with_replay(foreign()).into(),
    ];
    assert_eq!(
        messages(&Request::new().message(assistant(parts))),
        json!([{
            "role": "assistant",
            "content": "So.",
            "thinking": "hm",
            "tool_calls": [{ "id": "a", "function": { "name": "f", "arguments": {} } }],
        }])
    );
    let only = assistant(vec![Part::Reasoning(ReasoningPart::new("hm", Some(foreign()))), Part::text(" ")]);
    assert_eq!(messages(&Request::new().user("a").message(only).user("b")).as_array().unwrap().len(), 2);
}

#[test]
fn texts_of_one_message_are_lines_and_images_go_with_them() {
    let parts = vec![
        Part::text("Look:"),
        Image::base64("image/png", "iVBORw0KGgo=").into(),
        Part::text(""),
        Part::text("What is it?"),
    ];
    let request = Request::new().message(Message::new(Role::User, parts)).user("Well?");
    assert_eq!(
        messages(&request),
        json!([
            { "role": "user", "content": "Look:\nWhat is it?", "images": ["iVBORw0KGgo="] },
            { "role": "user", "content": "Well?" },
        ])
    );
}

#[test]
fn a_reply_goes_back_as_it_came() {
    let lines = [
        r#"{"model":"m","message":{"role":"assistant","content":"","thinking":"hm "}}"#,
        r#"{"model":"m","message":{"role":"assistant","content":"","thinking":"so"}}"#,
        r#"{"model":"m","message":{"role":"assistant","content":"Let me "}}"#,
        r#"{"model":"m","message":{"role":"assistant","content":"look."}}"#,
        r#"{"model":"m","message":{"tool_calls":[{"id":"call_1","function":{"name":"f","arguments":{"a": 1.0}}}]}}"#,
        r#"{"model":"m","message":{"tool_calls":[{"function":{"name":"g.h"}}]},"done":true,"done_reason":"stop"}"#,
    ];
    let (mut decoder, mut events) = (wire().decoder(), Events::new());
    decoder.feed(lines.join("\n").as_bytes(), &mut events);
    decoder.end(End::Closed, &mut events);
    let mut turn = TurnBuilder::new();
    events.for_each(|event| turn.push(&event.unwrap()));
    let sent = wire().encode(&Request::new().message(turn.build().into_message())).unwrap().body;
    let want = concat!(
        r#"{"role":"assistant","content":"Let me look.","thinking":"hm so","tool_calls":["#,
        r#"{"id":"call_1","function":{"name":"f","arguments":{"a": 1.0}}},"#,
        r#"{"function":{"name":"g.h","arguments":{}}}]}"#
    );
    let sent = String::from_utf8_lossy(&sent);
    assert!(sent.contains(want), "{sent}");
}
