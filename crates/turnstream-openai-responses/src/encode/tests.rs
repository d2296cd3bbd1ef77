use serde_json::{Value, json};
use turnstream_core::{
    Audio, Decode, End, ErrorKind, Events, Limits, OpaquePart, OutputSchema, ReasoningPart, Replay,
    SseDecoder, TurnBuilder, Wire,
};

use super::*;
use crate::{
    Profile,
    decode::{Interpreter, RULES},
};

fn text_of_body(wire: &OpenAiResponses, request: &Request) -> String {
    let sent = wire.encode(request).unwrap();
    assert_eq!(sent.warnings, []);
    String::from_utf8(sent.body.to_vec()).unwrap()
}

fn body(request: &Request) -> Value {
    serde_json::from_str(&text_of_body(&OpenAiResponses::new("gpt-5-mini"), request)).unwrap()
}

fn input(request: &Request) -> Value {
    body(request)["input"].take()
}

fn refused(request: &Request) -> String {
    let error = OpenAiResponses::new("m").encode(request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    error.message().to_owned()
}

fn raw(json: &str) -> RawJson {
    RawJson::parse(json).unwrap()
}

/// The message that a decoded reply makes.
fn reply(frames: &[&str]) -> Message {
    let mut decoder = SseDecoder::new(RULES, Limits::default(), Interpreter::default());
    let mut events = Events::new();
    for frame in frames {
        decoder.feed(format!("data: {frame}\n\n").as_bytes(), &mut events);
    }
    decoder.end(End::Closed, &mut events);
    let mut turn = TurnBuilder::new();
    events.for_each(|event| turn.push(&event.unwrap()));
    turn.build().into_message()
}

#[test]
fn every_setting_has_its_word() {
    let schema = raw(r#"{"type":"object","properties":{"order_id":{"type":"string"}}}"#);
    let options = Options::new()
        .summary(Summary::Auto)
        .verbosity(Verbosity::Low)
        .truncation(Truncation::Disabled)
        .service_tier("flex")
        .prompt_cache_key("k")
        .safety_identifier("u")
        .previous_response_id("resp_1")
        .include("web_search_call.action.sources")
        .server_tool(raw(r#"{"type":"web_search"}"#))
        .grammar("sql", Grammar::lark("start: \"x\""))
        .extra("max_tool_calls", raw("3"));
    let request = Request::new()
        .system("Be brief.")
        .system("Be kind.")
        .user("hi")
        .tool(ToolSpec::new("lookup").description("Looks up.").parameters(schema).strict(true))
        .tool(ToolSpec::new("now"))
        .tool(ToolSpec::new("sql").free_form())
        .tool_choice(ToolChoice::Tool("sql".into()))
        .parallel_calls(false)
        .max_tokens(300)
        .temperature(0.5)
        .top_p(0.9)
        .reasoning(ReasoningEffort::Low)
        .output_schema(OutputSchema::new("answer", raw(r#"{"type":"object"}"#)))
        .metadata("a", "b")
        .options(options);
    let want = json!({
        "model": "gpt-5-mini",
        "instructions": "Be brief.\n\nBe kind.",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "tools": [
            {"type": "function", "name": "lookup", "description": "Looks up.", "strict": true,
             "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}}},
            {"type": "function", "name": "now", "strict": null,
             "parameters": {"type": "object", "properties": {}, "additionalProperties": false}},
            {"type": "custom", "name": "sql",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"x\""}},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "custom", "name": "sql"},
        "parallel_tool_calls": false,
        "max_output_tokens": 300,
        "temperature": 0.5,
        "top_p": 0.9,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {
            "format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": true},
            "verbosity": "low",
        },
        "metadata": {"a": "b"},
        "include": ["web_search_call.action.sources", "reasoning.encrypted_content"],
        "store": false,
        "previous_response_id": "resp_1",
        "truncation": "disabled",
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "safety_identifier": "u",
        "stream": true,
        "max_tool_calls": 3,
    });
    assert_eq!(body(&request), want);
}

#[test]
fn an_answer_can_be_any_json_object() {
    let request = Request::new().user("q").options(Options::new().json_object());
    assert_eq!(body(&request)["text"], json!({"format": {"type": "json_object"}}));
    let schema = OutputSchema::new("answer", raw("{}"));
    assert!(refused(&request.output_schema(schema)).contains("schema"));
    let by_hand = Options::new().extra("text", raw(r#"{"format":{"type":"text"}}"#));
    let by_hand = body(&Request::new().user("q").options(by_hand));
    assert_eq!(by_hand["text"], json!({"format": {"type": "text"}}));
}

#[test]
fn encrypted_reasoning_is_asked_for_where_it_can_come() {
    let request = Request::new().user("hi");
    let asked = |wire: OpenAiResponses, request: &Request| {
        let body: Value = serde_json::from_str(&text_of_body(&wire, request)).unwrap();
        (body.get("store").cloned(), body.get("include").is_some())
    };
    let new = OpenAiResponses::new;
    let stateless = Some(json!(false));
    for (model, is_asked) in
        [("gpt-5.2", true), ("o4-mini", true), ("gpt-4o", false), ("gpt-5-chat-latest", false)]
    {
        assert_eq!(asked(new(model), &request), (stateless.clone(), is_asked), "{model}");
    }
    assert_eq!(asked(new("grok-4").profile(Profile::Xai), &request), (stateless.clone(), true));
    assert_eq!(asked(new("smol").profile(Profile::LlamaCpp), &request), (None, false));
    let options = |options| request.clone().options(options);
    assert_eq!(asked(new("o3"), &options(Options::new().store(true))), (Some(json!(true)), false));
    let by_hand = options(Options::new().encrypted_reasoning(true));
    assert_eq!(asked(new("gpt-4o"), &by_hand), (stateless, true));
}

#[test]
fn a_reply_goes_back_as_it_came_reasoning_before_its_call() {
    let item = r#"{"type":"reasoning","id":"rs_1", "summary":[],"encrypted_content":"QUJD"}"#;
    let message = reply(&[
        &format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#),
        r#"{"type":"response.output_text.delta","output_index":1,"delta":"Let me look."}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"Let me look."}]}}"#,
        r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"web_search_call","id":"ws_1","action":{"type":"search"}}}"#,
        r#"{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":""}}"#,
        r#"{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"","namespace":"crm","caller":{"type":"direct"},"status":"completed"}}"#,
        r#"{"type":"response.completed","response":{"id":"r","status":"completed"}}"#,
    ]);
    let request =
        Request::new().message(message).message(Message::results([ResultPart::text("call_1", "f", "42")]));
    assert_eq!(
        input(&request),
        json!([
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "QUJD"},
            {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "phase": "commentary",
             "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]},
            {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}", "id": "fc_1",
             "status": "completed", "namespace": "crm", "caller": {"type": "direct"}},
            {"type": "function_call_output", "call_id": "call_1", "output": "42", "namespace": "crm",
             "caller": {"type": "direct"}},
        ])
    );
    // Byte for byte, the blank too.
    assert!(text_of_body(&OpenAiResponses::new("o3"), &request).contains(item));
}

#[test]
fn what_other_wires_kept_is_left_out_and_their_ids_fit() {
    let other = || Replay::new("anthropic-messages", raw(r#"{"signature":"c2ln"}"#));
    let long = "x".repeat(80);
    let mut call = CallPart::new(long.clone(), "f", "");
    call.replay = Some(other());
    let mut well = TextPart::new("Well.");
    well.replay = Some(other());
    let request = Request::new()
        .message(Message::new(
            Role::Assistant,
            vec![
                Part::Reasoning(ReasoningPart::new("hm", Some(other()))),
                Part::Opaque(OpaquePart::new(other())),
                Part::Text(well),
                Part::text(" \n"),
                call.into(),
            ],
        ))
        .message(Message::results([ResultPart::text(long, "f", "1")]));
    let items = input(&request);
    let call_id = items[1]["call_id"].as_str().unwrap().to_owned();
    assert_eq!(call_id.len(), 64);
    assert_eq!(
        items,
        json!([
            {"type": "message", "role": "assistant",
             "content": [{"type": "output_text", "text": "Well.", "annotations": []}]},
            {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call_id, "output": "1"},
        ])
    );
}

#[test]
fn reasoning_that_nothing_follows_goes_back_only_where_it_may() {
    let replay = Replay::new(WIRE, raw(r#"{"type":"reasoning","id":"rs_1","summary":[]}"#));
    let request = Request::new().user("hi").message(Message::new(
        Role::Assistant,
        vec![Part::text("Well."), Part::Opaque(OpaquePart::new(replay))],
    ));
    assert_eq!(input(&request).as_array().unwrap().len(), 2);
    let wire = OpenAiResponses::new("m").profile(Profile::OpenRouter);
    let body: Value = serde_json::from_str(&text_of_body(&wire, &request)).unwrap();
    assert_eq!(body["input"][2], json!({"type": "reasoning", "id": "rs_1", "summary": []}));
}

#[test]
fn results_come_first_in_call_order_each_in_its_shape() {
    let mut free_form = ResultPart::text("d", "sql", "1 row");
    free_form.input = InputKind::Text;
    let results = Message::results([
        ResultPart::text("a", "f", ""),
        ResultPart::text("b", "f", "no such order").with_error(),
        ResultPart::text("c", "f", "").with_error(),
        free_form,
        ResultPart::new(
            "e",
            "chart",
            vec![
                ResultContent::Text("chart".into()),
                ResultContent::Image(Image::base64("image/png", "iVBORw0KGgo=")),
            ],
        ),
    ]);
    let mut parts = vec![Part::text("go on")];
    parts.extend(results.parts);
    let request = Request::new().message(Message::new(Role::User, parts));
    assert_eq!(
        input(&request),
        json!([
            {"type": "function_call_output", "call_id": "a", "output": "(no output)"},
            {"type": "function_call_output", "call_id": "b", "output": "Error: no such order"},
            {"type": "function_call_output", "call_id": "c",
             "output": "Error: The tool failed and said nothing."},
            {"type": "custom_tool_call_output", "call_id": "d", "output": "1 row"},
            {"type": "function_call_output", "call_id": "e", "output": [
                {"type": "input_text", "text": "chart"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
            ]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]},
        ])
    );
}

#[test]
fn images_and_documents_come_from_everywhere() {
    let pdf = |data: &str| Source::Base64 { media_type: "application/pdf".into(), data: data.into() };
    let message = Message::user("look")
        .with_part(Image::url("https://x.example/a.png"))
        .with_part(Image::new(Source::File("file_1".into())))
        .with_part(Document::new(pdf("JVBERg==")))
        .with_part(Document::new(pdf("JVBERg==")).with_name("invoice.pdf"))
        .with_part(Document::new(Source::Url("https://x.example/a.pdf".into())))
        .with_part(Document::new(Source::File("file_2".into())));
    assert_eq!(
        input(&Request::new().message(message))[0]["content"],
        json!([
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": "https://x.example/a.png", "detail": "auto"},
            {"type": "input_image", "file_id": "file_1", "detail": "auto"},
            {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_file", "filename": "invoice.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_file", "file_url": "https://x.example/a.pdf"},
            {"type": "input_file", "file_id": "file_2"},
        ])
    );
}

#[test]
fn system_texts_can_be_messages() {
    let options = Options::new().system_role(SystemRole::Developer);
    let body = body(&Request::new().system("Be brief.").user("hi").options(options));
    assert_eq!(body.get("instructions"), None);
    assert_eq!(
        body["input"][0],
        json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]})
    );
}

#[test]
fn what_the_wire_cannot_express_is_refused_and_what_means_nothing_is_warned_of() {
    let hi = || Request::new().user("hi");
    assert!(refused(&hi().stop("END")).contains("`stop`"));
    let sound = Audio::new(Source::Url("https://x.example/a.wav".into()));
    assert!(refused(&Request::new().message(Message::user("hear").with_part(sound))).contains("sound"));
    assert!(refused(&hi().tool(ToolSpec::new("srv.get file"))).contains("srv.get file"));
    assert!(
        refused(&hi().tool(ToolSpec::new("g")).tool_choice(ToolChoice::Tool("f".into()))).contains("`f`")
    );
    assert!(refused(&hi().options(Options::new().extra("model", raw("1")))).contains("`model`"));
    assert!(refused(&hi().options(Options::new().grammar("f", Grammar::regex("x")))).contains("`f`"));
    let picture = Message::assistant("x").with_part(Image::url("https://x.example/a.png"));
    assert!(refused(&Request::new().message(picture)).contains("image"));

    let sql = || ToolSpec::new("sql").free_form();
    assert!(refused(&hi().tool(sql().parameters(raw("{}")))).contains("`sql`"));
    let sent = OpenAiResponses::new("m").encode(&hi().tool(sql().strict(true))).unwrap();
    let settings: Vec<&str> = sent.warnings.iter().map(|warning| warning.setting.as_str()).collect();
    assert_eq!(settings, ["strict"]);
}

#[test]
fn a_result_has_the_shape_of_its_call() {
    let call = CallPart::new("c1", "sh", "ls").with_input(InputKind::Text);
    let request = Request::new()
        .message(Message::new(Role::Assistant, vec![call.into()]))
        .message(Message::results([ResultPart::text("c1", "sh", "out")]));
    assert_eq!(
        input(&request),
        json!([
            {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "out"},
        ])
    );
}

#[test]
fn blank_system_texts_and_settings_without_tools_to_set_are_left_out() {
    let request = Request::new().system("  ").user("hi").tool_choice(ToolChoice::Auto).parallel_calls(true);
    let plain = body(&Request::new().user("hi"));
    assert_eq!(body(&request), plain);
    assert_eq!(body(&request.clone().options(Options::new().system_role(SystemRole::System))), plain);
    assert!(refused(&request.tool_choice(ToolChoice::Required)).contains("no tool"));
}

#[test]
fn a_tools_name_that_the_model_made_up_is_made_to_fit() {
    let call = turnstream_core::CallPart::new("call_1", "functions.f!", "{}");
    let reply = turnstream_core::Message::new(turnstream_core::Role::Assistant, vec![call.into()]);
    let result = turnstream_core::ResultPart::text("call_1", "functions.f!", "There is no such tool.");
    let request = turnstream_core::Request::new()
        .user("go")
        .message(reply)
        .message(turnstream_core::Message::results([result]));
    let wire = crate::OpenAiResponses::new("m");
    let body = turnstream_core::Wire::encode(&wire, &request).unwrap().body;
    let body = std::str::from_utf8(&body).unwrap();
    assert!(body.contains("\"functionsf") && !body.contains("functions.f!"), "{body}");
}
