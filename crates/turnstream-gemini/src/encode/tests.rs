use serde_json::{Value, json};
use turnstream_core::{
    Audio, CallPart, Document, End, ErrorKind, Events, Image, Message, OpaquePart, OutputSchema, Part,
    ReasoningPart, Replay, ResultContent, ResultPart, Role, Source, TextPart, TurnBuilder, Wire as _,
};

use super::*;
use crate::{Profile, WIRE};

fn wire() -> Gemini {
    Gemini::new("gemini-2.5-flash").key("k")
}

fn third() -> Gemini {
    Gemini::new("gemini-3-pro-preview").key("k")
}

fn body_of(wire: &Gemini, request: &Request) -> Value {
    serde_json::from_slice(&wire.encode(request).unwrap().body).unwrap()
}

fn body(request: &Request) -> Value {
    body_of(&wire(), request)
}

fn warnings_of(wire: &Gemini, request: &Request) -> Vec<String> {
    wire.encode(request).unwrap().warnings.into_iter().map(|warning| warning.setting.into()).collect()
}

fn refusal(request: &Request) -> String {
    let error = wire().encode(request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    error.message().to_owned()
}

fn replay(data: Value) -> Replay {
    Replay::new(WIRE, data.into())
}

fn assistant(parts: Vec<Part>) -> Message {
    Message::new(Role::Assistant, parts)
}

fn call(id: &str) -> CallPart {
    CallPart::new(id, "f", "{}")
}

#[test]
fn a_plain_request_is_small() {
    let request = wire().encode(&Request::new().user("hi")).unwrap();
    assert_eq!(request.headers.get("x-goog-api-key").unwrap(), "k");
    assert_eq!(
        std::str::from_utf8(&request.body).unwrap(),
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#
    );
}

#[test]
fn every_setting_has_its_place() {
    let schema = RawJson::parse(r#"{"type": "object", "properties": {"a": {"type": "number"}}}"#).unwrap();
    let options = Options::new()
        .top_k(5)
        .seed(7)
        .presence_penalty(0.5)
        .frequency_penalty(-0.5)
        .thinking_budget(-1)
        .safety("HARM_CATEGORY_HARASSMENT", "BLOCK_ONLY_HIGH")
        .cached_content("cachedContents/1")
        .modality("TEXT")
        .stream_arguments(true)
        .server_tool(json!({ "googleSearch": {} }))
        .generation("mediaResolution", json!("MEDIA_RESOLUTION_LOW"))
        .extra("serviceTier", json!("flex"));
    let request = Request::new()
        .system("Be brief.")
        .system(" ")
        .system("Answer in Danish.")
        .user("hi")
        .tool(ToolSpec::new("f").description("Does f.").parameters(schema))
        .tool(ToolSpec::new("now"))
        .tool_choice(ToolChoice::Tool("f".into()))
        .max_tokens(300)
        .temperature(0.5)
        .top_p(0.25)
        .stop("END")
        .output_schema(OutputSchema::new("answer", json!({ "type": "object" })))
        .metadata("team", "t")
        .options(options);
    let wire = Gemini::vertex("p", "global", "gemini-2.5-pro").key("k");
    assert_eq!(warnings_of(&wire, &request), Vec::<String>::new());
    assert_eq!(
        body_of(&wire, &request),
        json!({
            "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }],
            "systemInstruction": { "parts": [{ "text": "Be brief." }, { "text": "Answer in Danish." }] },
            "tools": [
                { "functionDeclarations": [
                    {
                        "name": "f",
                        "description": "Does f.",
                        "parametersJsonSchema": {
                            "type": "object", "properties": { "a": { "type": "number" } },
                        },
                    },
                    { "name": "now" },
                ] },
                { "googleSearch": {} },
            ],
            "toolConfig": { "functionCallingConfig": {
                "mode": "ANY", "allowedFunctionNames": ["f"], "streamFunctionCallArguments": true,
            } },
            "generationConfig": {
                "temperature": 0.5,
                "topP": 0.25,
                "topK": 5,
                "maxOutputTokens": 300,
                "stopSequences": ["END"],
                "seed": 7,
                "presencePenalty": 0.5,
                "frequencyPenalty": -0.5,
                "responseMimeType": "application/json",
                "responseJsonSchema": { "type": "object" },
                "responseModalities": ["TEXT"],
                "thinkingConfig": { "includeThoughts": true, "thinkingBudget": -1 },
                "mediaResolution": "MEDIA_RESOLUTION_LOW",
            },
            "safetySettings": [{ "category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH" }],
            "cachedContent": "cachedContents/1",
            "labels": { "team": "t" },
            "serviceTier": "flex",
        })
    );
}

#[test]
fn tool_choices_and_strict_tools_are_modes() {
    let mode = |choice: Option<ToolChoice>, strict: Option<bool>| {
        let mut tool = ToolSpec::new("f");
        tool.strict = strict;
        let mut request = Request::new().user("hi").tool(tool);
        request.tool_choice = choice;
        body(&request).pointer("/toolConfig/functionCallingConfig").cloned()
    };
    assert_eq!(mode(None, None), None);
    assert_eq!(mode(None, Some(false)), None);
    assert_eq!(mode(None, Some(true)), Some(json!({ "mode": "VALIDATED" })));
    assert_eq!(mode(Some(ToolChoice::Auto), Some(true)), Some(json!({ "mode": "VALIDATED" })));
    assert_eq!(mode(Some(ToolChoice::Auto), None), Some(json!({ "mode": "AUTO" })));
    assert_eq!(mode(Some(ToolChoice::None), Some(true)), Some(json!({ "mode": "NONE" })));
    assert_eq!(mode(Some(ToolChoice::Required), None), Some(json!({ "mode": "ANY" })));
    assert_eq!(
        mode(Some(ToolChoice::Tool("f".into())), None),
        Some(json!({ "mode": "ANY", "allowedFunctionNames": ["f"] }))
    );
    let other = Request::new().user("hi").tool(ToolSpec::new("f")).tool_choice(ToolChoice::Tool("g".into()));
    assert!(refusal(&other).contains("`g`, which is not offered"));
    let none = Request::new().user("hi");
    assert_eq!(body(&none.clone().tool_choice(ToolChoice::Auto)).get("toolConfig"), None);
    assert!(refusal(&none.tool_choice(ToolChoice::Required)).contains("no tool is offered"));
}

#[test]
fn an_effort_is_a_level_or_a_budget_by_the_series() {
    let said = |wire: &Gemini, request: Request| {
        let request = request.user("hi");
        let warnings = warnings_of(wire, &request).len();
        (body_of(wire, &request).pointer("/generationConfig/thinkingConfig").cloned(), warnings)
    };
    let effort = |effort| Request::new().reasoning(effort);
    let table = [
        (ReasoningEffort::None, ("MINIMAL", 1), (0, 0)),
        (ReasoningEffort::Minimal, ("MINIMAL", 0), (1024, 0)),
        (ReasoningEffort::Low, ("LOW", 0), (1024, 0)),
        (ReasoningEffort::Medium, ("MEDIUM", 0), (8192, 0)),
        (ReasoningEffort::High, ("HIGH", 0), (24_576, 0)),
        (ReasoningEffort::XHigh, ("XHIGH", 0), (24_576, 1)),
        (ReasoningEffort::Max, ("XHIGH", 1), (24_576, 1)),
    ];
    for (word, (level, level_warnings), (budget, budget_warnings)) in table {
        let want = json!({ "includeThoughts": true, "thinkingLevel": level });
        assert_eq!(said(&third(), effort(word)), (Some(want), level_warnings), "{word:?}");
        let mut want = json!({ "includeThoughts": true, "thinkingBudget": budget });
        if budget == 0 {
            want = json!({ "thinkingBudget": 0 });
        }
        assert_eq!(said(&wire(), effort(word)), (Some(want), budget_warnings), "{word:?}");
    }
    assert_eq!(said(&third(), Request::new()), (None, 0));
    let hidden = effort(ReasoningEffort::Low).options(Options::new().include_thoughts(false));
    let want = json!({ "includeThoughts": false, "thinkingLevel": "LOW" });
    assert_eq!(said(&third(), hidden), (Some(want), 0));
    let both = effort(ReasoningEffort::Low).options(Options::new().thinking_budget(7));
    assert!(refusal(&both.user("hi")).contains("exclude"));
}

#[test]
fn what_the_wire_has_no_word_for_is_a_warning_or_an_error() {
    let mut output = OutputSchema::new("answer", json!({}));
    output.description = Some("The answer.".to_owned());
    output.strict = false;
    let hi = || Request::new().user("hi");
    let document = Document::base64("application/pdf", "JVBERg==").with_name("a.pdf");
    let hints = hi()
        .metadata("team", "t")
        .output_schema(output)
        .message(Message::new(Role::User, vec![document.into()]));
    assert_eq!(
        warnings_of(&wire(), &hints),
        ["document.name", "output_schema.description", "output_schema.strict", "metadata.team"]
    );
    // What does not change the meaning is no error: without tools there are no calls to forbid.
    let offering = || hi().tool(ToolSpec::new("f"));
    let fine =
        [offering().parallel_calls(true), offering().parallel_calls(false).tool_choice(ToolChoice::None)];
    for request in [&hi().parallel_calls(false), &fine[0], &fine[1]] {
        assert_eq!(warnings_of(&wire(), request), Vec::<String>::new());
    }
    assert!(refusal(&offering().parallel_calls(false)).contains("several calls"));

    assert!(refusal(&hi().tool(ToolSpec::new("f").free_form())).contains("free-form"));
    assert!(refusal(&hi().tool(ToolSpec::new("srv.get file"))).contains("srv.get file"));
    assert!(refusal(&hi().message(Message::new(Role::User, vec![call("a").into()]))).contains("a call"));
    let result = ResultPart::text("a", "f", "x");
    assert!(refusal(&hi().message(assistant(vec![result.into()]))).contains("a result"));
    assert!(refusal(&hi().options(Options::new().stream_arguments(true))).contains("Vertex"));
    assert!(refusal(&hi().options(Options::new().extra("contents", json!([])))).contains("`contents`"));
    let twice = hi().temperature(0.1).options(Options::new().generation("temperature", json!(0.2)));
    assert!(refusal(&twice).contains("`temperature`"));
}

#[test]
fn results_stand_alone_in_the_order_of_their_calls() {
    let request = Request::new()
        .user("one")
        .user("two")
        .message(assistant(vec![Part::text(""), call("a").into(), call("b").into()]))
        .message(
            Message::results([ResultPart::text("b", "f", "B").with_error(), ResultPart::text("a", "f", "A")])
                .with_part("And?"),
        )
        .message(Message::results([ResultPart::text("c", "g", "")]));
    let function = |id: &str| json!({ "functionCall": { "id": id, "name": "f", "args": {} } });
    let answer = |id: &str, name: &str, response: Value| json!({ "functionResponse": { "id": id, "name": name, "response": response } });
    assert_eq!(
        body(&request)["contents"],
        json!([
            { "role": "user", "parts": [{ "text": "one" }, { "text": "two" }] },
            { "role": "model", "parts": [function("a"), function("b")] },
            { "role": "user", "parts": [
                answer("a", "f", json!({ "output": "A" })),
                answer("b", "f", json!({ "error": "B" })),
            ] },
            { "role": "user", "parts": [{ "text": "And?" }] },
            { "role": "user", "parts": [answer("c", "g", json!({ "output": "(no output)" }))] },
        ])
    );
}

#[test]
fn ids_that_were_made_up_stay_here_in_call_and_result() {
    let request = Request::new()
        .message(assistant(vec![call("turnstream_call_0").with_made_up_id().into(), call("a").into()]))
        .message(Message::results([
            ResultPart::text("turnstream_call_0", "f", "x"),
            ResultPart::text("a", "f", "y"),
        ]));
    let body = body(&request);
    let ids = |content: usize, kind: &str| -> Vec<Option<&str>> {
        let parts = body["contents"][content]["parts"].as_array().unwrap();
        parts.iter().map(|part| part[kind]["id"].as_str()).collect()
    };
    assert_eq!(ids(0, "functionCall"), [None, Some("a")]);
    assert_eq!(ids(1, "functionResponse"), [None, Some("a")]);
}

#[test]
fn images_in_results_stand_in_them_from_the_third_series_on_and_behind_them_before() {
    let content = vec![
        ResultContent::Text("chart".to_owned()),
        ResultContent::Image(Image::base64("image/png", "iVBORw0KGgo=")),
        ResultContent::Text("end".to_owned()),
    ];
    let request = Request::new().message(Message::results([
        ResultPart::new("a", "f", content),
        ResultPart::new("b", "f", Vec::new()).with_error(),
    ]));
    let image = json!({ "inlineData": { "mimeType": "image/png", "data": "iVBORw0KGgo=" } });
    let mut answer = json!({ "functionResponse": {
        "id": "a", "name": "f", "response": { "output": "chart\nend" },
    } });
    let failed = json!({ "functionResponse": {
        "id": "b", "name": "f", "response": { "error": "The tool failed and said nothing." },
    } });
    assert_eq!(body(&request)["contents"][0]["parts"], json!([answer, image, failed]));
    answer["functionResponse"]["parts"] = json!([image]);
    assert_eq!(body_of(&third(), &request)["contents"][0]["parts"], json!([answer, failed]));
}

#[test]
fn data_goes_from_wherever_it_is() {
    let parts = vec![
        Image::url("https://h/a.PNG?x=1.pdf").into(),
        Image::url("https://h/picture").into(),
        Image::new(Source::File("https://generativelanguage.googleapis.com/v1beta/files/1".to_owned()))
            .into(),
        Document::base64("text/markdown", "IyBIaQ==").into(),
        Audio::base64("audio/wav", "UklGRg==").into(),
    ];
    assert_eq!(
        body(&Request::new().message(Message::new(Role::User, parts)))["contents"][0]["parts"],
        json!([
            { "fileData": { "mimeType": "image/png", "fileUri": "https://h/a.PNG?x=1.pdf" } },
            { "fileData": { "fileUri": "https://h/picture" } },
            { "fileData": { "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1" } },
            { "inlineData": { "mimeType": "text/markdown", "data": "IyBIaQ==" } },
            { "inlineData": { "mimeType": "audio/wav", "data": "UklGRg==" } },
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
    for (arguments, args) in table {
        let call = CallPart::new("a", "f", arguments);
        let encoded = wire().encode(&Request::new().message(assistant(vec![call.into()]))).unwrap();
        let text = String::from_utf8_lossy(&encoded.body).into_owned();
        assert!(text.contains(&format!("\"name\":\"f\",\"args\":{args}}}")), "{arguments}: {text}");
    }
    let free = CallPart::new("a", "f", "{\"a\":1}").with_input(InputKind::Text);
    let body = body(&Request::new().message(assistant(vec![free.into()])));
    assert_eq!(body["contents"][0]["parts"][0]["functionCall"]["args"], json!({ "input": "{\"a\":1}" }));
}

#[test]
fn what_another_wire_left_stays_here_and_its_calls_are_marked_from_the_third_series_on() {
    let foreign =
        || Replay::new("openai-responses", json!({ "thoughtSignature": "no", "id": "rs_1" }).into());
    let parts = || {
        vec![
            ReasoningPart::new("hm", Some(foreign())).into(),
            ReasoningPart::new("hm", None).into(),
            OpaquePart::new(foreign()).into(),
            TextPart::new("So.").with_replay(foreign()).into(),
            call("a").with_replay(foreign()).into(),
            call("b").into(),
        ]
    };
    let function = |id: &str| json!({ "functionCall": { "id": id, "name": "f", "args": {} } });
    let request = Request::new().user("hi").message(assistant(parts()));
    assert_eq!(
        body(&request)["contents"][1]["parts"],
        json!([{ "text": "So." }, function("a"), function("b")])
    );
    let mut first = function("a");
    first["thoughtSignature"] = json!("skip_thought_signature_validator");
    assert_eq!(
        body_of(&third(), &request)["contents"][1]["parts"],
        json!([{ "text": "So." }, first, function("b")])
    );
    let signed = call("a").with_replay(replay(json!({ "thoughtSignature": "c2ln" })));
    let request = Request::new().message(assistant(vec![signed.into(), call("b").into()]));
    assert_eq!(body_of(&third(), &request)["contents"][0]["parts"][0]["thoughtSignature"], "c2ln");
    let only = vec![ReasoningPart::new("hm", Some(foreign())).into()];
    let request = Request::new().user("a").message(assistant(only)).user("b");
    assert_eq!(body(&request)["contents"].as_array().unwrap().len(), 1);
}

#[test]
fn a_reply_goes_back_as_it_came() {
    let parts = [
        r#"{"text":"hm","thought":true}"#,
        r#"{"text":"so","thought":true,"thoughtSignature":"YQ=="}"#,
        r#"{"text":"Look."}"#,
        r#"{"text":"Signed.","thoughtSignature":"Yg=="}"#,
        r#"{"executableCode":{"language":"PYTHON","code":"1"}}"#,
        r#"{"hologram":{"depth":2.0},"thoughtSignature":"Yw=="}"#,
        r#"{"functionCall":{"id":"a","name":"f","args":{"b": 1.0, "a":"\u00e9"}},"thoughtSignature":"ZA=="}"#,
        r#"{"functionCall":{"name":"f","args":{}}}"#,
        r#"{"text":"","thoughtSignature":"ZQ=="}"#,
    ];
    let reply = format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{}]}},"finishReason":"STOP"}}]}}"#,
        parts.join(",")
    );
    for wire in [wire(), third()] {
        let (mut decoder, mut events) = (wire.decoder(), Events::new());
        decoder.feed(reply.as_bytes(), &mut events);
        decoder.end(End::Closed, &mut events);
        let mut turn = TurnBuilder::new();
        events.for_each(|event| turn.push(&event.unwrap()));
        let request = Request::new().message(turn.build().into_message());
        let sent = wire.encode(&request).unwrap().body;
        let sent = String::from_utf8_lossy(&sent);
        assert!(sent.contains(&format!(r#"{{"role":"model","parts":[{}]}}"#, parts.join(","))), "{sent}");
    }
}

#[test]
fn a_tools_name_that_the_model_made_up_is_made_to_fit() {
    let call = CallPart::new("a", "functions.f!", "{}");
    let result = ResultPart::text("a", "functions.f!", "There is no such tool.");
    let request =
        Request::new().user("go").message(assistant(vec![call.into()])).message(Message::results([result]));
    let body = body(&request);
    let name = body["contents"][1]["parts"][0]["functionCall"]["name"].as_str().unwrap();
    assert!(name.starts_with("functionsf"), "{name}");
    assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["name"], name);
}

#[test]
fn labels_go_to_vertex_only() {
    let express = Gemini::new("m").profile(Profile::VertexExpress).key("k");
    let request = Request::new().user("hi").metadata("team", "t");
    assert_eq!(body_of(&express, &request)["labels"], json!({ "team": "t" }));
    assert_eq!(body(&request).get("labels"), None);
}
