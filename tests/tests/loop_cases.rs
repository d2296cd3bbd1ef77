//! The loop's scenarios, each named after its case in the conformance corpora and told in our own words; on
//! every wire where the wire matters.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

#[path = "loop/kit.rs"]
mod kit;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kit::{ANTHROPIC, BEDROCK, CHAT, GEMINI, Kit, Log, OLLAMA, RESPONSES, ended, failure, tail};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use turnstream::{
    Answer, Arguments, CallContext, Client, Error, ErrorKind, Image, Model, Request, Run, RunEvent, Schema,
    Text, Tool, ToolChoice, ToolError, ToolLoop, ToolSource, ToolSpec, TurnStream, openai_chat::OpenAiChat,
};
use turnstream_testing::{HttpWire, OverHttp, Reply, Script, openai_chat, openai_responses};
use turnstream_tests::TestedWire;
use wiremock::MockServer;

fn request() -> Request {
    Request::new().user("go")
}

/// The name of a value's member that holds the conversation on this wire.
fn messages(wire: TestedWire, body: &Value) -> &[Value] {
    let name = if wire == TestedWire::OpenAiResponses { "input" } else { "messages" };
    body[name].as_array().unwrap()
}

/// An error result, as its wire says it: some have a mark for it.
fn error_line(wire: TestedWire, id: &str, words: &str) -> String {
    match wire {
        TestedWire::Anthropic | TestedWire::Bedrock | TestedWire::Gemini => format!("result {id}: {words}"),
        _ => format!("result {id}: Error: {words}"),
    }
}

#[tokio::test]
async fn case_100_results_in_call_order() {
    async fn check<W: HttpWire>(kit: Kit<W>) {
        let log = Log::default();
        let second_has_ended = Arc::new(Notify::new());
        let (wait, tell) = (second_has_ended.clone(), second_has_ended);
        let (slow_log, fast_log) = (log.clone(), log.clone());
        let slow = Tool::new("slow").handler(move |_: Value| {
            let (wait, log) = (wait.clone(), slow_log.clone());
            async move {
                wait.notified().await;
                log.add("slow ended");
                Ok("A")
            }
        });
        let fast = Tool::new("fast").handler(move |_: Value| {
            fast_log.add("fast ended");
            tell.notify_one();
            async { Ok("B") }
        });
        let reply = (kit.reply)().call_raw("a", "slow", "{}").call_raw("b", "fast", "{}");
        let played = kit.play([reply, kit.answer("Done.")], [slow, fast], request()).await;
        assert_eq!(log.take(), ["fast ended", "slow ended"]);
        let want = ["call a slow {}", "call b fast {}", "result a: A", "result b: B"];
        assert_eq!(tail(&played.requests[1]), want, "{:?}", kit.wire);
    }
    check(ANTHROPIC).await;
    check(CHAT).await;
    check(RESPONSES).await;
    check(BEDROCK).await;
    check(GEMINI).await;
    check(OLLAMA).await;
}

#[tokio::test]
async fn case_101_one_handler_fails() {
    async fn check<W: HttpWire>(kit: Kit<W>) {
        let log = Log::default();
        let panics = Tool::new("c").handler(|_: Value| async { if true { panic!("x") } else { Ok(()) } });
        let tools = [
            log.tool("a", "A"),
            log.tool_that("b", || Err(ToolError::new("boom"))),
            panics,
            log.tool("d", "D"),
        ];
        let reply =
            ["a", "b", "c", "d"].iter().fold((kit.reply)(), |reply, name| reply.call_raw(name, name, "{}"));
        let played = kit.play([reply, kit.answer("Done.")], tools, request()).await;
        assert_eq!(ended(&played.outcome), "finished");
        let want = [
            "result a: A".to_owned(),
            error_line(kit.wire, "b", "boom"),
            error_line(kit.wire, "c", "The tool panicked."),
            "result d: D".to_owned(),
        ];
        assert_eq!(tail(&played.requests[1])[4..], want, "{:?}", kit.wire);
        if kit.wire == TestedWire::Anthropic {
            let marks: Vec<bool> = played.requests[1].results().map(|result| result.is_error).collect();
            assert_eq!(marks, [false, true, true, false]);
        }
    }
    check(ANTHROPIC).await;
    check(CHAT).await;
    check(RESPONSES).await;
    check(BEDROCK).await;
    check(GEMINI).await;
    check(OLLAMA).await;
}

#[tokio::test]
async fn case_102_cancel_while_tools_run() {
    async fn check<W: HttpWire>(kit: Kit<W>) {
        let server = MockServer::start().await;
        let calls = (kit.reply)().call_raw("a", "a", "{}").call_raw("b", "b", "{}");
        let script = (kit.script)().turn(calls).turn(kit.answer("I see.")).mount(&server).await;
        let (dropped, was_dropped) = oneshot::channel::<()>();
        let dropped = Arc::new(std::sync::Mutex::new(Some(dropped)));
        let hangs = Tool::new("b").handler(move |_: Value| {
            let guard = dropped.lock().unwrap().take();
            async move {
                let _guard = guard;
                std::future::pending::<()>().await;
                Ok(())
            }
        });
        let client = kit.wire.client(&server.uri());
        let tools = [Log::default().tool("a", "A"), hangs];
        let mut run = ToolLoop::new(client.clone()).tools(tools).run(request());
        while !matches!(run.next().await, Some(RunEvent::HandlerFinished(_))) {}
        let outcome = run.cancel();
        assert_eq!(ended(&outcome), "cancelled");
        assert!(was_dropped.await.is_err(), "the handler was dropped");

        // The caller goes on with what was handed back.
        let again = Request::new().messages(outcome.conversation).user("never mind");
        // One wire wants the tools that a conversation has called.
        let again = ["a", "b"].into_iter().map(ToolSpec::new).fold(again, Request::tool);
        let turn = client.stream(&again).into_turn().await.unwrap();
        assert_eq!(turn.text(), "I see.");
        let unknown = "The call was cancelled while it ran. Whether it had an effect is unknown.";
        let want = [
            "call a a {}".to_owned(),
            "call b b {}".to_owned(),
            "result a: A".to_owned(),
            error_line(kit.wire, "b", unknown),
            "user: never mind".to_owned(),
        ];
        assert_eq!(tail(&script.requests()[1]), want, "{:?}", kit.wire);
        script.verify();
    }
    check(ANTHROPIC).await;
    check(CHAT).await;
    check(RESPONSES).await;
    check(BEDROCK).await;
    check(GEMINI).await;
    check(OLLAMA).await;
}

#[tokio::test]
async fn case_104_duplicate_call_ids() {
    async fn check<W: HttpWire>(kit: Kit<W>) {
        let log = Log::default();
        let replies = [
            (kit.reply)()
                .call_raw("x", "f", r#"{"a":1}"#)
                .call_raw("x", "f", r#"{"a":2}"#)
                .stop(kit.calls_word),
            (kit.reply)().call_raw("x", "f", r#"{"a":3}"#).stop(kit.calls_word),
            kit.answer("Done."),
        ];
        let played = kit.play(replies, [log.tool("f", "ok")], request()).await;
        assert_eq!(log.take(), [r#"f {"a":1}"#, r#"f {"a":2}"#, r#"f {"a":3}"#], "each ran once");
        let want = [
            r#"call x f {"a":1}"#,
            r#"call x_2 f {"a":2}"#,
            "result x: ok",
            "result x_2: ok",
            r#"call x_3 f {"a":3}"#,
            "result x_3: ok",
        ];
        assert_eq!(tail(&played.requests[2]), want, "{:?}", kit.wire);
        assert_eq!(tail(&played.requests[1]), want[..4], "what was said once stays said");
    }
    check(ANTHROPIC).await;
    check(CHAT).await;
    check(RESPONSES).await;
    check(BEDROCK).await;
    check(GEMINI).await;
    check(OLLAMA).await;
}

#[tokio::test]
async fn case_105_forced_tool_choice_loop() {
    async fn check<W: HttpWire>(kit: Kit<W>, forced: Value, free: Value) {
        let forced_request = || request().tool_choice(ToolChoice::Required);
        let call = |id: &str| (kit.reply)().call_raw(id, "f", "{}");
        let choices = |requests: &[turnstream_testing::SentRequest]| {
            requests.iter().map(|request| request.body["tool_choice"].clone()).collect::<Vec<_>>()
        };
        let log = Log::default();
        let replies = [call("a"), kit.answer("Done.")];
        let played = kit.play(replies, [log.tool("f", "ok")], forced_request()).await;
        assert_eq!(ended(&played.outcome), "finished");
        assert_eq!(choices(&played.requests), [forced.clone(), free], "{:?}", kit.wire);

        let replies = [call("a"), call("b")];
        let played = kit
            .play_with(replies, forced_request(), |tool_loop| {
                tool_loop.tool(log.tool("f", "ok")).keep_tool_choice().max_turns(2)
            })
            .await;
        assert_eq!(ended(&played.outcome), "max_turns", "a model that calls for ever is stopped");
        assert_eq!(choices(&played.requests), [forced.clone(), forced]);
        assert!(played.outcome.conversation.open_calls().is_empty());
    }
    check(ANTHROPIC, json!({ "type": "any" }), json!({ "type": "auto" })).await;
    check(CHAT, json!("required"), json!("auto")).await;
    check(RESPONSES, json!("required"), json!("auto")).await;
}

#[tokio::test]
async fn case_107_responses_reasoning_item_replay() {
    let thought =
        json!({ "type": "reasoning", "id": "rs_7", "summary": [], "encrypted_content": "c2VjcmV0" });
    let call = |arguments: &str, status: &str| {
        json!({ "type": "function_call", "id": "fc_7", "call_id": "a", "name": "f",
                "arguments": arguments, "status": status })
    };
    let frames = [
        json!({ "type": "response.output_item.done", "output_index": 0, "item": thought }),
        json!({ "type": "response.output_item.added", "output_index": 1, "item": call("", "in_progress") }),
        json!({ "type": "response.function_call_arguments.delta", "item_id": "fc_7", "output_index": 1,
                "delta": "{}" }),
        json!({ "type": "response.output_item.done", "output_index": 1, "item": call("{}", "completed") }),
        json!({ "type": "response.completed", "response": { "id": "resp_7", "status": "completed" } }),
    ];
    let start = openai_responses::Reply::new();
    let reply =
        frames.iter().fold(start, |reply, frame| reply.frame(frame["type"].as_str().unwrap(), frame)).cut();
    let played =
        RESPONSES.play([reply, RESPONSES.answer("Done.")], [Log::default().tool("f", "ok")], request()).await;
    assert_eq!(ended(&played.outcome), "finished");
    let items = messages(RESPONSES.wire, &played.requests[1].body);
    let [_, reasoning, asked, told] = items else { panic!("{items:#?}") };
    assert_eq!(*reasoning, thought, "the item goes back as it came, an empty summary too");
    assert_eq!((&asked["type"], &asked["call_id"]), (&json!("function_call"), &json!("a")));
    assert_eq!(*told, json!({ "type": "function_call_output", "call_id": "a", "output": "ok" }));
}

#[tokio::test]
async fn case_109_image_in_tool_result() {
    async fn second_body<W: HttpWire>(kit: Kit<W>) -> Vec<Value> {
        let chart = Tool::new("chart").handler(|_: Value| async {
            Ok(Answer::new().text("the chart").image(Image::base64("image/png", "iVBORw0KGgo=")))
        });
        let reply = (kit.reply)().call_raw("a", "chart", "{}").call_raw("b", "f", "{}");
        let tools = [chart, Log::default().tool("f", "ok")];
        let played = kit.play([reply, kit.answer("Done.")], tools, request()).await;
        messages(kit.wire, &played.requests[1].body)[2..].to_vec()
    }
    let image = "data:image/png;base64,iVBORw0KGgo=";

    let anthropic = second_body(ANTHROPIC).await;
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" });
    let content = json!([{ "type": "text", "text": "the chart" }, { "type": "image", "source": source }]);
    assert_eq!(anthropic[0]["content"][0]["content"], content);

    // No image may stand in a tool's message: it follows all results.
    let chat = second_body(CHAT).await;
    let roles: Vec<&Value> = chat.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["tool", "tool", "user"]);
    assert_eq!(chat[0], json!({ "role": "tool", "tool_call_id": "a", "content": "the chart" }));
    let url = &chat[2]["content"].as_array().unwrap().last().unwrap()["image_url"]["url"];
    assert_eq!(*url, json!(image));

    let responses = second_body(RESPONSES).await;
    let output = responses
        .iter()
        .find(|item| item["type"] == "function_call_output" && item["call_id"] == "a")
        .unwrap();
    let pictures: Vec<&Value> =
        output["output"].as_array().unwrap().iter().map(|part| &part["image_url"]).collect();
    assert_eq!(pictures, [&Value::Null, &json!(image)]);
}

#[tokio::test]
async fn case_110_empty_tool_result() {
    async fn check<W: HttpWire>(kit: Kit<W>) {
        let tools = [
            Tool::new("a").handler(|_: Value| async { Ok("") }),
            Tool::new("b").handler(|_: Value| async { Err::<(), _>(ToolError::new("")) }),
            Tool::new("c").handler(|_: Value| async { Ok(()) }),
        ];
        let reply =
            ["a", "b", "c"].iter().fold((kit.reply)(), |reply, name| reply.call_raw(name, name, "{}"));
        let played = kit.play([reply, kit.answer("Done.")], tools, request()).await;
        assert_eq!(ended(&played.outcome), "finished");
        let want = [
            "result a: (no output)".to_owned(),
            error_line(kit.wire, "b", "The tool failed and said nothing."),
            "result c: (no output)".to_owned(),
        ];
        assert_eq!(tail(&played.requests[1])[3..], want, "{:?}", kit.wire);
    }
    check(ANTHROPIC).await;
    check(CHAT).await;
    check(RESPONSES).await;
    check(BEDROCK).await;
    check(GEMINI).await;
    check(OLLAMA).await;
}

#[tokio::test]
async fn case_111_tool_names_out_of_pattern() {
    let long = "a".repeat(80);
    for name in ["srv.get file", "名前", &long, ""] {
        // Nothing is sent: the script has no turn, and would fail the test.
        let played = CHAT.play([], [Tool::new(name)], request()).await;
        assert_eq!(failure(&played.outcome), Some(ErrorKind::Config), "{name}");
        assert!(played.outcome.error().unwrap().message().contains(name), "{name} is named");
        assert!(played.requests.is_empty());
    }
    let twice = [Tool::new("srv_get_file"), Tool::new("srv_get_file")];
    let played = CHAT.play([], twice, request()).await;
    assert_eq!(failure(&played.outcome), Some(ErrorKind::Config), "two tools of one name");

    // Names that are not the program's own are made to fit, stay apart, and come back as they were.
    let given = ["srv.get file", "srv_get_file", "9lives", "名前", &long];
    let names = offered(Listed::new(&given), CHAT).await;
    let distinct: std::collections::HashSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), given.len());
    for name in &names {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        assert!((1..=64).contains(&name.len()) && name.bytes().all(fits), "{name}");
    }
    assert_eq!((names[1].as_str(), names[2].as_str()), ("srv_get_file", "9lives"), "what fits stays");
    assert_eq!(offered(Listed::new(&given), CHAT).await, names, "the same in every run");
    let source = Listed::new(&given);
    let called = source.called.clone();
    let calls = (CHAT.reply)().call_raw("a", &names[0], "{}").call_raw("b", &names[3], "{}");
    let replies = [calls, CHAT.answer("Done.")];
    let played = CHAT.play_with(replies, request(), |tool_loop| tool_loop.source(source)).await;
    assert_eq!(ended(&played.outcome), "finished");
    assert_eq!(called.take(), ["srv.get file", "名前"]);
    let made_up = offered(Listed::new(&["", "f"]), CHAT).await;
    assert!(!made_up[0].is_empty() && made_up[0] != "f", "one without a name gets one: {made_up:?}");
}

/// A server of tools with names of its own.
struct Listed {
    names: Vec<String>,
    called: Log,
}

impl Listed {
    fn new(names: &[&str]) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), called: Log::default() }
    }
}

impl ToolSource for Listed {
    async fn list(&self) -> Result<Vec<Tool>, ToolError> {
        Ok(self.names.iter().map(Tool::new).collect())
    }

    async fn call(&self, name: Text, _: Arguments, _: CallContext) -> Result<Answer, ToolError> {
        self.called.add(name);
        Ok(Answer::new())
    }
}

/// The names under which the tools of a source are offered.
async fn offered<W: HttpWire>(source: Listed, kit: Kit<W>) -> Vec<String> {
    let played = kit.play_with([kit.answer("Done.")], request(), |tool_loop| tool_loop.source(source)).await;
    played.requests[0].tools.clone()
}

#[tokio::test]
async fn case_112_schema_the_vendor_refuses() {
    // These wires take a schema as it stands: nothing of it is lost or rewritten on the way.
    let schema = json!({
        "type": "object",
        "properties": {
            "config": { "$ref": "#/$defs/Config" },
            "value": { "oneOf": [{ "type": "string" }, { "type": "integer" }] },
            "note": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
        },
        "required": ["config"],
        "$defs": { "Config": { "type": "object", "properties": { "n": { "type": "integer" } },
                               "additionalProperties": false } },
    });
    async fn sent<W: HttpWire>(kit: Kit<W>, tools: [Tool; 2]) -> Vec<Value> {
        let played = kit.play([kit.answer("Done.")], tools, request()).await;
        played.requests[0].body["tools"].as_array().unwrap().clone()
    }
    let tools = || {
        let handler = |_: Value| async { Ok(()) };
        [
            Tool::new("f").parameters(schema.clone()).handler(handler),
            Tool::new("g").parameters(Schema::object()).handler(handler),
        ]
    };
    let empty = json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false });
    let [f, g] = sent(ANTHROPIC, tools()).await.try_into().unwrap();
    assert_eq!((&f["input_schema"], &g["input_schema"]), (&schema, &empty));
    let [f, g] = sent(CHAT, tools()).await.try_into().unwrap();
    assert_eq!((&f["function"]["parameters"], &g["function"]["parameters"]), (&schema, &empty));
    let [f, g] = sent(RESPONSES, tools()).await.try_into().unwrap();
    assert_eq!((&f["parameters"], &g["parameters"]), (&schema, &empty));
}

#[tokio::test]
async fn case_114_result_id_is_call_id() {
    async fn check<W: HttpWire>(kit: Kit<W>) {
        let log = Log::default();
        let reply = (kit.reply)()
            .call_raw("call_0_7d", "add", "{}")
            .call_raw("call_1_b8", "sub", "{}")
            .call_raw("call_2_8e", "add", "{}");
        let tools = [log.tool("add", "sum"), log.tool("sub", "difference")];
        let played = kit.play([reply, kit.answer("Done.")], tools, request()).await;
        let want = ["result call_0_7d: sum", "result call_1_b8: difference", "result call_2_8e: sum"];
        assert_eq!(tail(&played.requests[1])[3..], want, "{:?}", kit.wire);
    }
    check(ANTHROPIC).await;
    check(CHAT).await;
    check(RESPONSES).await;
    check(BEDROCK).await;
    check(GEMINI).await;
    check(OLLAMA).await;
}

#[tokio::test]
async fn case_115_reasoning_content_replay() {
    for (replays, want) in [(true, json!("think more")), (false, Value::Null)] {
        let server = MockServer::start().await;
        let calls =
            openai_chat::Reply::new().reasoning(["think ", "more"]).text(["ok"]).call_raw("c", "f", "{}");
        let script = Script::openai_chat().turn(calls).turn(CHAT.answer("Done.")).mount(&server).await;
        let wire = OpenAiChat::new("m")
            .key("secret")
            .base_url(format!("{}/v1", server.uri()))
            .replay_reasoning(replays);
        let tool_loop = ToolLoop::new(Client::new(wire)).tool(Log::default().tool("f", "ok"));
        let mut run = tool_loop.run(request());
        let mut text = String::new();
        while let Some(event) = run.next().await {
            text.push_str(event.text().unwrap_or_default());
        }
        assert_eq!(text, "okDone.", "reasoning is not text");
        let requests = script.requests();
        let assistant = &messages(CHAT.wire, &requests[1].body)[1];
        assert_eq!((&assistant["content"], &assistant["reasoning_content"]), (&json!("ok"), &want));
        assert_eq!(assistant["tool_calls"][0]["id"], "c");
        script.verify();
    }
}

#[tokio::test]
async fn case_121_parallel_results_in_one_turn() {
    async fn roles<W: HttpWire>(kit: Kit<W>) -> (Vec<Value>, Vec<String>) {
        let reply = (kit.reply)().call_raw("a", "f", "{}").call_raw("b", "g", "{}");
        let log = Log::default();
        let played = kit
            .play_with([reply], request(), |tool_loop| {
                tool_loop.tools([log.tool("f", "A"), log.tool("g", "B")]).max_turns(1)
            })
            .await;
        assert_eq!(ended(&played.outcome), "max_turns");
        let again = Request::new().messages(played.outcome.conversation).user("go on");
        // One wire wants the tools that a conversation has called.
        let again = ["f", "g"].into_iter().map(ToolSpec::new).fold(again, Request::tool);
        let played = kit.play([kit.answer("Done.")], [], again).await;
        let request = &played.requests[0];
        (messages(kit.wire, &request.body).to_vec(), tail(request))
    }
    let want = ["call a f {}", "call b g {}", "result a: A", "result b: B", "user: go on"];
    let (anthropic, said) = roles(ANTHROPIC).await;
    assert_eq!(said, want);
    // All results, and what the user says after them, are one message.
    assert_eq!(anthropic.len(), 3);
    let kinds: Vec<&Value> =
        anthropic[2]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["tool_result", "tool_result", "text"]);
    let (bedrock, said) = roles(BEDROCK).await;
    assert_eq!(said, want);
    let blocks = bedrock[2]["content"].as_array().unwrap();
    let kinds: Vec<&String> = blocks.iter().flat_map(|block| block.as_object().unwrap().keys()).collect();
    assert_eq!(bedrock.len(), 3);
    assert_eq!(kinds, ["toolResult", "toolResult", "text"]);
    let (chat, said) = roles(CHAT).await;
    assert_eq!(said, want);
    let roles_of_chat: Vec<&Value> = chat.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles_of_chat, ["user", "assistant", "tool", "tool", "user"]);
    let (_, said) = roles(RESPONSES).await;
    assert_eq!(said, want);
}

#[tokio::test]
async fn case_122_assistant_turn_without_text() {
    async fn assistant<W: HttpWire>(kit: Kit<W>, reply: Reply<OverHttp<W>>) -> Value {
        let played =
            kit.play([reply, kit.answer("Done.")], [Log::default().tool("f", "ok")], request()).await;
        messages(kit.wire, &played.requests[1].body)[1].clone()
    }
    let reply = (ANTHROPIC.reply)().text([""]).call_raw("a", "f", "{}");
    let content = json!([{ "type": "tool_use", "id": "a", "name": "f", "input": {} }]);
    assert_eq!(assistant(ANTHROPIC, reply).await["content"], content);
    let message = assistant(BEDROCK, (BEDROCK.reply)().text([""]).call_raw("a", "f", "{}")).await;
    let call = json!({ "toolUse": { "toolUseId": "a", "name": "f", "input": {} } });
    assert_eq!(message["content"], json!([call]));
    let message = assistant(CHAT, (CHAT.reply)().text([""]).call_raw("a", "f", "{}")).await;
    let message = message.as_object().unwrap();
    assert_eq!(message.get("content"), Some(&Value::Null));
    assert_eq!(message["tool_calls"][0]["id"], "a");
    let item = assistant(RESPONSES, (RESPONSES.reply)().text([""]).call_raw("a", "f", "{}")).await;
    assert_eq!((&item["type"], &item["call_id"]), (&json!("function_call"), &json!("a")));
}

#[tokio::test]
async fn case_141_send_static_unpin() {
    fn is_send_static_unpin<T: Send + Unpin + 'static>() {}
    fn is_send_sync_static<T: Send + Sync + 'static>() {}
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    is_send_static_unpin::<TurnStream>();
    is_send_static_unpin::<Run>();
    is_send_sync_static::<Client>();
    is_send_sync_static::<ToolLoop>();
    is_send_sync_static::<Tool>();
    is_send_sync_static::<RunEvent>();
    is_send_sync_static::<Error>();

    // A run is polled in a task of its own, without a pin, and borrows nothing of its loop or its request.
    let server = MockServer::start().await;
    let script = Script::openai_chat()
        .turn((CHAT.reply)().call_raw("a", "f", "{}"))
        .turn(CHAT.answer("Done."))
        .mount(&server)
        .await;
    let run = {
        let tool_loop = ToolLoop::new(CHAT.wire.client(&server.uri())).tool(Log::default().tool("f", "ok"));
        let request = request();
        let mut turn = is_send(tool_loop.run(request));
        is_send(async move {
            let mut text = String::new();
            while let Some(event) = turn.next().await {
                text.push_str(event.text().unwrap_or_default());
            }
            (text, turn.outcome())
        })
    };
    let (text, outcome) = tokio::spawn(run).await.unwrap();
    assert_eq!((text.as_str(), ended(&outcome).as_str()), ("Done.", "finished"));
    script.verify();
}

#[tokio::test]
async fn case_147_shared_state_in_parallel_handlers() {
    let log = Log::default();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tool = |name: &str| {
        let (log, now, most) = (log.clone(), now.clone(), most.clone());
        Tool::new(name).handler(move |args: Value| {
            let (log, now, most) = (log.clone(), now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                log.add(format!("start {}", args["n"]));
                // Whoever may run now does so here.
                tokio::task::yield_now().await;
                log.add(format!("end {}", args["n"]));
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        })
    };
    let reply = |name: &str| {
        let calls = (0..4).map(|number| (format!("c{number}"), json!({ "n": number })));
        calls.fold((CHAT.reply)(), |reply, (id, arguments)| reply.call(&id, name, arguments))
    };
    let replies = [reply("write"), CHAT.answer("Done.")];
    let played = CHAT.play(replies, [tool("write").sequential()], request()).await;
    assert_eq!(ended(&played.outcome), "finished");
    let want = ["start 0", "end 0", "start 1", "end 1", "start 2", "end 2", "start 3", "end 3"];
    assert_eq!(log.take(), want, "the calls of a sequential tool run one after the other");
    assert_eq!(most.swap(0, Ordering::SeqCst), 1);

    let replies = [reply("read"), CHAT.answer("Done.")];
    CHAT.play_with(replies, request(), |tool_loop| tool_loop.tool(tool("read")).concurrency(3)).await;
    assert!((2..=3).contains(&most.load(Ordering::SeqCst)), "others overlap, and are bounded");
}

#[test]
fn a_client_says_whose_wire_it_speaks_for_the_spans_of_its_runs() {
    let provider = |wire: TestedWire| wire.client("http://127.0.0.1:1").provider().map(str::to_owned);
    assert_eq!(provider(TestedWire::Anthropic).as_deref(), Some("anthropic"));
    assert_eq!(provider(TestedWire::OpenAiChat).as_deref(), Some("openai"));
    assert_eq!(provider(TestedWire::OpenAiResponses).as_deref(), Some("openai"));
}
