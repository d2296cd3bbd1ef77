//! The testing kit against the real decoders and clients: what its builders say is what the wires
//! understand.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use serde_json::{Value, json};
use turnstream::{Error, Event, Message, Model, Part, Reason, Request, ResultPart, ToolChoice, Turn};
use turnstream_testing::{
    HttpWire, OverHttp, Reply, anthropic, bedrock, cohere,
    conformance::{check_laws, cuts_do_not_matter, line},
    events, gemini, ollama, openai_chat, openai_responses,
    wiremock::{
        asks_model, chooses_tools, has_error_result_for, has_result, has_result_for, last_user_text,
        offers_tool, sent_requests, system_text,
    },
};
use turnstream_tests::TestedWire;
use wiremock::{Mock, MockServer, matchers::method};

/// The same replies in every form.
fn replies<F>(new: fn() -> Reply<F>) -> Vec<(&'static str, Reply<F>)> {
    let call = || new().text(["Let me ", "look."]).call("c1", "lookup_order", json!({ "id": "Ä-4471 😀" }));
    let pair = || [("c1", "t", json!({ "id": 1 })), ("c2", "t", json!({ "id": 2 }))];
    vec![
        ("text", new().text(["It ", "ships ", "today."])),
        ("reasoning", new().reasoning(["Hm", "."]).text(["Yes."])),
        ("call", call().fragments_of(1)),
        ("call cut at offsets", call().fragments_at([3, 8, 9, 10])),
        ("interleaved calls", new().interleaved_calls(pair()).fragments_of(2)),
        ("call without arguments", new().call_raw("c1", "t", "")),
        ("length", new().text(["It sh"]).length()),
        ("length in a call", new().call_raw("c1", "t", "{\"id").length()),
        ("length before a call's arguments", new().call_raw("c1", "t", "").length()),
        ("malformed arguments", new().call_raw("c1", "t", "{\"id\":}")),
        ("cut in text", new().text(["It sh"]).cut()),
        ("cut in a call", new().call_raw("c1", "t", "{\"id").cut()),
        ("error", new().text(["It sh"]).error("server_error", "Too busy.")),
    ]
}

/// The replies that are cut before a call is whole: where calls come whole, nothing of it is seen.
const CUT_IN_A_CALL: [&str; 3] = ["length in a call", "length before a call's arguments", "cut in a call"];

/// The bodies of all replies, on a wire.
fn bodies<W: HttpWire>() -> Vec<Vec<u8>> {
    replies(Reply::<OverHttp<W>>::new).into_iter().map(|(_, reply)| reply.body()).collect()
}

#[test]
fn every_reply_means_the_same_on_every_wire() {
    let wires = [
        (TestedWire::Anthropic, bodies::<anthropic::Messages>()),
        (TestedWire::Cohere, bodies::<cohere::Chat>()),
        (TestedWire::Gemini, bodies::<gemini::Responses>()),
        (TestedWire::Ollama, bodies::<ollama::Chat>()),
        (TestedWire::Bedrock, bodies::<bedrock::Converse>()),
        (TestedWire::OpenAiChat, bodies::<openai_chat::Completions>()),
        (TestedWire::OpenAiResponses, bodies::<openai_responses::Responses>()),
    ];
    for (index, (name, reply)) in replies(events::Reply::new).into_iter().enumerate() {
        let want = essence(&reply.events());
        for (wire, bodies) in &wires {
            let decoded = cuts_do_not_matter(|| wire.decoder(), &bodies[index]);
            check_laws(&decoded);
            let name = format!("{name} on {}", wire.name());
            if !wire.sends_fragments() && CUT_IN_A_CALL.contains(&name.split(" on ").next().unwrap()) {
                let ended = decoded.last().unwrap();
                assert!(
                    !matches!(ended, Ok(Event::TurnFinished(end)) if end.reason != Reason::Length),
                    "{name}"
                );
                let is_call = |event: &Event| matches!(event, Event::CallStarted(_) | Event::CallAborted(_));
                assert!(!decoded.iter().flatten().any(is_call), "{name}: {decoded:?}");
                continue;
            }
            let (mut want, mut got) = (want.clone(), essence(&decoded));
            if !wire.sends_fragments() {
                want.sort_by_key(place);
                got.sort_by_key(place);
            }
            if matches!(wire, TestedWire::Cohere | TestedWire::Ollama) {
                // The errors of their streams have words only, or one code for all.
                let both = want.iter_mut().chain(&mut got);
                both.for_each(|event| drop(event.as_object_mut().unwrap().remove("code")));
            }
            assert_eq!(got, want, "{name}");
        }
    }
}

#[test]
fn a_reply_says_who_it_is_and_what_it_cost() {
    fn checked<W: HttpWire>(wire: TestedWire, reply: Reply<OverHttp<W>>) {
        let reply = reply.id("id-7").model("model-7").ping().text(["Hi."]).usage(7, 8);
        let events = cuts_do_not_matter(|| wire.decoder(), &reply.body());
        let first: Value = serde_json::from_str(&line(&events[0])).unwrap();
        // Ollama's replies have no id, Cohere's no model, and Bedrock's neither.
        let says = |word: &str, does: bool| if does { json!(word) } else { json!(null) };
        let id = says("id-7", !matches!(wire, TestedWire::Ollama | TestedWire::Bedrock));
        let model = says("model-7", !matches!(wire, TestedWire::Cohere | TestedWire::Bedrock));
        assert_eq!((&first["id"], &first["model"]), (&id, &model));
        let last: Value = serde_json::from_str(&line(events.last().unwrap())).unwrap();
        assert_eq!(last["usage"], json!({ "input_tokens": 7, "output_tokens": 8 }));
    }
    checked(TestedWire::Anthropic, anthropic::Reply::new());
    checked(TestedWire::Cohere, cohere::Reply::new());
    checked(TestedWire::Gemini, gemini::Reply::new());
    checked(TestedWire::Ollama, ollama::Reply::new());
    checked(TestedWire::Bedrock, bedrock::Reply::new());
    checked(TestedWire::OpenAiChat, openai_chat::Reply::new());
    checked(TestedWire::OpenAiResponses, openai_responses::Reply::new());
}

#[tokio::test]
async fn matchers_tell_requests_apart_on_every_wire() {
    async fn checked<W: HttpWire>(wire: TestedWire, reply: fn() -> Reply<OverHttp<W>>) {
        let server = MockServer::start().await;
        let answer = |text: &str| reply().text([text]);
        let mocks = [
            Mock::given(has_result_for("c1")).respond_with(answer("It ships today.")),
            Mock::given(offers_tool("lookup_order")).and(asks_model("m")).respond_with(reply().call(
                "c1",
                "lookup_order",
                json!({ "id": 1 }),
            )),
            Mock::given(last_user_text("Hello")).respond_with(answer("Hello yourself.")),
            Mock::given(method("POST")).respond_with(reply().refused(400, "no_match", "Nothing matched.")),
        ];
        for mock in mocks {
            mock.mount(&server).await;
        }
        let client = wire.client(&server.uri());
        let ask = async |request: &Request| client.stream(request).into_turn().await;

        assert_eq!(ask(&Request::new().user("Hello")).await.unwrap().text(), "Hello yourself.");
        let spec = turnstream::ToolSpec::new("lookup_order").parameters(json!({ "type": "object" }));
        let mut request = Request::new().user("Where is it?").tool(spec);
        let turn: Turn = ask(&request).await.unwrap();
        let result = ResultPart::text("c1", "lookup_order", "sent");
        request = request.message(turn.into_message()).message(turnstream::Message::results([result]));
        assert_eq!(ask(&request).await.unwrap().text(), "It ships today.");
        let error = ask(&Request::new().user("Goodbye")).await.unwrap_err();
        let error = error.error();
        assert_eq!((error.status(), error.message()), (Some(400), "Nothing matched."));
        // Ollama's errors have words only.
        assert_eq!(error.code(), (wire != TestedWire::Ollama).then_some("no_match"));
    }
    checked(TestedWire::Anthropic, anthropic::Reply::new).await;
    checked(TestedWire::Cohere, cohere::Reply::new).await;
    checked(TestedWire::Gemini, gemini::Reply::new).await;
    checked(TestedWire::Ollama, ollama::Reply::new).await;
    checked(TestedWire::Bedrock, bedrock::Reply::new).await;
    checked(TestedWire::OpenAiChat, openai_chat::Reply::new).await;
    checked(TestedWire::OpenAiResponses, openai_responses::Reply::new).await;
}

#[tokio::test]
async fn every_matcher_matches_its_request_on_every_wire_and_no_other() {
    async fn checked<W: HttpWire>(wire: TestedWire) {
        let server = MockServer::start().await;
        Mock::given(method("POST")).respond_with(Reply::<OverHttp<W>>::new()).mount(&server).await;
        let call = turnstream::CallPart::new("c1", "look", "{\"id\":1}");
        let result = ResultPart::text("c1", "look", "sent").with_error();
        let request = Request::new()
            .system("Be brief.")
            .user("Where is it?")
            .message(Message::new(turnstream::Role::Assistant, vec![Part::Call(call)]))
            .message(Message::results([result]))
            .tool(turnstream::ToolSpec::new("look"));
        // Ollama's wire has no word for a tool choice.
        let has_choice = wire != TestedWire::Ollama;
        let request = if has_choice { request.tool_choice(ToolChoice::Tool("look".into())) } else { request };
        wire.client(&server.uri()).stream(&request).into_turn().await.unwrap();

        let received = &server.received_requests().await.unwrap()[0];
        let matches = |matcher: &dyn wiremock::Match| matcher.matches(received);
        assert!(matches(&asks_model("m")) && !matches(&asks_model("n")));
        assert!(matches(&system_text("Be brief.")) && !matches(&system_text("Be long.")));
        assert!(matches(&offers_tool("look")) && !matches(&offers_tool("see")));
        // Cohere's has none for one tool: that one is offered alone, and a call is required.
        let choice = match wire {
            TestedWire::Cohere => ToolChoice::Required,
            _ => ToolChoice::Tool("look".into()),
        };
        assert_eq!(matches(&chooses_tools(choice)), has_choice);
        assert!(!matches(&chooses_tools(ToolChoice::Auto)));
        assert!(matches(&last_user_text("Where is it?")) && !matches(&last_user_text("Where?")));
        assert!(matches(&has_result_for("c1")) && !matches(&has_result_for("c2")));
        assert!(!matches(&has_result("c1", "lost")) && !matches(&has_result("c2", "sent")));
        // The wires that have no mark for errors say so in the text.
        let marks_errors = matches!(wire, TestedWire::Anthropic | TestedWire::Bedrock | TestedWire::Gemini);
        assert_eq!(matches(&has_error_result_for("c1")), marks_errors);
        assert_eq!(matches(&has_result("c1", "sent")), marks_errors);
        let sent = sent_requests(&server).await;
        sent[0].assert_sound();
        assert!(sent[0].result("c1").unwrap().content.ends_with("sent"));
    }
    checked::<anthropic::Messages>(TestedWire::Anthropic).await;
    checked::<cohere::Chat>(TestedWire::Cohere).await;
    checked::<gemini::Responses>(TestedWire::Gemini).await;
    checked::<ollama::Chat>(TestedWire::Ollama).await;
    checked::<bedrock::Converse>(TestedWire::Bedrock).await;
    checked::<openai_chat::Completions>(TestedWire::OpenAiChat).await;
    checked::<openai_responses::Responses>(TestedWire::OpenAiResponses).await;
}

#[tokio::test]
async fn a_client_is_a_model_like_a_script() {
    let model: Box<dyn Model> =
        Box::new(turnstream_testing::ScriptedModel::new().turn(events::Reply::new().text(["Hi."])));
    let turn = model.stream(&Request::new().user("Hello")).into_turn().await.unwrap();
    assert_eq!(turn.text(), "Hi.");
}

/// Where an event stands if calls come one after the other, each whole.
fn place(event: &Value) -> (u8, Option<u64>) {
    let call = event["call"].as_u64();
    match event["type"].as_str() {
        Some("turn_finished" | "error") => (2, None),
        _ => (u8::from(call.is_some()), call),
    }
}

/// What must be the same on every wire: text, reasoning, calls and the end, without the wires' own words.
/// The fragments of a call are left out: some wires send it whole, and that they are its arguments is a law.
fn essence(events: &[Result<Event, Error>]) -> Vec<Value> {
    const OWN: [&str; 3] = ["turn_started", "part_finished", "call_argument_fragment"];
    let shown = |event: &Value| !OWN.contains(&event["type"].as_str().unwrap());
    let mut essence: Vec<Value> =
        events.iter().map(|event| serde_json::from_str(&line(event)).unwrap()).filter(shown).collect();
    for event in &mut essence {
        let event = event.as_object_mut().unwrap();
        event.retain(|name, _| !matches!(name.as_str(), "raw_reason" | "usage" | "message" | "body"));
    }
    essence
}
