use serde_json::{Value, json};
use turnstream_core::{
    Audio, Document, ErrorKind, Image, Message as OurMessage, OpaquePart, OutputSchema, Replay, Source,
    ToolSpec, Wire as _,
};

use super::*;
use crate::{CacheLifetime, Guardrail};

fn wire() -> Bedrock {
    Bedrock::new("us.amazon.nova-lite-v1:0", "us-east-1").key("k")
}

fn claude() -> Bedrock {
    Bedrock::new("us.anthropic.claude-haiku-4-5-20251001-v1:0", "us-east-1")
}

fn body_of(wire: &Bedrock, request: &Request) -> Value {
    serde_json::from_slice(&wire.encode(request).unwrap().body).unwrap()
}

fn body(request: &Request) -> Value {
    body_of(&wire(), request)
}

fn warnings(wire: &Bedrock, request: &Request) -> Vec<String> {
    wire.encode(request).unwrap().warnings.into_iter().map(|warning| warning.setting.into()).collect()
}

fn refusal(request: &Request) -> String {
    let error = wire().encode(request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    error.message().to_owned()
}

fn replay(data: Value) -> Option<Replay> {
    Some(Replay::new(WIRE, data.into()))
}

fn call(id: &str) -> CallPart {
    CallPart::new(id, "f", "{}")
}

fn assistant(parts: Vec<Part>) -> OurMessage {
    OurMessage::new(Role::Assistant, parts)
}

fn user(parts: Vec<Part>) -> Request {
    Request::new().message(OurMessage::new(Role::User, parts))
}

fn with_f() -> Request {
    Request::new().tool(ToolSpec::new("f"))
}

#[test]
fn a_plain_request_is_small() {
    let request = wire().encode(&Request::new().user("hi")).unwrap();
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("authorization"), Some("Bearer k"));
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("accept"), Some("application/vnd.amazon.eventstream"));
    assert_eq!(request.body, r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#);
    let unsigned = claude().encode(&Request::new().user("hi")).unwrap();
    assert!(!unsigned.headers.contains_key("authorization"));
}

#[test]
fn every_setting_has_its_place() {
    let schema = RawJson::parse(r#"{"type": "object", "properties": {"a": {"type": "number"}}}"#).unwrap();
    let options = Options::new()
        .guardrail(Guardrail::new("gr-1", "DRAFT").trace("enabled").mode("async"))
        .cache_point(CachePoint::Tools)
        .cache_point(CachePoint::System)
        .cache_point(CachePoint::Messages)
        .cache_lifetime(CacheLifetime::OneHour)
        .latency("optimized")
        .service_tier("flex")
        .system_tool("nova_grounding")
        .model_field("top_k", json!(5))
        .response_field("/stop_sequence")
        .prompt_variable("name", "Ada")
        .extra("projectIdentifier", json!("p-1"));
    let request = Request::new()
        .system("Be brief.")
        .system(" ")
        .user("hi")
        .assistant("hm")
        .tool(ToolSpec::new("f").description("Does f.").parameters(schema).strict(true))
        .tool(ToolSpec::new("now"))
        .tool_choice(ToolChoice::Tool("f".into()))
        .parallel_calls(true)
        .max_tokens(300)
        .temperature(0.5)
        .top_p(0.9)
        .stop("END")
        .metadata("team", "t")
        .reasoning(ReasoningEffort::High)
        .output_schema(
            OutputSchema::new("answer", json!({ "type": "object" })).with_description("The answer."),
        )
        .options(options);
    let encoded = wire().encode(&request).unwrap();
    assert!(encoded.warnings.is_empty(), "{:?}", encoded.warnings);
    assert!(String::from_utf8_lossy(&encoded.body).contains(r#"{"type": "object", "properties": {"a""#));
    let mark = json!({ "cachePoint": { "type": "default", "ttl": "1h" } });
    assert_eq!(
        serde_json::from_slice::<Value>(&encoded.body).unwrap(),
        json!({
            "messages": [
                { "role": "user", "content": [{ "text": "hi" }, mark] },
                { "role": "assistant", "content": [{ "text": "hm" }] },
            ],
            "system": [{ "text": "Be brief." }, mark],
            "inferenceConfig": { "maxTokens": 300, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"] },
            "toolConfig": {
                "tools": [
                    { "toolSpec": {
                        "name": "f",
                        "description": "Does f.",
                        "inputSchema": { "json": { "type": "object", "properties": { "a": { "type": "number" } } } },
                        "strict": true,
                    } },
                    { "toolSpec": {
                        "name": "now",
                        "inputSchema": {
                            "json": { "type": "object", "properties": {}, "additionalProperties": false }
                        },
                    } },
                    { "systemTool": { "name": "nova_grounding" } },
                    mark,
                ],
                "toolChoice": { "tool": { "name": "f" } },
            },
            "outputConfig": {
                "textFormat": { "type": "json_schema", "structure": { "jsonSchema": {
                    "schema": "{\"type\":\"object\"}",
                    "name": "answer",
                    "description": "The answer.",
                } } },
                "effort": "high",
            },
            "guardrailConfig": {
                "guardrailIdentifier": "gr-1",
                "guardrailVersion": "DRAFT",
                "trace": "enabled",
                "streamProcessingMode": "async",
            },
            "performanceConfig": { "latency": "optimized" },
            "serviceTier": { "type": "flex" },
            "additionalModelRequestFields": { "top_k": 5 },
            "additionalModelResponseFieldPaths": ["/stop_sequence"],
            "promptVariables": { "name": { "text": "Ada" } },
            "requestMetadata": { "team": "t" },
            "projectIdentifier": "p-1",
        })
    );
}

#[test]
fn cache_points_behind_nothing_are_left_out() {
    let options = Options::new().cache_point(CachePoint::Tools).cache_point(CachePoint::System);
    let plain = json!({ "messages": [{ "role": "user", "content": [{ "text": "hi" }] }] });
    assert_eq!(body(&Request::new().user("hi").options(options)), plain);
}

#[test]
fn only_the_words_that_the_model_goes_on_from_lose_their_last_white_space() {
    let said = |text: &str| assistant(vec![TextPart::new(text).into()]);
    let request = Request::new().user("a ").message(said("b ")).user("c ").message(said("d \n"));
    let text = |body: &Value, index: usize| body["messages"][index]["content"][0]["text"].clone();
    let body = body(&request);
    assert_eq!(
        [0, 1, 2, 3].map(|index| text(&body, index)),
        [json!("a "), json!("b "), json!("c "), json!("d")]
    );
}

#[test]
fn tool_choices() {
    let choice = |choice: ToolChoice| {
        body(&with_f().user("hi").tool_choice(choice))["toolConfig"]["toolChoice"].clone()
    };
    assert_eq!(body(&with_f().user("hi"))["toolConfig"].get("toolChoice"), None);
    assert_eq!(choice(ToolChoice::Auto), json!({ "auto": {} }));
    assert_eq!(choice(ToolChoice::Required), json!({ "any": {} }));
    assert_eq!(choice(ToolChoice::Tool("f".into())), json!({ "tool": { "name": "f" } }));
    let other = with_f().user("hi").tool_choice(ToolChoice::Tool("g".into()));
    assert!(refusal(&other).contains("`g`, which is not offered"));
    let system = other.options(Options::new().system_tool("g"));
    assert_eq!(body(&system)["toolConfig"]["toolChoice"], json!({ "tool": { "name": "g" } }));
    // There is no word for no call, and no need where no tool is offered.
    assert_eq!(body(&with_f().user("hi").tool_choice(ToolChoice::None)).get("toolConfig"), None);
    let talked = || Request::new().user("q").message(assistant(vec![call("a").into()]));
    let answered = || talked().message(OurMessage::results([ResultPart::text("a", "f", "A")]));
    let forbidden = answered().tool(ToolSpec::new("f")).tool_choice(ToolChoice::None);
    assert!(refusal(&forbidden).contains("cannot forbid calls"));
    assert!(refusal(&answered()).contains("offer those that were called"));
    let own = answered().options(Options::new().extra("toolConfig", json!({ "tools": [] })));
    assert_eq!(body(&own)["toolConfig"], json!({ "tools": [] }));
    assert_eq!(
        refusal(&Request::new().user("hi").tool_choice(ToolChoice::Required)),
        "the tool choice forces a call, and no tool is offered"
    );
    assert!(refusal(&with_f().user("hi").parallel_calls(false)).contains("parallel calls"));
    assert_eq!(body(&Request::new().user("hi").parallel_calls(false)).get("toolConfig"), None);
}

#[test]
fn reasoning_becomes_effort_and_for_claude_thinking() {
    let said = |wire: &Bedrock, request: &Request| {
        let body = body_of(wire, &request.clone().user("hi"));
        (body.get("additionalModelRequestFields").cloned(), body.get("outputConfig").cloned())
    };
    let thinking = |thinking: Value| Some(json!({ "thinking": thinking }));
    let effort = |word: &str| Some(json!({ "effort": word }));
    let asked = |effort| Request::new().reasoning(effort);
    assert_eq!(said(&claude(), &Request::new()), (None, None));
    let high = asked(ReasoningEffort::High);
    assert_eq!(said(&claude(), &high), (thinking(json!({ "type": "adaptive" })), effort("high")));
    assert_eq!(said(&wire(), &high), (None, effort("high")));
    let arn = Bedrock::new("arn:aws:bedrock:x:1:application-inference-profile/x", "us-east-1");
    assert_eq!(said(&arn, &high), (None, effort("high")));
    let known = arn.profile(Profile::Anthropic);
    assert_eq!(said(&known, &high), (thinking(json!({ "type": "adaptive" })), effort("high")));
    let minimal = asked(ReasoningEffort::Minimal);
    assert_eq!(
        (warnings(&wire(), &minimal), said(&wire(), &minimal)),
        (vec!["reasoning".to_owned()], (None, effort("low")))
    );
    let none = asked(ReasoningEffort::None);
    assert_eq!(said(&claude(), &none), (thinking(json!({ "type": "disabled" })), None));
    assert_eq!(
        (warnings(&wire(), &none), said(&wire(), &none)),
        (vec!["reasoning".to_owned()], (None, None))
    );
    let budget = Request::new().options(Options::new().thinking_budget(2000));
    let enabled = thinking(json!({ "type": "enabled", "budget_tokens": 2000 }));
    assert_eq!(said(&claude(), &budget), (enabled, None));
    let forced = high.tool(ToolSpec::new("f")).tool_choice(ToolChoice::Required);
    assert_eq!(warnings(&claude(), &forced), ["reasoning"]);
    assert_eq!(said(&claude(), &forced), (thinking(json!({ "type": "disabled" })), effort("high")));
    assert!(warnings(&wire(), &forced).is_empty());

    assert!(refusal(&budget.clone().max_tokens(2000)).contains("(2000)"));
    assert!(refusal(&budget.clone().reasoning(ReasoningEffort::None)).contains("turns it off"));
    let twice = Options::new().thinking_budget(2000).model_field("thinking", json!({}));
    assert!(refusal(&budget.options(twice)).contains("`thinking`"));
}

#[test]
fn what_the_wire_has_no_word_for_is_a_warning_or_an_error() {
    let output = OutputSchema::new("answer", json!({})).with_strict(false);
    assert_eq!(warnings(&wire(), &Request::new().user("hi").output_schema(output)), ["output_schema.strict"]);
    let hi = || Request::new().user("hi");
    assert!(refusal(&hi().tool(ToolSpec::new("f").free_form())).contains("free-form"));
    assert!(refusal(&hi().tool(ToolSpec::new("srv.get file"))).contains("srv.get file"));
    assert!(refusal(&user(vec![call("a").into()])).contains("a call"));
    assert!(refusal(&hi().options(Options::new().extra("messages", json!([])))).contains("`messages`"));
    let twice = hi().temperature(0.1).options(Options::new().extra("inferenceConfig", json!({})));
    assert!(refusal(&twice).contains("`inferenceConfig`"));
}

#[test]
fn results_come_first_in_one_message_and_roles_alternate() {
    let request = with_f()
        .user("one")
        .user("two")
        .message(assistant(vec![Part::text(""), call("a").into(), call("b").into()]))
        .user("go on")
        .message(OurMessage::results([ResultPart::text("a", "f", "A")]))
        .message(OurMessage::results([ResultPart::text("b", "f", "B").with_error()]));
    assert_eq!(
        body(&request)["messages"],
        json!([
            { "role": "user", "content": [{ "text": "one" }, { "text": "two" }] },
            { "role": "assistant", "content": [
                { "toolUse": { "toolUseId": "a", "name": "f", "input": {} } },
                { "toolUse": { "toolUseId": "b", "name": "f", "input": {} } },
            ] },
            { "role": "user", "content": [
                { "toolResult": { "toolUseId": "a", "content": [{ "text": "A" }] } },
                { "toolResult": { "toolUseId": "b", "content": [{ "text": "B" }], "status": "error" } },
                { "text": "go on" },
            ] },
        ])
    );
}

#[test]
fn results_hold_images_and_documents_and_are_never_empty() {
    let chart = vec![
        ResultContent::Text("chart".to_owned()),
        ResultContent::Image(Image::base64("image/png", "iVBORw0KGgo=")),
        ResultContent::Document(Document::base64("text/csv", "YSxi").with_name("table")),
    ];
    let results = [
        ResultPart::new("a", "f", chart),
        ResultPart::text("b", "f", ""),
        ResultPart::new("c", "f", Vec::new()).with_error(),
    ];
    let body = body(&with_f().message(OurMessage::results(results)));
    let contents: Vec<&Value> = body["messages"][0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["toolResult"]["content"])
        .collect();
    assert_eq!(
        contents,
        [
            &json!([
                { "text": "chart" },
                { "image": { "format": "png", "source": { "bytes": "iVBORw0KGgo=" } } },
                { "document": { "format": "csv", "name": "table", "source": { "bytes": "YSxi" } } },
            ]),
            &json!([{ "text": "(no output)" }]),
            &json!([{ "text": "The tool failed and said nothing." }]),
        ]
    );
}

#[test]
fn images_documents_and_sound_go_as_bytes_or_from_s3() {
    let s3 = |uri: &str| Source::Url(uri.to_owned());
    let parts = vec![
        Image::base64("image/jpeg; q=1", "/9j/").into(),
        Image::new(s3("s3://b/a.JPG")).into(),
        Document::base64("application/pdf", "JVBERg==").with_name("invoice_2025.pdf").into(),
        Document::new(s3("s3://b/x/invoice.pdf")).with_name("invoice 2025 pdf").into(),
        Document::base64("text/plain", "aGk=").with_name("æ/?").into(),
        Audio::base64("audio/wav", "UklGRg==").into(),
    ];
    assert_eq!(
        body(&user(parts))["messages"][0]["content"],
        json!([
            { "image": { "format": "jpeg", "source": { "bytes": "/9j/" } } },
            { "image": { "format": "jpeg", "source": { "s3Location": { "uri": "s3://b/a.JPG" } } } },
            { "document": { "format": "pdf", "name": "invoice 2025 pdf", "source": { "bytes": "JVBERg==" } } },
            { "document": {
                "format": "pdf",
                "name": "invoice 2025 pdf 2",
                "source": { "s3Location": { "uri": "s3://b/x/invoice.pdf" } },
            } },
            { "document": { "format": "txt", "name": "document", "source": { "bytes": "aGk=" } } },
            { "audio": { "format": "wav", "source": { "bytes": "UklGRg==" } } },
        ])
    );
    let table = [
        (Part::from(Image::url("https://h/a.png")), "`s3://` address"),
        (Image::base64("image/tiff", "x").into(), "`image/tiff`"),
        (Image::new(s3("s3://b/a")).into(), "does not say its format"),
        (Image::new(Source::File("file_1".to_owned())).into(), "the source of an image"),
        (Document::base64("application/x-tar", "x").into(), "`application/x-tar`"),
        (Audio::base64("audio/midi", "x").into(), "`audio/midi`"),
    ];
    for (part, words) in table {
        assert!(refusal(&user(vec![part])).contains(words), "{words}");
    }
}

#[test]
fn arguments_go_back_as_the_object_that_they_are() {
    let with = |arguments: &str| CallPart::new("a", "f", arguments);
    let table = [
        ("", "{}"),
        (" null ", "{}"),
        ("{\"b\": 1.0, \"a\":\"\\u00e9\\ud83d\"}", "{\"b\": 1.0, \"a\":\"\\u00e9\\ud83d\"}"),
        ("[1, 2.0]", "{\"input\":[1, 2.0]}"),
        ("\"x\"", "{\"input\":\"x\"}"),
        ("{\"cut", "{\"input\":\"{\\\"cut\"}"),
    ];
    for (arguments, input) in table {
        let request = with_f().message(assistant(vec![with(arguments).into()]));
        let encoded = wire().encode(&request).unwrap();
        let text = String::from_utf8_lossy(&encoded.body).into_owned();
        assert!(text.contains(&format!("\"name\":\"f\",\"input\":{input}}}")), "{arguments}: {text}");
    }
    let mut free = with("{\"a\":1}");
    free.input = InputKind::Text;
    let body = body(&with_f().message(assistant(vec![free.into()])));
    assert_eq!(body["messages"][0]["content"][0]["toolUse"]["input"], json!({ "input": "{\"a\":1}" }));
}

#[test]
fn ids_of_another_wire_fit_and_stay_apart() {
    let ids = ["a|b", "a/b", "a.b", "", "tooluse_1", &"x".repeat(80)];
    let calls = ids.iter().map(|id| call(id).into()).collect();
    let results = ids.iter().map(|id| ResultPart::text(*id, "f", "x"));
    let request = with_f().message(assistant(calls)).message(OurMessage::results(results));
    let sent = |wire: &Bedrock, message: usize, kind: &str| -> Vec<String> {
        let body = body_of(wire, &request);
        let blocks = body["messages"][message]["content"].as_array().unwrap();
        blocks.iter().map(|block| block[kind]["toolUseId"].as_str().unwrap().to_owned()).collect()
    };
    let mistral = Bedrock::new("mistral.mistral-large-2402-v1:0", "us-east-1");
    for wire in [wire(), mistral] {
        let fitting = sent(&wire, 0, "toolUse");
        let form = wire.model_profile().call_id();
        assert!(fitting.iter().all(|id| form.fit(id) == *id), "{fitting:?}");
        assert_eq!(fitting.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
        assert_eq!(sent(&wire, 1, "toolResult"), fitting);
    }
    assert_eq!(sent(&wire(), 0, "toolUse")[4], "tooluse_1");
}

#[test]
fn a_tools_name_that_the_model_made_up_is_made_to_fit() {
    let made_up = CallPart::new("a", "functions.f!", "{}");
    let request = with_f()
        .message(assistant(vec![made_up.into()]))
        .message(OurMessage::results([ResultPart::text("a", "functions.f!", "There is no such tool.")]));
    let name = &body(&request)["messages"][0]["content"][0]["toolUse"]["name"];
    assert!(name.as_str().unwrap().starts_with("functionsf"), "{name}");
}

#[test]
fn what_another_wire_left_stays_here() {
    let foreign = || Replay::new("openai-responses", json!({ "type": "reasoning", "id": "rs_1" }).into());
    let parts = vec![
        Part::Reasoning(ReasoningPart::new("hm", Some(foreign()))),
        Part::Reasoning(ReasoningPart::new("hm", None)),
        Part::Opaque(OpaquePart::new(foreign())),
        Part::Text(TextPart::new("So.").with_replay(foreign())),
        Part::Call(call("a").with_replay(foreign())),
    ];
    assert_eq!(
        body(&with_f().message(assistant(parts)))["messages"][0]["content"],
        json!([{ "text": "So." }, { "toolUse": { "toolUseId": "a", "name": "f", "input": {} } }])
    );
    let only = vec![Part::Reasoning(ReasoningPart::new("hm", Some(foreign())))];
    let request = Request::new().user("a").message(assistant(only)).user("b");
    assert_eq!(body(&request)["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn what_came_goes_back_as_it_came() {
    let server = json!({ "toolUse": { "toolUseId": "s", "name": "n", "type": "server_tool_use", "input": { "q": 1 } } });
    let redacted = json!({ "reasoningContent": { "redactedContent": "YWI=" } });
    let parts = vec![
        Part::Reasoning(ReasoningPart::new("hm", replay(json!({ "signature": "s" })))),
        Part::Opaque(OpaquePart::new(replay(redacted.clone()).unwrap())),
        Part::Opaque(OpaquePart::new(replay(server.clone()).unwrap())),
        Part::Text(
            TextPart::new("So.").with_replay(replay(json!({ "citations": [{ "title": "T" }] })).unwrap()),
        ),
    ];
    assert_eq!(
        body(&Request::new().message(assistant(parts)))["messages"][0]["content"],
        json!([
            { "reasoningContent": { "reasoningText": { "text": "hm", "signature": "s" } } },
            redacted,
            server,
            { "citationsContent": { "content": [{ "text": "So." }], "citations": [{ "title": "T" }] } },
        ])
    );
}

#[test]
fn unsigned_reasoning_goes_back_only_when_asked() {
    let request =
        Request::new().message(assistant(vec![Part::Reasoning(ReasoningPart::new("hm", replay(json!({}))))]));
    assert_eq!(body(&request)["messages"], json!([]));
    assert_eq!(
        body_of(&wire().unsigned_reasoning(true), &request)["messages"][0]["content"],
        json!([{ "reasoningContent": { "reasoningText": { "text": "hm" } } }])
    );
}
