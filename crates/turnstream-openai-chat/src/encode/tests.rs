use serde_json::{Value, json};
use turnstream_core::{
    Arguments, ErrorKind, OpaquePart, OutputSchema, ReasoningEffort, ReasoningPart, Replay, TextPart, Wire,
};

use super::*;
use crate::{Grammar, Profile};

fn wire() -> OpenAiChat {
    OpenAiChat::new("m").key("k".to_owned())
}

fn at(profile: Profile) -> OpenAiChat {
    wire().profile(profile)
}

fn encoded(wire: &OpenAiChat, request: &Request) -> Value {
    serde_json::from_slice(&wire.encode(request).unwrap().body).unwrap()
}

fn sent(wire: &OpenAiChat, messages: Vec<Message>) -> Value {
    encoded(wire, &Request::new().messages(messages))["messages"].take()
}

fn refused(request: &Request) -> String {
    let error = wire().encode(request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    error.message().to_owned()
}

fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| Part::Call(CallPart::new(*id, "f", "{}"));
    Message::new(Role::Assistant, ids.iter().map(call).collect())
}

fn call_body(id: &str) -> Value {
    json!({"type": "function", "id": id, "function": {"name": "f", "arguments": "{}"}})
}

fn replay(data: Value) -> Option<Replay> {
    Some(Replay::new(WIRE, data.into()))
}

#[test]
fn a_request_says_everything() {
    let schema = || RawJson::parse(r#"{"type":"object"}"#).unwrap();
    let options = Options::new()
        .seed(7)
        .frequency_penalty(0.5)
        .presence_penalty(-0.5)
        .logit_bias("50256", -100.0)
        .service_tier("flex")
        .store(false)
        .verbosity(crate::Verbosity::Low)
        .prompt_cache_key("orders")
        .safety_identifier("u-1")
        .user("u-2")
        .grammar("calc", Grammar::regex("[0-9]+"))
        .extra("top_k", json!(40));
    let request = Request::new()
        .system("Be brief.")
        .system(" ")
        .user("hi")
        .tool(ToolSpec::new("lookup").description("Looks up.").parameters(schema()).strict(true))
        .tool(ToolSpec::new("now"))
        .tool(ToolSpec::new("calc").free_form())
        .tool_choice(ToolChoice::Tool("calc".into()))
        .parallel_calls(false)
        .max_tokens(300)
        .temperature(0.5)
        .top_p(0.9)
        .stop("END")
        .reasoning(ReasoningEffort::Low)
        .output_schema(OutputSchema::new("answer", schema()))
        .metadata("team", "orders")
        .options(options);
    let want = json!({
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "tools": [
            {"type": "function", "function": {"name": "lookup", "description": "Looks up.", "parameters": {"type": "object"}, "strict": true}},
            {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": false}}},
            {"type": "custom", "custom": {"name": "calc", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[0-9]+"}}}},
        ],
        "tool_choice": {"type": "custom", "custom": {"name": "calc"}},
        "parallel_tool_calls": false,
        "max_completion_tokens": 300,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": true}},
        "metadata": {"team": "orders"},
        "seed": 7,
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "logit_bias": {"50256": -100.0},
        "service_tier": "flex",
        "store": false,
        "verbosity": "low",
        "prompt_cache_key": "orders",
        "safety_identifier": "u-1",
        "user": "u-2",
        "stream": true,
        "stream_options": {"include_usage": true},
        "top_k": 40,
    });
    assert_eq!(encoded(&wire(), &request), want);
}

#[test]
fn the_providers_own_tools_stand_behind_the_requests() {
    let search = json!({"type": "web_search", "n": 1.0});
    let options = || Options::new().server_tool(search.clone());
    let request = Request::new().user("q").tool_choice(ToolChoice::Required).parallel_calls(false);
    let body = encoded(&wire(), &request.clone().options(options()));
    assert_eq!(body["tools"], json!([search]));
    assert_eq!((&body["tool_choice"], &body["parallel_tool_calls"]), (&json!("required"), &json!(false)));
    let both = encoded(&wire(), &request.clone().tool(ToolSpec::new("f")).options(options()));
    assert_eq!((&both["tools"][0]["type"], &both["tools"][1]), (&json!("function"), &search));
    let by_hand = encoded(&wire(), &request.options(Options::new().extra("tools", json!([search]))));
    assert_eq!(by_hand["tools"], json!([search]));
}

#[test]
fn an_answer_can_be_any_json_object() {
    let request = Request::new().user("q").options(Options::new().json_object());
    assert_eq!(encoded(&wire(), &request)["response_format"], json!({"type": "json_object"}));
    let schema = OutputSchema::new("answer", json!({"type": "object"}));
    assert!(refused(&request.output_schema(schema)).contains("schema"));
    let by_hand = Options::new().extra("response_format", json!({"type": "text"}));
    let by_hand = encoded(&wire(), &Request::new().user("q").options(by_hand));
    assert_eq!(by_hand["response_format"], json!({"type": "text"}));
}

#[test]
fn user_content_goes_in_parts() {
    let message = Message::user("see")
        .with_part(Image::url("https://x/a.png"))
        .with_part(Image::base64("image/png", "iVBORw0KGgo="))
        .with_part(Audio::new(Source::Base64 { media_type: "audio/mpeg".into(), data: "SUQz".into() }))
        .with_part(Document::new(Source::File("file-1".into())))
        .with_part(Document::new(Source::Base64 {
            media_type: "application/pdf".into(),
            data: "JVBERg==".into(),
        }));
    let want = json!([{"role": "user", "content": [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg==", "filename": "document.pdf"}},
    ]}]);
    assert_eq!(sent(&wire(), vec![message]), want);
}

#[test]
fn results_come_first_and_under_their_own_ids() {
    let results = Message::results([
        ResultPart::text("call_0_7d", "add", "A"),
        ResultPart::text("call_1_b8", "sub", "B"),
        ResultPart::text("call_2_8e", "add", "C"),
    ]);
    let history = vec![calls(&["call_0_7d", "call_1_b8", "call_2_8e"]), results.with_part("go on")];
    let want = json!([
        {"role": "assistant", "content": null, "tool_calls": [call_body("call_0_7d"), call_body("call_1_b8"), call_body("call_2_8e")]},
        {"role": "tool", "tool_call_id": "call_0_7d", "content": "A"},
        {"role": "tool", "tool_call_id": "call_1_b8", "content": "B"},
        {"role": "tool", "tool_call_id": "call_2_8e", "content": "C"},
        {"role": "user", "content": "go on"},
    ]);
    assert_eq!(sent(&wire(), history), want);
}

#[test]
fn images_in_results_follow_all_results_of_the_turn() {
    let image = || ResultContent::Image(Image::base64("image/png", "iVBORw0KGgo="));
    let first =
        Message::results([ResultPart::new("a", "chart", vec![ResultContent::Text("chart".into()), image()])]);
    let second = Message::results([ResultPart::new("b", "chart", vec![image()])]).with_part("go on");
    let part = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    let want = json!([
        {"role": "assistant", "content": null, "tool_calls": [call_body("a"), call_body("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "chart"},
        {"role": "tool", "tool_call_id": "b", "content": "(see the next message)"},
        {"role": "user", "content": [
            {"type": "text", "text": "From the result of the call a:"}, part,
            {"type": "text", "text": "From the result of the call b:"}, part,
            {"type": "text", "text": "go on"},
        ]},
    ]);
    assert_eq!(sent(&wire(), vec![calls(&["a", "b"]), first, second]), want);
}

#[test]
fn an_empty_result_says_so_and_a_failed_one_too() {
    let table = [
        (ResultPart::text("a", "f", " "), "(no output)"),
        (ResultPart::new("a", "f", vec![]).with_error(), "Error: The tool failed and said nothing."),
        (ResultPart::text("a", "f", "no such order").with_error(), "Error: no such order"),
        (
            ResultPart::new("a", "f", vec![ResultContent::Text("1".into()), ResultContent::Text("2".into())]),
            "1\n2",
        ),
    ];
    for (result, content) in table {
        let message = sent(&wire(), vec![calls(&["a"]), Message::results([result])])[1].take();
        assert_eq!(message, json!({"role": "tool", "tool_call_id": "a", "content": content}));
    }
}

#[test]
fn a_models_message_goes_back_as_the_server_gave_it() {
    let mut signed = CallPart::new("a", "f", Arguments::from(r#"{"x": 1.0}"#.to_owned()));
    signed.replay = replay(json!({"extra_content": {"google": {"thought_signature": "c"}}}));
    let mut free_form = CallPart::new("c", "sql", "SELECT 1".to_owned());
    free_form.input = InputKind::Text;
    let message = Message::new(
        Role::Assistant,
        vec![
            Part::Reasoning(ReasoningPart::new(
                "hm",
                replay(json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]})),
            )),
            Part::text(" "),
            Part::text("Let me look."),
            Part::Call(signed),
            Part::Call(CallPart::new("b", "f", " ".to_owned())),
            Part::Call(free_form),
            Part::Opaque(OpaquePart::new(
                replay(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})).unwrap(),
            )),
        ],
    );
    let want = json!([{
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_details": [{"type": "reasoning.text", "text": "hm"}, {"type": "reasoning.encrypted", "data": "x"}],
        "tool_calls": [
            {"type": "function", "id": "a", "function": {"name": "f", "arguments": "{\"x\": 1.0}"}, "extra_content": {"google": {"thought_signature": "c"}}},
            {"type": "function", "id": "b", "function": {"name": "f", "arguments": "{}"}},
            {"type": "custom", "id": "c", "custom": {"name": "sql", "input": "SELECT 1"}},
        ],
    }]);
    assert_eq!(sent(&wire(), vec![message]), want);
}

#[test]
fn what_belongs_to_another_wire_is_left_out() {
    let foreign = || Replay::new("anthropic-messages", json!({"signature": "s"}).into());
    let mut text = TextPart::new("ok");
    text.replay = Some(foreign());
    let message = Message::new(
        Role::Assistant,
        vec![
            Part::Reasoning(ReasoningPart::new("secret", Some(foreign()))),
            Part::Opaque(OpaquePart::new(foreign())),
            Part::Text(text),
        ],
    );
    let only_opaque = Message::new(Role::Assistant, vec![Part::Opaque(OpaquePart::new(foreign()))]);
    let want = json!([{"role": "assistant", "content": "ok"}]);
    assert_eq!(sent(&at(Profile::DeepSeek), vec![Message::user(" "), message, only_opaque]), want);
}

#[test]
fn reasoning_goes_back_while_calls_are_answered_where_it_is_wanted() {
    let turn = |id: &str| {
        let mut message = calls(&[id]);
        message.parts.insert(0, Part::Reasoning(ReasoningPart::new("think more", None)));
        message.parts.insert(1, Part::text("ok"));
        [message, Message::results([ResultPart::text(id, "f", "1")])]
    };
    let [old, old_result] = turn("a");
    let [new, new_result] = turn("b");
    let silent = calls(&["c"]);
    let history = vec![
        Message::user("q"),
        old,
        old_result,
        Message::assistant("done"),
        Message::user("more"),
        new,
        new_result,
        silent,
    ];
    let reasoning = |wire: &OpenAiChat| -> Vec<Value> {
        let messages = sent(wire, history.clone());
        let messages = messages.as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
        messages.map(|message| message["reasoning_content"].clone()).collect()
    };
    let wanted = [Value::Null, Value::Null, json!("think more"), json!("")];
    assert_eq!(reasoning(&at(Profile::DeepSeek)), wanted);
    assert_eq!(reasoning(&wire().replay_reasoning(true)), wanted);
    assert_eq!(reasoning(&wire()), vec![Value::Null; 4]);
    assert_eq!(reasoning(&at(Profile::DeepSeek).replay_reasoning(false)), vec![Value::Null; 4]);
}

#[test]
fn a_refusal_has_its_field_only_where_it_is_known() {
    let message = || Message::new(Role::Assistant, vec![Part::Refusal(TextPart::new("No."))]);
    assert_eq!(
        sent(&wire(), vec![message()]),
        json!([{"role": "assistant", "content": null, "refusal": "No."}])
    );
    let elsewhere = json!([{"role": "assistant", "content": "No."}]);
    assert_eq!(sent(&at(Profile::Groq), vec![message()]), elsewhere);
}

#[test]
fn mistral_gets_ids_of_nine_characters_in_call_and_result_alike() {
    let mut message = calls(&["toolu_01QxR", "gSIMJiOkT"]);
    let thinking = replay(json!({"thinking": {"signature": "s"}}));
    message.parts.insert(0, Part::Reasoning(ReasoningPart::new("hm", thinking)));
    let results = Message::results([
        ResultPart::text("toolu_01QxR", "f", "1"),
        ResultPart::text("gSIMJiOkT", "f", "2"),
    ]);
    let request = Request::new().messages([message, results]).max_tokens(9).options(Options::new().seed(1));
    let mut body = encoded(&at(Profile::Mistral), &request);
    let fitted = body["messages"][0]["tool_calls"][0]["id"].as_str().unwrap().to_owned();
    assert!(fitted.len() == 9 && fitted.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{fitted}");
    let want = json!([
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "s"}],
            "tool_calls": [call_body(&fitted), call_body("gSIMJiOkT")],
        },
        {"role": "tool", "tool_call_id": fitted, "name": "f", "content": "1"},
        {"role": "tool", "tool_call_id": "gSIMJiOkT", "name": "f", "content": "2"},
    ]);
    assert_eq!(body["messages"].take(), want);
    let settings = json!({"model": "m", "messages": null, "max_tokens": 9, "random_seed": 1, "stream": true});
    assert_eq!(body, settings);
}

#[test]
fn usage_is_asked_for_only_where_that_is_known_to_be_taken() {
    let asks = |wire: &OpenAiChat| encoded(wire, &Request::new().user("q"))["stream_options"].clone();
    let yes = json!({"include_usage": true});
    let compatible = at(Profile::Compatible).base_url("https://h/v1");
    assert_eq!(asks(&wire()), yes);
    assert_eq!(asks(&compatible), Value::Null);
    assert_eq!(asks(&compatible.include_usage(true)), yes);
    assert_eq!(asks(&wire().include_usage(false)), Value::Null);
}

#[test]
fn system_texts_are_system_unless_asked_otherwise_and_joined_for_local_templates() {
    let request = Request::new().system("be brief").system("answer in Danish").user("q");
    let system = |wire: &OpenAiChat, request: &Request| -> Vec<(String, String)> {
        let messages = encoded(wire, request)["messages"].take();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = messages.as_array().unwrap().iter().filter(|message| message["role"] != "user");
        messages.map(|message| (word(&message["role"]), word(&message["content"]))).collect()
    };
    let two = |role: &str| [(role.into(), "be brief".into()), (role.into(), "answer in Danish".into())];
    assert_eq!(system(&wire(), &request), two("system"));
    let joined = [("system".into(), "be brief\n\nanswer in Danish".into())];
    assert_eq!(system(&at(Profile::LlamaCpp), &request), joined);
    let request = request.options(Options::new().developer_role());
    assert_eq!(system(&wire(), &request), two("developer"));
}

#[test]
fn at_azure_what_is_no_name_leads_nowhere() {
    let ask = |resource, deployment, version| {
        OpenAiChat::azure(resource, deployment, version).encode(&Request::new().user("hi"))
    };
    let base = "https://r.openai.azure.com";
    for (resource, deployment, version) in [
        (base, "", "2024-10-21"),
        (base, "..", "2024-10-21"),
        (base, "d", "1&x=y"),
        (base, "d", "1#"),
        ("https://h?", "d", "2024-10-21"),
        ("https://h#", "d", "2024-10-21"),
        ("no address", "d", "2024-10-21"),
    ] {
        let error = ask(resource, deployment, version).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{resource} {deployment} {version}");
    }
    let want = format!("{base}/openai/deployments/..%2F..%3Fx/chat/completions?api-version=2024-10-21");
    assert_eq!(ask(base, "../..?x", "2024-10-21").unwrap().url.as_str(), want);
}

#[test]
fn every_profile_says_where_and_under_which_key() {
    let request = Request::new().user("q");
    let groq = at(Profile::Groq).encode(&request).unwrap();
    assert_eq!(groq.url.as_str(), "https://api.groq.com/openai/v1/chat/completions");
    assert_eq!(groq.headers["authorization"], "Bearer k");
    let azure = OpenAiChat::azure("https://r.openai.azure.com/", "d", "2024-10-21").key("k".to_owned());
    let azure = azure.encode(&request).unwrap();
    let url = "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21";
    assert_eq!(azure.url.as_str(), url);
    assert_eq!(azure.headers["api-key"], "k");
    assert!(!azure.headers.contains_key("authorization"));
    let own = wire().base_url("https://h/v1").profile(Profile::Groq).encode(&request).unwrap();
    assert_eq!(own.url.as_str(), "https://h/v1/chat/completions");
    assert_eq!(at(Profile::Compatible).encode(&request).unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn a_callers_headers_replace_ours() {
    let wire = wire().header("authorization", "Api-Key z".to_owned()).header("x-trace", "1".to_owned());
    let headers = wire.encode(&Request::new().user("q")).unwrap().headers;
    assert_eq!(headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Api-Key z"]);
    assert_eq!(headers["x-trace"], "1");
    assert_eq!(headers["accept-encoding"], "identity");
}

#[test]
fn what_the_wire_cannot_say_is_refused_by_name() {
    let request = Request::new().user("q");
    let grammar = Options::new().grammar("calc", Grammar::lark("x"));
    let table = [
        (request.clone().options(Options::new().extra("stream", json!(false))), "`stream`"),
        (
            request.clone().max_tokens(1).options(Options::new().extra("max_completion_tokens", json!(2))),
            "`max_completion_tokens`",
        ),
        (request.clone().options(grammar), "`calc`"),
        (request.clone().tool(ToolSpec::new("a b")), "`a b`"),
        (request.clone().tool(ToolSpec::new("s").free_form().parameters(json!({}))), "`s`"),
        (request.clone().tool_choice(ToolChoice::Required), "no tool"),
        (request.clone().tool(ToolSpec::new("f")).tool_choice(ToolChoice::Tool("g".into())), "`g`"),
        (
            request
                .clone()
                .message(Message::user("x").with_part(Document::new(Source::Url("https://x".into())))),
            "document",
        ),
        (
            request
                .clone()
                .message(Message::user("x").with_part(Audio::new(Source::Url("https://x".into())))),
            "sound",
        ),
        (
            request.clone().message(Message::user("x").with_part(Image::new(Source::File("f".into())))),
            "image",
        ),
        (
            request.clone().message(Message::assistant("x").with_part(Image::url("https://x"))),
            "model's message",
        ),
        (request.message(Message::user("x").with_part(CallPart::new("a", "f", "{}"))), "user's message"),
    ];
    for (request, word) in table {
        let message = refused(&request);
        assert!(message.contains(word), "{message}: {word}");
    }
}

#[test]
fn settings_without_tools_to_set_are_left_out() {
    let request = Request::new().user("q").tool_choice(ToolChoice::Auto).parallel_calls(true);
    let body = encoded(&wire(), &request);
    assert_eq!((&body["tool_choice"], &body["parallel_tool_calls"]), (&Value::Null, &Value::Null));
    let strict = Request::new().user("q").tool(ToolSpec::new("f").free_form().strict(true));
    assert_eq!(wire().encode(&strict).unwrap().warnings.len(), 1);
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
    let wire = crate::OpenAiChat::new("m");
    let body = turnstream_core::Wire::encode(&wire, &request).unwrap().body;
    let body = std::str::from_utf8(&body).unwrap();
    assert!(body.contains("\"functionsf") && !body.contains("functions.f!"), "{body}");
}
