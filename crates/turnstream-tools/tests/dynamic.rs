//! Tools that are listed while a run goes on, and wrappers around calls.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use support::{Reply, answer, last_message, pairs, results, scripted, steps};
use turnstream_core::{Arguments, ErrorKind, Reason, Request, Text};
use turnstream_testing::ScriptedModel;
use turnstream_tools::{
    Answer, CallContext, Given, Next, RunStatus, Tool, ToolCall, ToolError, ToolLoop, ToolSource,
};

/// A server whose tools change: it lists these in turn, and writes down what it was called with.
#[derive(Clone, Default)]
struct Server {
    lists: Arc<Mutex<Vec<Vec<Tool>>>>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(lists: impl IntoIterator<Item = Vec<Tool>>) -> Self {
        let lists = lists.into_iter().collect::<Vec<_>>().into_iter().rev().collect();
        Self { lists: Arc::new(Mutex::new(lists)), calls: Arc::default() }
    }
}

impl ToolSource for Server {
    async fn list(&self) -> Result<Vec<Tool>, ToolError> {
        tokio::task::yield_now().await;
        self.lists.lock().unwrap().pop().ok_or_else(|| ToolError::new("the server is gone"))
    }

    async fn call(
        &self,
        name: Text,
        arguments: Arguments,
        context: CallContext,
    ) -> Result<Answer, ToolError> {
        self.calls.lock().unwrap().push(format!("{} {name} {arguments}", context.id()));
        Ok(Answer::new().text(format!("{name} answered")))
    }
}

fn request() -> Request {
    Request::new().user("go")
}

fn offered(script: &ScriptedModel) -> Vec<Vec<String>> {
    let names =
        |request: &Request| request.tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
    script.requests().iter().map(names).collect()
}

#[tokio::test]
async fn tools_change_between_turns_and_are_called_at_their_source() {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let read = Tool::new("read").description("Reads.").parameters(schema.clone());
    let own_handler = Tool::new("local").handler(|_: Value| async { Ok("here") });
    let server = Server::new([vec![read, own_handler], vec![Tool::new("write")], vec![]]);
    let calls =
        Reply::new().call("a", "read", r#"{"path": "x"}"#).call("b", "local", "{}").call("c", "f", "{}");
    let gone = Reply::new().call("d", "write", "").call("e", "read", "{}").end(Reason::ToolCalls);
    let script = scripted([calls.end(Reason::ToolCalls), gone, answer("done")]);
    let own = Tool::new("f").handler(|_: Value| async { Ok("own") });
    let outcome =
        ToolLoop::new(script.clone()).tool(own).source(server.clone()).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished), "{outcome:?}");
    assert_eq!(offered(&script), [vec!["f", "read", "local"], vec!["f", "write"], vec!["f"]]);
    assert_eq!(script.requests()[0].tools[1].parameters.as_ref().unwrap().read::<Value>().unwrap(), schema);
    let first = pairs([("a", "read answered"), ("b", "here"), ("c", "own")]);
    assert_eq!(results(&last_message(&script, 1)), first);
    let mut second =
        pairs([("d", "write answered"), ("e", "There is no tool `read`. The tools are: f, write.")]);
    second[1].2 = true;
    assert_eq!(results(&last_message(&script, 2)), second);
    assert_eq!(*server.calls.lock().unwrap(), [r#"a read {"path": "x"}"#, "d write "]);
}

#[tokio::test]
async fn a_name_that_no_provider_takes_is_made_to_fit_and_called_by_its_own() {
    let server = Server::new(vec![vec![Tool::new("srv.get file"), Tool::new("srv_get_file")]; 2]);
    let first = scripted([answer("done")]);
    ToolLoop::new(first.clone()).source(server.clone()).run(request()).finish().await;
    let names = offered(&first).remove(0);
    assert!(
        names[0].starts_with("srvgetfile") && names[0] != names[1] && names[1] == "srv_get_file",
        "{names:?}"
    );

    let nameless = scripted([answer("done")]);
    let source = Server::new([vec![Tool::new("")]]);
    let outcome = ToolLoop::new(nameless.clone()).source(source).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished), "{outcome:?}");
    let made_up = offered(&nameless).remove(0).remove(0);
    assert!(!made_up.is_empty() && made_up.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{made_up}");

    // The same name in the next run, so that a history stays true.
    let script = scripted([Reply::new().call("a", &names[0], "{}").end(Reason::ToolCalls)]);
    let outcome = ToolLoop::new(script).source(server.clone()).max_turns(1).run(request()).finish().await;
    assert_eq!(*server.calls.lock().unwrap(), ["a srv.get file {}"]);
    assert_eq!(
        results(outcome.conversation.messages().last().unwrap()),
        pairs([("a", "srv.get file answered")])
    );
}

#[tokio::test]
async fn a_source_that_cannot_be_offered_fails_the_run_before_the_model_is_asked() {
    async fn failure(server: Server) -> (ErrorKind, String, usize) {
        let script = scripted([answer("done")]);
        let own = Tool::new("f").handler(|_: Value| async { Ok(()) });
        let outcome = ToolLoop::new(script.clone()).tool(own).source(server).run(request()).finish().await;
        let error = outcome.error().unwrap();
        (error.kind(), error.message().to_owned(), script.requests().len())
    }
    let (kind, message, asked) = failure(Server::new([])).await;
    assert_eq!((kind, asked), (ErrorKind::Tool, 0));
    assert_eq!(message, "the tools of a source cannot be listed: the server is gone");
    let (kind, message, asked) = failure(Server::new([vec![Tool::new("f")]])).await;
    assert_eq!((kind, asked), (ErrorKind::Config, 0));
    assert_eq!(message, "two tools are called `f`: the model could not tell them apart");
}

#[tokio::test]
async fn a_resumed_run_asks_its_sources_before_it_runs_what_is_left() {
    let server = Server::new(vec![vec![Tool::new("read").needs_approval()]; 2]);
    let script = scripted([Reply::new().call("a", "read", "{}").end(Reason::ToolCalls)]);
    let mut run = ToolLoop::new(script).source(server.clone()).run(request());
    assert_eq!(steps(&mut run).await.last().unwrap(), "Waiting");
    let mut checkpoint = run.checkpoint();
    checkpoint.approve(0, turnstream_core::CallIndex(0)).unwrap();
    // Its tools are the source's to say, not the checkpoint's.
    assert!(!serde_json::to_string(&checkpoint).unwrap().contains(r#""tools""#));
    let script = scripted([]);
    let outcome = ToolLoop::new(script).source(server.clone()).max_turns(1).resume(checkpoint).finish().await;
    assert_eq!(results(outcome.conversation.messages().last().unwrap()), pairs([("a", "read answered")]));
}

#[tokio::test]
async fn a_condition_is_asked_once_between_two_turns_though_the_source_takes_its_time() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let script = scripted([
        Reply::new().call("a", "read", "{}").end(Reason::ToolCalls),
        Reply::new().call("b", "read", "{}").end(Reason::ToolCalls),
        answer("done"),
    ]);
    let tool_loop = ToolLoop::new(script).source(Server::new(vec![vec![Tool::new("read")]; 3])).stop_when(
        move |progress| {
            log.lock().unwrap().push(progress.turns);
            false
        },
    );
    assert!(matches!(tool_loop.run(request()).finish().await.status, RunStatus::Finished));
    assert_eq!(*asked.lock().unwrap(), [1, 2]);
}

fn echo() -> Tool {
    Tool::new("f").handler(|args: Value| async move { Ok(args) })
}

async fn told(
    tool_loop: impl FnOnce(ToolLoop) -> ToolLoop,
    calls: &[(&str, &str)],
) -> Vec<(String, String, bool)> {
    let reply = calls.iter().fold(Reply::new(), |reply, (id, arguments)| reply.call(id, "f", arguments));
    let script = scripted([reply.end(Reason::ToolCalls), answer("done")]);
    let outcome = tool_loop(ToolLoop::new(script.clone())).run(request()).finish().await;
    assert!(matches!(outcome.status, RunStatus::Finished), "{outcome:?}");
    results(&last_message(&script, 1))
}

#[tokio::test]
async fn a_wrapper_sees_each_call_and_its_answer_and_outer_ones_see_what_inner_ones_made() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let logs = |name: &'static str| {
        let log = log.clone();
        move |call: ToolCall, next: Next| {
            let log = log.clone();
            async move {
                log.lock().unwrap().push(format!(
                    "{name}: {} {} {}",
                    call.context.id(),
                    call.name,
                    call.arguments
                ));
                let answer = next.run(call).await;
                log.lock().unwrap().push(format!("{name}: {:?}", answer.as_ref().map(Answer::is_error).ok()));
                answer
            }
        }
    };
    let redacts = |call: ToolCall, next: Next| async move {
        Ok(next.run(call).await?.map_text(|text| text.replace("hunter2", "***")))
    };
    let tool = echo().wrap(logs("inner")).wrap(redacts);
    let told =
        told(|tool_loop| tool_loop.tool(tool).wrap(logs("outer")), &[("a", r#"{"key":"hunter2"}"#)]).await;
    assert_eq!(told, pairs([("a", r#"{"key":"***"}"#)]));
    let want = [
        r#"outer: a f {"key":"hunter2"}"#,
        r#"inner: a f {"key":"hunter2"}"#,
        "inner: Some(false)",
        "outer: Some(false)",
    ];
    assert_eq!(*log.lock().unwrap(), want);
}

#[tokio::test]
async fn a_wrapper_can_answer_in_the_handlers_place() {
    let (ran, cache) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(HashMap::new())));
    let counter = ran.clone();
    let tool = Tool::new("f").sequential().handler(move |args: Value| {
        *counter.lock().unwrap() += 1;
        async move { Ok(args["x"].clone()) }
    });
    let cached = move |call: ToolCall, next: Next| {
        let cache = cache.clone();
        async move {
            let key = call.arguments.to_string();
            let known: Option<Answer> = cache.lock().unwrap().get(&key).cloned();
            if let Some(answer) = known {
                return Ok(answer);
            }
            let answer = next.run(call).await?;
            cache.lock().unwrap().insert(key, answer.clone());
            Ok(answer)
        }
    };
    let calls = [("a", r#"{"x":1}"#), ("b", r#"{"x":2}"#), ("c", r#"{"x":1}"#)];
    let told = told(|tool_loop| tool_loop.tool(tool.wrap(cached)), &calls).await;
    assert_eq!(told, pairs([("a", "1"), ("b", "2"), ("c", "1")]));
    assert_eq!(*ran.lock().unwrap(), 2);
}

#[derive(serde::Deserialize)]
struct Order {
    order: u32,
}

#[tokio::test]
async fn arguments_that_a_wrapper_changed_are_read_anew_and_misfits_reach_no_wrapper() {
    let log = Arc::new(Mutex::new(0));
    let counter = log.clone();
    let tool = Tool::new("f").handler(|Given(args): Given<Order>| async move { Ok(args.order) }).wrap(
        move |mut call, next| {
            *counter.lock().unwrap() += 1;
            if call.arguments.as_str().contains('1') {
                call.arguments = r#"{"order": 7}"#.into();
            } else if call.arguments.as_str().contains('2') {
                call.arguments = r#"{"order": "x"}"#.into();
            }
            next.run(call)
        },
    );
    let calls = [("a", r#"{"order":1}"#), ("b", r#"{"order":2}"#), ("c", r#"{"order":3}"#), ("d", "{}")];
    let told = told(|tool_loop| tool_loop.tool(tool), &calls).await;
    let misfit = "The arguments do not fit the tool: ";
    let changed = format!("{misfit}`order`: invalid type: string \"x\", expected u32 at line 1 column 13");
    let missing = format!("{misfit}missing field `order` at line 1 column 2");
    let mut want = pairs([("a", "7"), ("b", &changed), ("c", "3"), ("d", &missing)]);
    (want[1].2, want[3].2) = (true, true);
    assert_eq!(told, want);
    assert_eq!(*log.lock().unwrap(), 3);
}

#[tokio::test]
async fn a_wrapper_that_panics_is_an_error_result_and_stands_around_the_tools_of_sources_too() {
    let server = Server::new(vec![vec![Tool::new("f")]; 2]);
    let told = told(
        |tool_loop| {
            tool_loop.source(server.clone()).wrap(|call, next| async move {
                assert!(call.arguments.as_str().contains("calm"), "not calm");
                next.run(call).await
            })
        },
        &[("a", "{}"), ("b", r#"{"calm":1}"#)],
    )
    .await;
    let mut want = pairs([("a", "The tool panicked."), ("b", "f answered")]);
    want[0].2 = true;
    assert_eq!(told, want);
}
