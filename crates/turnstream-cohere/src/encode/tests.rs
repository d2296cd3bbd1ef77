use serde_json::{Value, json};
use turnstream_core::{
    Audio, Document, End, ErrorKind, Events, OpaquePart, OutputSchema, RawJson, ReasoningPart, Replay,
    TurnBuilder, Wire as _,
};

use super::*;

fn wire() -> Cohere {
    Cohere::new("m").key("k")
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

fn assistant(parts: Vec<Part>) -> Request {
    Request::new().message(Message::new(Role::Assistant, parts))
}

fn reasoning(text: &str, mark: &str) -> Part {
    Part::Reasoning(ReasoningPart::new(text, Some(Replay::new(WIRE, RawJson::parse(mark).unwrap()))))
}

#[test]
fn a_plain_request_is_small() {
    let request = wire().encode(&hi()).unwrap();
    assert_eq!(request.url.as_str(), "https://api.cohere.com/v2/chat");
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!((header("authorization"), header("accept")), (Some("Bearer k"), Some("text/event-stream")));
    let body = std::str::from_utf8(&request.body).unwrap();
    assert_eq!(body, r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}"#);
}

#[test]
fn every_setting_has_its_place() {
    let schema = RawJson::parse(r#"{"type": "object", "properties": {"a": {"type": "number"}}}"#).unwrap();
    let options = Options::new()
        .thinking_budget(500)
        .top_k(5)
        .seed(7)
        .frequency_penalty(0.1)
        .presence_penalty(0.2)
        .safety_mode("STRICT")
        .citation_mode("FAST")
        .document(json!("a text"))
        .extra("priority", json!(3));
    let request = Request::new()
        .system("Be brief.")
        .system(" ")
        .system("Answer in Danish.")
        .user("hi")
        .tool(ToolSpec::new("f").description("Does f.").parameters(schema).strict(true))
        .tool_choice(ToolChoice::Required)
        .parallel_calls(true)
        .max_tokens(300)
        .temperature(0.5)
        .top_p(0.9)
        .stop("END")
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
            "tools": [{
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "Does f.",
                    "parameters": { "type": "object", "properties": { "a": { "type": "number" } } },
                },
            }],
            "strict_tools": true,
            "tool_choice": "REQUIRED",
            "documents": ["a text"],
            "citation_options": { "mode": "FAST" },
            "response_format": { "type": "json_object", "json_schema": { "type": "object" } },
            "thinking": { "type": "enabled", "token_budget": 500 },
            "max_tokens": 300,
            "temperature": 0.5,
            "p": 0.9,
            "k": 5,
            "stop_sequences": ["END"],
            "seed": 7,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "safety_mode": "STRICT",
            "stream": true,
            "priority": 3,
        })
    );
}

#[test]
fn a_choice_of_one_tool_offers_that_one_alone() {
    let tools = || hi().tool(ToolSpec::new("f")).tool(ToolSpec::new("g"));
    let said = |request: Request| {
        let body = body(&request);
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<String> =
            tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect();
        (body["tool_choice"].clone(), names)
    };
    let all = || vec!["f".to_owned(), "g".to_owned()];
    assert_eq!(said(tools()), (Value::Null, all()));
    assert_eq!(said(tools().tool_choice(ToolChoice::Auto)), (Value::Null, all()));
    assert_eq!(said(tools().tool_choice(ToolChoice::None).parallel_calls(false)), (json!("NONE"), all()));
    assert_eq!(said(tools().tool_choice(ToolChoice::Required)), (json!("REQUIRED"), all()));
    let one = tools().tool_choice(ToolChoice::Tool("g".into()));
    assert_eq!(said(one), (json!("REQUIRED"), vec!["g".to_owned()]));
    assert_eq!(said(hi().tool_choice(ToolChoice::None)), (Value::Null, vec![]));
    assert!(refusal(&tools().tool_choice(ToolChoice::Tool("h".into()))).contains("`h`"));
    assert!(refusal(&hi().tool_choice(ToolChoice::Required)).contains("no tool is offered"));
    assert!(refusal(&tools().parallel_calls(false)).contains("several calls"));
}

#[test]
fn what_the_wire_has_no_word_for_is_a_warning_or_an_error() {
    let mut output = OutputSchema::new("answer", json!({}));
    output.description = Some("The answer.".to_owned());
    output.strict = false;
    let half_strict = hi().tool(ToolSpec::new("f").strict(true)).tool(ToolSpec::new("g"));
    let hints = half_strict.metadata("team", "t").output_schema(output.clone());
    assert_eq!(
        warnings(&hints),
        ["strict", "output_schema.description", "output_schema.strict", "metadata.team"]
    );
    assert_eq!(body(&hints).get("strict_tools"), None);

    let user = |part: Part| Request::new().message(Message::new(Role::User, vec![part]));
    assert!(refusal(&hi().tool(ToolSpec::new("f").free_form())).contains("free-form"));
    assert!(refusal(&hi().tool(ToolSpec::new("srv.get file"))).contains("srv.get file"));
    assert!(refusal(&user(Audio::base64("audio/wav", "UklGRg==").into())).contains("sound"));
    assert!(
        refusal(&user(Document::base64("application/pdf", "JVBERg==").into())).contains("Options::document")
    );
    assert!(refusal(&user(CallPart::new("a", "f", "{}").into())).contains("text, images and results"));
    assert!(refusal(&assistant(vec![Image::url("https://h/a.png").into()])).contains("reasoning and calls"));
    assert!(refusal(&hi().options(Options::new().extra("model", json!("x")))).contains("`model`"));
    let both = hi().output_schema(output).options(Options::new().json_object(true));
    assert!(refusal(&both).contains("any JSON object"));
    let json_object = hi().options(Options::new().json_object(true));
    assert_eq!(body(&json_object)["response_format"], json!({ "type": "json_object" }));
}

#[test]
fn reasoning_is_a_switch_and_a_budget() {
    let thinking = |request: Request| body(&request).get("thinking").cloned();
    let budget = || hi().options(Options::new().thinking_budget(9));
    assert_eq!(thinking(hi()), None);
    assert_eq!(thinking(hi().reasoning(ReasoningEffort::None)), Some(json!({ "type": "disabled" })));
    assert_eq!(thinking(budget()), Some(json!({ "type": "enabled", "token_budget": 9 })));
    assert_eq!(thinking(hi().reasoning(ReasoningEffort::High)), Some(json!({ "type": "enabled" })));
    assert_eq!(warnings(&hi().reasoning(ReasoningEffort::High)), ["reasoning"]);
    assert!(refusal(&budget().reasoning(ReasoningEffort::None)).contains("turns it off"));
}

#[test]
fn results_are_messages_in_call_order_and_their_images_follow() {
    let image = || Image::base64("image/png", "iVBORw0KGgo=");
    let chart = vec![ResultContent::Text("chart".to_owned()), ResultContent::Image(image())];
    let results = [
        ResultPart::new("a", "f", chart),
        ResultPart::text("b", "f", "").with_error(),
        ResultPart::text("c", "f", " "),
        ResultPart::new("d", "f", vec![ResultContent::Image(image())]),
    ];
    let request = Request::new().message(Message::results(results).with_part("And then?"));
    let url = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let result = |id: &str, content: &str| json!({ "role": "tool", "tool_call_id": id, "content": content });
    assert_eq!(
        messages(&request),
        json!([
            result("a", "chart"),
            result("b", "Error: The tool failed and said nothing."),
            result("c", "(no output)"),
            result("d", "(see the images below)"),
            { "role": "user", "content": [
                text("From the result of the call a:"),
                url,
                text("From the result of the call d:"),
                url,
                text("And then?"),
            ] },
        ])
    );
    let document = ResultPart::new("a", "f", vec![ResultContent::Document(Document::url("https://h"))]);
    assert!(refusal(&Request::new().message(Message::results([document]))).contains("text and images"));
}

#[test]
fn text_beside_calls_is_the_plan_and_thinking_is_content() {
    let call = || CallPart::new("a", "f", "{\"n\": 1.0}").into();
    let sent = |parts: Vec<Part>| messages(&assistant(parts))[0].clone();
    let function = json!({ "name": "f", "arguments": "{\"n\": 1.0}" });
    let tool_calls = json!([{ "id": "a", "type": "function", "function": function }]);
    let thinking = json!({ "type": "thinking", "thinking": "hm" });
    assert_eq!(
        sent(vec![reasoning("I will look.", TOOL_PLAN), reasoning("hm", r#"{"type":"thinking"}"#), call()]),
        json!({ "role": "assistant", "content": [thinking], "tool_plan": "I will look.", "tool_calls": tool_calls })
    );
    assert_eq!(
        sent(vec![reasoning("Plan.", TOOL_PLAN), Part::text("Let me look."), call()]),
        json!({ "role": "assistant", "tool_plan": "Plan.\nLet me look.", "tool_calls": tool_calls })
    );
    assert_eq!(
        sent(vec![reasoning("hm", r#"{"type":"thinking"}"#), Part::text("So.")]),
        json!({ "role": "assistant", "content": [thinking, { "type": "text", "text": "So." }] })
    );
    assert_eq!(
        sent(vec![Part::text("So"), Part::text(".")]),
        json!({ "role": "assistant", "content": "So." })
    );
}

#[test]
fn what_another_wire_left_stays_here() {
    let foreign = || Replay::new("openai-responses", json!({ "type": "reasoning" }).into());
    let parts = vec![
        Part::Reasoning(ReasoningPart::new("theirs", Some(foreign()))),
        Part::Reasoning(ReasoningPart::new("unmarked", None)),
        Part::Opaque(OpaquePart::new(foreign())),
    ];
    assert_eq!(messages(&assistant(parts.clone()).user("b")).as_array().unwrap().len(), 1);
    let with_text = parts.into_iter().chain([Part::text("So.")]).collect();
    assert_eq!(messages(&assistant(with_text)), json!([{ "role": "assistant", "content": "So." }]));
}

#[test]
fn arguments_are_the_text_of_an_object_and_names_fit() {
    let table = [
        (CallPart::new("a", "f", ""), "{}"),
        (CallPart::new("a", "f", " null "), "{}"),
        (CallPart::new("a", "f", "{\"b\": 1.0, \"a\":\"\\ud83d\"}"), "{\"b\": 1.0, \"a\":\"\\ud83d\"}"),
        (CallPart::new("a", "f", "[1, 2.0]"), "{\"input\":\"[1, 2.0]\"}"),
        (CallPart::new("a", "f", "{\"cut"), "{\"input\":\"{\\\"cut\"}"),
        (CallPart::new("a", "f", "{}").with_input(InputKind::Text), "{\"input\":\"{}\"}"),
    ];
    for (part, arguments) in table {
        let sent = messages(&assistant(vec![part.into()]));
        assert_eq!(sent[0]["tool_calls"][0]["function"]["arguments"], arguments);
    }
    let odd = messages(&assistant(vec![CallPart::new("a", "functions.f!", "{}").into()]));
    let name = odd[0]["tool_calls"][0]["function"]["name"].as_str().unwrap();
    assert_eq!(IdForm::TOOL_NAME.fit(name), name);
}

#[test]
fn a_reply_goes_back_as_it_came() {
    let frames = [
        r#"{"type":"message-start","id":"m","delta":{"message":{"content":[]}}}"#,
        r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"thinking","thinking":"hm"}}}}"#,
        r#"{"type":"content-end","index":0}"#,
        r#"{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I will look."}}}"#,
        r#"{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"f_1","function":{"name":"f","arguments":""}}}}}"#,
        r#"{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{\"a\": 1.0}"}}}}}"#,
        r#"{"type":"tool-call-end","index":0}"#,
        r#"{"type":"message-end","delta":{"finish_reason":"TOOL_CALL"}}"#,
    ];
    let body = frames.map(|frame| format!("data: {frame}\n\n")).concat();
    let (mut decoder, mut events) = (wire().decoder(), Events::new());
    decoder.feed(body.as_bytes(), &mut events);
    decoder.end(End::Closed, &mut events);
    let mut turn = TurnBuilder::new();
    events.for_each(|event| turn.push(&event.unwrap()));
    let sent = wire().encode(&Request::new().message(turn.build().into_message())).unwrap().body;
    let want = concat!(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm"}],"tool_plan":"I will look.","#,
        r#""tool_calls":[{"id":"f_1","type":"function","function":{"name":"f","arguments":"{\"a\": 1.0}"}}]}"#
    );
    let sent = String::from_utf8_lossy(&sent);
    assert!(sent.contains(want), "{sent}");
}
