use serde_json::{Value, json};
use turnstream_core::{
    Audio, End, ErrorKind, Events, Message as OurMessage, OpaquePart, OutputSchema, Replay, ToolSpec,
    TurnBuilder, Wire as _,
};

use super::*;
use crate::Profile;

fn wire() -> Anthropic {
    Anthropic::new("m").key("k")
}

fn body_of(wire: &Anthropic, request: &Request) -> Value {
    serde_json::from_slice(&wire.encode(request).unwrap().body).unwrap()
}

fn body(request: &Request) -> Value {
    body_of(&wire(), request)
}

fn warnings(request: &Request) -> Vec<String> {
    wire().encode(request).unwrap().warnings.into_iter().map(|warning| warning.setting.into()).collect()
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

#[test]
fn a_plain_request_is_small() {
    let request = wire().encode(&Request::new().user("hi")).unwrap();
    assert_eq!(request.url.as_str(), "https://api.anthropic.com/v1/messages");
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("x-api-key"), Some("k"));
    assert_eq!(header("anthropic-version"), Some("2023-06-01"));
    assert_eq!((header("anthropic-beta"), header("authorization")), (None, None));
    let body = std::str::from_utf8(&request.body).unwrap();
    assert_eq!(
        body,
        r#"{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":true}"#
    );
}

#[test]
fn on_vertex_the_model_stands_in_the_path_and_the_version_in_the_body() {
    let wire = Anthropic::vertex("p", "us-east5", "claude-sonnet-4-5@20250929").key("token");
    let request = wire.encode(&Request::new().user("hi").options(Options::new().beta("b"))).unwrap();
    assert_eq!(
        request.url.as_str(),
        "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic/models/\
         claude-sonnet-4-5@20250929:streamRawPredict"
    );
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("authorization"), Some("Bearer token"));
    assert_eq!((header("anthropic-version"), header("x-api-key")), (None, None));
    assert_eq!(header("anthropic-beta"), Some("b"));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["anthropic_version"], &body["model"]), (&json!("vertex-2023-10-16"), &Value::Null));
    assert_eq!(body["stream"], json!(true));

    let body = body_of(&wire.version("2026-10-21"), &Request::new().user("hi"));
    assert_eq!(body["anthropic_version"], json!("2026-10-21"));
}

#[test]
fn only_the_words_that_the_model_goes_on_from_lose_their_last_white_space() {
    let said = |text: &str| OurMessage::new(Role::Assistant, vec![TextPart::new(text).into()]);
    let request = Request::new().user("a ").message(said("b ")).user("c ").message(said("d \n"));
    let body = body_of(&Anthropic::new("m"), &request);
    let text = |index: usize| body["messages"][index]["content"][0]["text"].clone();
    assert_eq!([0, 1, 2, 3].map(text), [json!("a "), json!("b "), json!("c "), json!("d")]);
}

#[test]
fn what_is_no_name_leads_nowhere() {
    let wires = [
        Anthropic::vertex("p", "h.example/", "m"),
        Anthropic::vertex("p", "user@h", "m"),
        Anthropic::vertex("p", "", "m"),
        Anthropic::vertex("p/x", "eu", "m"),
        Anthropic::vertex("..", "eu", "m"),
        Anthropic::vertex("", "eu", "m"),
        Anthropic::vertex("p", "eu", ""),
        Anthropic::vertex("p", "eu", ".."),
        Anthropic::azure("h.example/", "d"),
        Anthropic::azure("h.example#", "d"),
        Anthropic::azure("user@h", "d"),
        Anthropic::azure("", "d"),
    ];
    for wire in wires {
        let error = wire.clone().key("k").encode(&Request::new().user("hi")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{wire:?}");
    }
    let escaped =
        Anthropic::vertex("example.com:p", "eu", "../x").encode(&Request::new().user("hi")).unwrap();
    let path = "/v1/projects/example.com:p/locations/eu/publishers/anthropic/models/..%2Fx:streamRawPredict";
    assert_eq!(escaped.url.path(), path);
}

#[test]
fn each_profile_has_its_address_and_header() {
    let sent = |wire: Anthropic| {
        let request = wire.key("k").encode(&Request::new().user("hi")).unwrap();
        (request.url.to_string(), request.headers["x-api-key"].to_str().unwrap().to_owned())
    };
    let table = [
        (Anthropic::azure("res", "d"), "https://res.services.ai.azure.com/anthropic/v1/messages"),
        (Anthropic::new("m").profile(Profile::LlamaCpp), "http://localhost:8080/v1/messages"),
        (
            Anthropic::new("m").profile(Profile::Compatible).base_url("https://h/a?b=c"),
            "https://h/a/messages?b=c",
        ),
    ];
    for (wire, url) in table {
        assert_eq!(sent(wire), (url.to_owned(), "k".to_owned()));
    }
    for profile in Profile::ALL {
        assert_eq!(profile.name().parse::<Profile>().unwrap(), profile);
    }
    assert_eq!("nobody".parse::<Profile>().unwrap_err().kind(), ErrorKind::Config);
    let nowhere = Anthropic::new("m").profile(Profile::Vertex).encode(&Request::new().user("hi"));
    assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn every_setting_has_its_place() {
    let schema = RawJson::parse(r#"{"type": "object", "properties": {"a": {"type": "number"}}}"#).unwrap();
    let options = Options::new()
        .top_k(5)
        .service_tier("standard_only")
        .cache(CacheLifetime::OneHour)
        .eager_input(true)
        .beta("one")
        .beta("two")
        .server_tool(json!({ "type": "web_search_20250305", "name": "web_search" }))
        .extra("container", json!("container_1"));
    let request = Request::new()
        .system("Be brief.")
        .system(" ")
        .system("Answer in Danish.")
        .user("hi")
        .tool(ToolSpec::new("f").description("Does f.").parameters(schema).strict(true))
        .tool(ToolSpec::new("now"))
        .tool_choice(ToolChoice::Tool("f".into()))
        .parallel_calls(false)
        .max_tokens(300)
        .temperature(0.5)
        .top_p(0.9)
        .stop("END")
        .metadata("user_id", "u")
        .output_schema(OutputSchema::new("answer", json!({ "type": "object" })))
        .options(options);
    let encoded = wire().version("2026-10-21").encode(&request).unwrap();
    assert_eq!(encoded.headers.get("anthropic-beta").unwrap(), "one,two");
    assert_eq!(encoded.headers.get("anthropic-version").unwrap(), "2026-10-21");
    assert!(encoded.warnings.is_empty());
    assert!(String::from_utf8_lossy(&encoded.body).contains(r#"{"type": "object", "properties": {"a""#));
    assert_eq!(
        serde_json::from_slice::<Value>(&encoded.body).unwrap(),
        json!({
            "model": "m",
            "max_tokens": 300,
            "system": [{ "type": "text", "text": "Be brief." }, { "type": "text", "text": "Answer in Danish." }],
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi" }] }],
            "tools": [
                {
                    "name": "f",
                    "description": "Does f.",
                    "input_schema": { "type": "object", "properties": { "a": { "type": "number" } } },
                    "strict": true,
                    "eager_input_streaming": true,
                },
                {
                    "name": "now",
                    "input_schema": { "type": "object", "properties": {}, "additionalProperties": false },
                    "eager_input_streaming": true,
                },
                { "type": "web_search_20250305", "name": "web_search" },
            ],
            "tool_choice": { "type": "tool", "name": "f", "disable_parallel_tool_use": true },
            "output_config": { "format": { "type": "json_schema", "schema": { "type": "object" } } },
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 5,
            "stop_sequences": ["END"],
            "metadata": { "user_id": "u" },
            "service_tier": "standard_only",
            "cache_control": { "type": "ephemeral", "ttl": "1h" },
            "stream": true,
            "container": "container_1",
        })
    );
}

#[test]
fn tool_choices_and_the_parallel_switch() {
    let choice = |choice: Option<ToolChoice>, parallel: Option<bool>| {
        let mut request = Request::new().user("hi").tool(ToolSpec::new("f"));
        request.tool_choice = choice;
        request.parallel_calls = parallel;
        body(&request).get("tool_choice").cloned()
    };
    assert_eq!(choice(None, None), None);
    assert_eq!(choice(None, Some(true)), None);
    assert_eq!(choice(None, Some(false)), Some(json!({ "type": "auto", "disable_parallel_tool_use": true })));
    assert_eq!(choice(Some(ToolChoice::Auto), None), Some(json!({ "type": "auto" })));
    assert_eq!(choice(Some(ToolChoice::Required), None), Some(json!({ "type": "any" })));
    assert_eq!(choice(Some(ToolChoice::None), Some(false)), Some(json!({ "type": "none" })));
    let none = Request::new().user("hi");
    assert_eq!(
        body(&none.clone().tool_choice(ToolChoice::Auto).parallel_calls(false)).get("tool_choice"),
        None
    );
    assert_eq!(
        refusal(&none.tool_choice(ToolChoice::Required)),
        "the tool choice forces a call, and no tool is offered"
    );
}

#[test]
fn reasoning_becomes_thinking_and_effort() {
    let said = |request: Request| {
        let body = body(&request.user("hi"));
        (
            body.get("thinking").cloned(),
            body.get("output_config").cloned(),
            body["max_tokens"].as_u64().unwrap(),
        )
    };
    let adaptive = Some(json!({ "type": "adaptive" }));
    let disabled = Some(json!({ "type": "disabled" }));
    let effort = |word: &str| Some(json!({ "effort": word }));
    assert_eq!(said(Request::new()), (None, None, 4096));
    assert_eq!(said(Request::new().reasoning(ReasoningEffort::None)), (disabled.clone(), None, 4096));
    let xhigh = Request::new().reasoning(ReasoningEffort::XHigh);
    assert_eq!(said(xhigh.clone()), (adaptive.clone(), effort("xhigh"), 4096));
    let minimal = Request::new().reasoning(ReasoningEffort::Minimal);
    assert_eq!(warnings(&minimal), ["reasoning"]);
    assert_eq!(said(minimal), (adaptive, effort("low"), 4096));
    let budget = Request::new().options(Options::new().thinking_budget(2000));
    let enabled = json!({ "type": "enabled", "budget_tokens": 2000 });
    assert_eq!(said(budget.clone()), (Some(enabled), None, 6096));
    let shown = Request::new().options(Options::new().thinking_display(ThinkingDisplay::Summarized));
    assert_eq!(said(shown), (Some(json!({ "type": "adaptive", "display": "summarized" })), None, 4096));

    let forced = xhigh.tool(ToolSpec::new("f")).tool_choice(ToolChoice::Required);
    assert_eq!(warnings(&forced), ["reasoning"]);
    assert_eq!(said(forced), (disabled, effort("xhigh"), 4096));

    assert!(refusal(&budget.clone().max_tokens(2000)).contains("(2000)"));
    assert!(refusal(&budget.reasoning(ReasoningEffort::None)).contains("turns it off"));
}

#[test]
fn what_the_wire_has_no_word_for_is_a_warning_or_an_error() {
    let mut output = OutputSchema::new("answer", json!({}));
    output.description = Some("The answer.".to_owned());
    output.strict = false;
    let hints = Request::new().user("hi").metadata("team", "t").output_schema(output);
    assert_eq!(warnings(&hints), ["output_schema.description", "output_schema.strict", "metadata.team"]);

    let hi = || Request::new().user("hi");
    assert!(refusal(&hi().tool(ToolSpec::new("f").free_form())).contains("free-form"));
    assert!(refusal(&hi().tool(ToolSpec::new("srv.get file"))).contains("srv.get file"));
    let audio = Audio::new(Source::File("file_1".to_owned()));
    assert!(refusal(&hi().message(OurMessage::new(Role::User, vec![audio.into()]))).contains("sound"));
    assert!(refusal(&hi().message(OurMessage::new(Role::User, vec![call("a").into()]))).contains("a call"));
    assert!(refusal(&hi().options(Options::new().extra("model", json!("x")))).contains("`model`"));
    let twice = hi().temperature(0.1).options(Options::new().extra("temperature", json!(0.2)));
    assert!(refusal(&twice).contains("`temperature`"));
}

#[test]
fn results_come_first_in_one_message_and_roles_alternate() {
    let request = Request::new()
        .user("one")
        .user("two")
        .message(assistant(vec![Part::text(""), call("a").into(), call("b").into()]))
        .user("go on")
        .message(OurMessage::results([ResultPart::text("a", "f", "A")]))
        .message(OurMessage::results([ResultPart::text("b", "f", "B").with_error()]));
    assert_eq!(
        body(&request)["messages"],
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }] },
            { "role": "assistant", "content": [
                { "type": "tool_use", "id": "a", "name": "f", "input": {} },
                { "type": "tool_use", "id": "b", "name": "f", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "A" }] },
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": [{ "type": "text", "text": "B" }],
                    "is_error": true,
                },
                { "type": "text", "text": "go on" },
            ] },
        ])
    );
}

#[test]
fn results_hold_images_and_are_never_empty() {
    let chart = vec![
        ResultContent::Text("chart".to_owned()),
        ResultContent::Image(turnstream_core::Image::base64("image/png", "iVBORw0KGgo=")),
    ];
    let results = [
        ResultPart::new("a", "f", chart),
        ResultPart::text("b", "f", ""),
        ResultPart::new("c", "f", Vec::new()).with_error(),
    ];
    let body = body(&Request::new().message(OurMessage::results(results)));
    let contents: Vec<&Value> =
        body["messages"][0]["content"].as_array().unwrap().iter().map(|result| &result["content"]).collect();
    assert_eq!(
        contents,
        [
            &json!([
                { "type": "text", "text": "chart" },
                {
                    "type": "image",
                    "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" },
                },
            ]),
            &json!([{ "type": "text", "text": "(no output)" }]),
            &json!([{ "type": "text", "text": "The tool failed and said nothing." }]),
        ]
    );
}

#[test]
fn images_and_documents_go_from_wherever_they_are() {
    let text = |data: &str| Source::Base64 { media_type: "text/markdown".to_owned(), data: data.to_owned() };
    let pdf = Source::Base64 { media_type: "application/pdf".to_owned(), data: "JVBERg==".to_owned() };
    let parts = vec![
        turnstream_core::Image::url("https://h/a.png").into(),
        turnstream_core::Image::new(Source::File("file_1".to_owned())).into(),
        Document::new(pdf).with_name("invoice.pdf").into(),
        Document::new(text("IyBIaQ==")).into(),
    ];
    assert_eq!(
        body(&Request::new().message(OurMessage::new(Role::User, parts)))["messages"][0]["content"],
        json!([
            { "type": "image", "source": { "type": "url", "url": "https://h/a.png" } },
            { "type": "image", "source": { "type": "file", "file_id": "file_1" } },
            {
                "type": "document",
                "source": { "type": "base64", "media_type": "application/pdf", "data": "JVBERg==" },
                "title": "invoice.pdf",
            },
            { "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "# Hi" } },
        ])
    );
    let broken = OurMessage::new(Role::User, vec![Document::new(text("?")).into()]);
    assert!(refusal(&Request::new().message(broken)).contains("UTF-8"));
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
        let request = Request::new().message(assistant(vec![with(arguments).into()]));
        let encoded = wire().encode(&request).unwrap();
        let text = String::from_utf8_lossy(&encoded.body).into_owned();
        assert!(text.contains(&format!("\"name\":\"f\",\"input\":{input}}}")), "{arguments}: {text}");
    }
    let mut free = with("{\"a\":1}");
    free.input = InputKind::Text;
    let body = body(&Request::new().message(assistant(vec![free.into()])));
    assert_eq!(body["messages"][0]["content"][0]["input"], json!({ "input": "{\"a\":1}" }));
}

#[test]
fn ids_of_another_wire_fit_and_stay_apart() {
    let ids = ["a:b", "a_b", "a.b", "", "toolu_1"];
    let calls = ids.iter().map(|id| call(id).into()).collect();
    let results = ids.iter().map(|id| ResultPart::text(*id, "f", "x"));
    let request = Request::new().message(assistant(calls)).message(OurMessage::results(results));
    let body = body(&request);
    let sent = |message: usize, field: &str| -> Vec<String> {
        let blocks = body["messages"][message]["content"].as_array().unwrap();
        blocks.iter().map(|block| block[field].as_str().unwrap().to_owned()).collect()
    };
    let fitting = sent(0, "id");
    assert_eq!((&*fitting[1], &*fitting[4]), ("a_b", "toolu_1"));
    assert!(fitting.iter().all(|id| CALL_ID.fit(id) == *id), "{fitting:?}");
    assert_eq!(fitting.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
    assert_eq!(sent(1, "tool_use_id"), sent(0, "id"));
}

#[test]
fn what_another_wire_left_stays_here() {
    let foreign = || Replay::new("openai-responses", json!({ "type": "reasoning", "id": "rs_1" }).into());
    let mut text = TextPart::new("So.");
    text.replay = Some(foreign());
    let mut call = call("a");
    call.replay = Some(foreign());
    let parts = vec![
        Part::Reasoning(ReasoningPart::new("hm", Some(foreign()))),
        Part::Reasoning(ReasoningPart::new("hm", None)),
        Part::Opaque(OpaquePart::new(foreign())),
        Part::Text(text),
        Part::Call(call),
    ];
    assert_eq!(
        body(&Request::new().message(assistant(parts)))["messages"][0]["content"],
        json!([
            { "type": "text", "text": "So." },
            { "type": "tool_use", "id": "a", "name": "f", "input": {} },
        ])
    );
    let only = vec![Part::Reasoning(ReasoningPart::new("hm", Some(foreign())))];
    let request = Request::new().user("a").message(assistant(only)).user("b");
    assert_eq!(body(&request)["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn thinking_goes_back_signed_and_unsigned_only_when_asked() {
    let thinking = |signature: &str| {
        let replay = replay(json!({ "type": "thinking", "signature": signature }));
        Request::new().message(assistant(vec![Part::Reasoning(ReasoningPart::new("hm", replay))]))
    };
    let block = |signature: &str| json!([{ "type": "thinking", "thinking": "hm", "signature": signature }]);
    assert_eq!(body(&thinking("s"))["messages"][0]["content"], block("s"));
    assert_eq!(body(&thinking(""))["messages"], json!([]));
    let lenient = wire().unsigned_thinking(true);
    assert_eq!(body_of(&lenient, &thinking(""))["messages"][0]["content"], block(""));
}

#[test]
fn a_toolset_is_named_on_call_and_result() {
    let mut call = call("a");
    call.replay = replay(json!({ "toolset_name": "browser", "caller": { "type": "direct" } }));
    let request = Request::new()
        .message(assistant(vec![call.into()]))
        .message(OurMessage::results([ResultPart::text("a", "f", "A")]));
    let body = body(&request);
    let call = &body["messages"][0]["content"][0];
    assert_eq!((&call["toolset_name"], &call["caller"]), (&json!("browser"), &json!({ "type": "direct" })));
    assert_eq!(body["messages"][1]["content"][0]["toolset_name"], "browser");
}

#[test]
fn a_callers_key_header_replaces_the_key() {
    let wire = wire().header("authorization", "Api-Key z").header("x-trace", "1");
    let headers = wire.encode(&Request::new().user("hi")).unwrap().headers;
    assert_eq!(headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Api-Key z"]);
    assert_eq!(headers.get("x-trace").unwrap(), "1");
    assert!(!headers.contains_key("x-api-key"));
}

#[test]
fn a_reply_goes_back_as_it_came() {
    let blocks = [
        r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#,
        r#"{"type":"thinking","thinking":"","signature":"b21pdHRlZA=="}"#,
        r#"{"type":"redacted_thinking","data":"eA=="}"#,
        r#"{"type":"text","text":"So.","citations":[{"url":"u","n":1.0}]}"#,
        r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"q": 1.0}}"#,
        r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#,
        r#"{"type":"hologram","depth":2.0}"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"f","input":{"a": 1.0},"caller":{"type":"direct"}}"#,
    ];
    let message = format!(
        r#"data: {{"type":"message_start","message":{{"id":"m","content":[{}],"stop_reason":"tool_use"}}}}"#,
        blocks.join(",")
    );
    let (mut decoder, mut events) = (wire().decoder(), Events::new());
    decoder.feed(message.as_bytes(), &mut events);
    decoder.end(End::Closed, &mut events);
    let mut turn = TurnBuilder::new();
    events.for_each(|event| turn.push(&event.unwrap()));
    let request = Request::new().message(turn.build().into_message());
    let sent = wire().encode(&request).unwrap().body;
    let sent = String::from_utf8_lossy(&sent);
    assert!(sent.contains(&format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","))), "{sent}");
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
    let wire = crate::Anthropic::new("m");
    let body = turnstream_core::Wire::encode(&wire, &request).unwrap().body;
    let body = std::str::from_utf8(&body).unwrap();
    assert!(body.contains("\"functionsf") && !body.contains("functions.f!"), "{body}");
}

#[test]
fn a_server_side_call_that_nothing_will_answer_any_more_is_left_out() {
    let opaque = |block: Value| Part::Opaque(OpaquePart::new(Replay::new(WIRE, block.into())));
    let search =
        |id: &str| opaque(json!({ "type": "server_tool_use", "id": id, "name": "web_search", "input": {} }));
    let found =
        |id: &str| opaque(json!({ "type": "web_search_tool_result", "tool_use_id": id, "content": [] }));
    // What goes out of each message: its blocks' types and ids.
    let sent = |request: Request| -> Vec<String> {
        let body = body(&request);
        let messages = body["messages"].as_array().unwrap().iter();
        let blocks = messages.flat_map(|message| message["content"].as_array().unwrap());
        let word = |block: &Value| {
            let id = block["id"].as_str().or(block["tool_use_id"].as_str()).unwrap_or_default();
            format!("{} {id}", block["type"].as_str().unwrap())
        };
        blocks.map(word).collect()
    };
    let asked = || Request::new().user("Who won?");
    // A turn that was cut between the search and its result, and one whose result came.
    let cut = || asked().message(assistant(vec![search("a"), found("a"), search("b")]));
    let both = ["text ", "server_tool_use a", "web_search_tool_result a"];
    assert_eq!(sent(cut().user("And now?"))[..3], both);
    assert_eq!(sent(cut().user("And now?"))[3..], ["text "]);
    // A turn that pauses goes back whole, and so does one of which a client's call is answered first.
    assert_eq!(sent(cut())[3..], ["server_tool_use b"]);
    let waits = || asked().message(assistant(vec![search("b"), call("c").into()]));
    let answered = || waits().message(OurMessage::results([ResultPart::text("c", "f", "x")]));
    assert_eq!(sent(answered())[1..], ["server_tool_use b", "tool_use c", "tool_result c"]);
    let later = || answered().message(assistant(vec![found("b"), Part::text("They did.")]));
    assert_eq!(sent(later().user("Sure?"))[1..3], ["server_tool_use b", "tool_use c"]);
    // Of a message that was nothing else nothing is left.
    let alone = asked().message(assistant(vec![search("a")])).user("And now?");
    assert_eq!(sent(alone), ["text ", "text "]);
}
