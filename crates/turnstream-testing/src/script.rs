//! [`Script`]: a whole conversation, answered request by request, and checked.

use std::{
    collections::HashSet,
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    format::HttpWire,
    reply::{OverHttp, Reply},
    sent::{SentPart, SentRequest, SentResult},
};

/// A conversation as a provider has its side of it: the replies, one a request, in order.
///
/// Every request is checked: it must be sound by itself ([`SentRequest::problems`]), and carry the results
/// of the calls that the reply before it made, in call order. A call whose id stands in the conversation already goes
/// back under a fresh one, in call and result alike: `x`, `x_2`, `x_3`. What does not fit is kept, and the
/// [`ScriptGuard`] fails the test, in the test's own thread: a panic in a wiremock responder would only
/// close the connection.
///
/// With the feature `wiremock` one line mounts it on a mock server: `Script::mount`.
///
/// ```
/// use serde_json::json;
/// use turnstream_testing::{Recording, ReplayServer, Script, openai_chat::Reply};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// let script = Script::openai_chat()
///     .turn(Reply::new().call("call_1", "lookup_order", json!({ "order_id": "A-4471" })))
///     .turn(Reply::new().text(["It ships today."]))
///     .start();
/// let answers = script.clone();
/// let server = ReplayServer::start_with(move |request| answers.answer(&request.path, &request.body).into()).await?;
/// // Point the application at `server.base_url()`, run it, and then:
/// # let ask = |messages: serde_json::Value| script.answer("", json!({ "messages": messages }).to_string().as_bytes());
/// # ask(json!([{ "role": "user", "content": "Where is A-4471?" }]));
/// # let call = json!({ "id": "call_1", "function": { "name": "lookup_order", "arguments": "{}" } });
/// # ask(json!([{ "role": "user", "content": "Where is A-4471?" },
/// #     { "role": "assistant", "tool_calls": [call] },
/// #     { "role": "tool", "tool_call_id": "call_1", "content": "sent" }]));
/// script.verify();
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a script answers nothing before it is started or mounted"]
pub struct Script<W> {
    turns: Vec<Turn<W>>,
}

/// A turn of a script.
#[derive(Debug, Clone)]
struct Turn<W> {
    reply: Reply<OverHttp<W>>,
    /// What the request after it has to answer, where that was said: ids and contents.
    results: Option<Vec<(String, String)>>,
}

/// A script that is running. It fails the test when it is dropped, or verified, and something did not go
/// by the script. Clones are the same script; the last one to be dropped verifies.
#[derive(Debug, Clone)]
pub struct ScriptGuard<W> {
    shared: Arc<Shared<W>>,
}

#[derive(Debug)]
struct Shared<W> {
    script: Script<W>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<SentRequest>,
    mismatches: Vec<String>,
    /// The calls that the next request has to answer, as ids and names.
    open_calls: Vec<(String, String)>,
    /// What it has to answer, where that was said.
    wanted_results: Option<Vec<(String, String)>>,
    is_verified: bool,
}

impl<W: HttpWire> Script<W> {
    pub(crate) fn new() -> Self {
        Self { turns: Vec::new() }
    }

    /// Answers the next request with this reply.
    pub fn turn(mut self, reply: Reply<OverHttp<W>>) -> Self {
        self.turns.push(Turn { reply, results: None });
        self
    }

    /// Expects the request after the turn before to carry exactly these results, as ids of calls and contents,
    /// in this order. Without a word of this any content is right. A call whose id occurred before is named by it, or
    /// by the fresh one under which it goes back.
    pub fn results<'a>(mut self, results: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let results = results.into_iter().map(|(call, content)| (call.to_owned(), content.to_owned()));
        if let Some(turn) = self.turns.last_mut() {
            turn.results = Some(results.collect());
        }
        self
    }

    /// Starts the script.
    pub fn start(self) -> ScriptGuard<W> {
        ScriptGuard { shared: Arc::new(Shared { script: self, state: Mutex::default() }) }
    }
}

impl<W: HttpWire> ScriptGuard<W> {
    /// Takes the next request, its path and body, and answers it. A request for which the script has no turn is
    /// refused with status 400, and kept as a mismatch.
    pub fn answer(&self, path: &str, body: &[u8]) -> Reply<OverHttp<W>> {
        let turns = &self.shared.script.turns;
        let mut state = self.shared.lock();
        let number = state.requests.len() + 1;
        let request = match serde_json::from_slice(body) {
            Ok(body) => W::read(path, &body),
            Err(error) => {
                state.mismatches.push(format!("request {number} is not JSON: {error}"));
                SentRequest::default()
            }
        };
        let missing = missing_results(&request, &state.open_calls);
        let wanted = state.wanted_results.as_deref().unwrap_or_default();
        // Where results are missing, what the others say is of no interest.
        let missing = missing.or_else(|| other_results(&request, &state.open_calls, wanted));
        let problems = request.problems().into_iter().chain(missing);
        let problems: Vec<String> = problems.map(|problem| format!("request {number}: {problem}")).collect();
        state.mismatches.extend(problems);
        state.requests.push(request);
        match turns.get(number - 1) {
            Some(turn) => {
                // A refused request is sent again, with the same results.
                if turn.reply.status() == 200 {
                    state.open_calls = turn.reply.calls_to_answer();
                    state.wanted_results.clone_from(&turn.results);
                }
                turn.reply.clone()
            }
            None => {
                let message = format!("the script has {} turns, and this is request {number}", turns.len());
                state.mismatches.push(message.clone());
                Reply::<OverHttp<W>>::new().refused(400, "invalid_request_error", &message)
            }
        }
    }
}

impl<W> ScriptGuard<W> {
    /// The requests so far.
    pub fn requests(&self) -> Vec<SentRequest> {
        self.shared.lock().requests.clone()
    }

    /// What has not gone by the script so far; turns that nobody asked for are not among it.
    pub fn mismatches(&self) -> Vec<String> {
        self.shared.lock().mismatches.clone()
    }

    /// Fails the test if something did not go by the script, or a turn was not asked for.
    ///
    /// # Panics
    ///
    /// Then. The message lists everything.
    pub fn verify(self) {
        self.shared.verify();
    }
}

impl<W> Shared<W> {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verify(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_verified, true) {
            return;
        }
        let (asked, turns) = (state.requests.len(), self.script.turns.len());
        let mut mismatches = std::mem::take(&mut state.mismatches);
        drop(state);
        if asked < turns {
            mismatches.push(format!("the script has {turns} turns, but there were {asked} requests"));
        }
        assert!(
            mismatches.is_empty(),
            "the conversation did not go by the script:\n- {}",
            mismatches.join("\n- ")
        );
    }
}

impl<W> Drop for Shared<W> {
    fn drop(&mut self) {
        // A second panic would abort the process and hide the first.
        if !std::thread::panicking() {
            self.verify();
        }
    }
}

/// What is missing of the results that a request should carry.
fn missing_results(request: &SentRequest, calls: &[(String, String)]) -> Option<String> {
    let expected = as_they_stand(request, calls);
    let got = results_behind(request, calls.len());
    let answers = |(id, name): &(String, &str), result: &SentResult| match result.call_id.as_str() {
        "" => *name == result.name,
        call_id => id == call_id,
    };
    if got.len() == expected.len() && expected.iter().zip(&got).all(|(call, result)| answers(call, result)) {
        return None;
    }
    let expected: Vec<String> = expected.iter().map(|(id, name)| format!("{id} ({name})")).collect();
    let got: Vec<&str> = got.iter().map(|result| result.key()).collect();
    Some(format!(
        "it should carry the results of these calls, in this order\n    expected: {}\n    got:      {}",
        expected.join(", "),
        if got.is_empty() { "none".to_owned() } else { got.join(", ") },
    ))
}

/// What is other than it should be in the results that a request carries.
fn other_results(
    request: &SentRequest,
    calls: &[(String, String)],
    wanted: &[(String, String)],
) -> Option<String> {
    if wanted.is_empty() {
        return None;
    }
    let got = results_behind(request, calls.len().max(wanted.len()));
    // The results answer the calls in their order, so each may be named by its call's first id as well.
    let is_same = |(index, (call, content)): (usize, &(String, String))| {
        let given = calls.get(index).is_some_and(|(id, _)| id == call);
        got.get(index).is_some_and(|result| (given || result.key() == call) && result.content == *content)
    };
    if got.len() == wanted.len() && wanted.iter().enumerate().all(is_same) {
        return None;
    }
    let line = |call: &str, content: &str| format!("\n      {call}: {content}");
    let expected: String = wanted.iter().map(|(call, content)| line(call, content)).collect();
    let got: String = got.iter().map(|result| line(result.key(), &result.content)).collect();
    Some(format!("its results should say\n    expected:{expected}\n    got:{got}"))
}

/// The calls of the last reply under the ids that they have in the conversation, and their names: one whose id was
/// taken has a fresh one.
fn as_they_stand<'a>(request: &SentRequest, calls: &'a [(String, String)]) -> Vec<(String, &'a str)> {
    let before = request.calls().count().saturating_sub(calls.len());
    let mut taken: HashSet<String> = request.calls().take(before).map(|call| call.id.clone()).collect();
    let mut fresh = |id: &String| {
        let numbered = (2..).map(|number| format!("{id}_{number}"));
        let id = iter::once(id.clone()).chain(numbered).find(|id| !taken.contains(id));
        let id = id.expect("fewer than 2^64 ids are taken");
        taken.insert(id.clone());
        id
    };
    calls.iter().map(|(id, name)| (fresh(id), name.as_str())).collect()
}

/// The results behind the first of the last so many calls.
fn results_behind(request: &SentRequest, calls: usize) -> Vec<&SentResult> {
    let mut before = request.calls().count().saturating_sub(calls);
    let mut is_behind = false;
    let mut results = Vec::new();
    for part in &request.parts {
        match part {
            SentPart::Call(_) if before == 0 => is_behind = true,
            SentPart::Call(_) => before -= 1,
            SentPart::Result(result) if is_behind => results.push(result),
            SentPart::Result(_) | SentPart::Text(_) => {}
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::openai_chat::{self, Reply as ChatReply};

    fn two_calls() -> ScriptGuard<openai_chat::Completions> {
        let calls = [("c1", "lookup_order", json!({ "id": 1 })), ("c2", "lookup_order", json!({ "id": 2 }))];
        Script::openai_chat()
            .turn(ChatReply::new().interleaved_calls(calls))
            .turn(ChatReply::new().refused(429, "rate_limit_exceeded", "Wait."))
            .turn(ChatReply::new().text(["Both ship today."]))
            .start()
    }

    fn ask(script: &ScriptGuard<openai_chat::Completions>, results: &[&str]) -> u16 {
        let call = |id: &&str| json!({ "id": id, "function": { "name": "lookup_order", "arguments": "{}" } });
        let mut messages = vec![json!({ "role": "user", "content": "Where are they?" })];
        if !results.is_empty() {
            let calls: Vec<Value> = ["c1", "c2"].iter().map(call).collect();
            messages.push(json!({ "role": "assistant", "tool_calls": calls }));
        }
        messages
            .extend(results.iter().map(|id| json!({ "role": "tool", "tool_call_id": id, "content": "x" })));
        script.answer("", json!({ "messages": messages }).to_string().as_bytes()).status()
    }

    #[test]
    fn a_conversation_by_the_script_passes_with_a_retry_in_it() {
        let script = two_calls();
        assert_eq!(ask(&script, &[]), 200);
        assert_eq!(ask(&script, &["c1", "c2"]), 429);
        assert_eq!(ask(&script, &["c1", "c2"]), 200);
        assert_eq!(script.requests().len(), 3);
        script.verify();
    }

    #[test]
    fn each_mismatch_is_kept_and_said_in_words() {
        let script = two_calls();
        ask(&script, &[]);
        ask(&script, &["c2", "c1"]);
        ask(&script, &["c1"]);
        assert_eq!(ask(&script, &["c1", "c2"]), 400);
        let mismatches = script.mismatches();
        assert_eq!(
            mismatches,
            [
                "request 2: it should carry the results of these calls, in this order\n    \
                 expected: c1 (lookup_order), c2 (lookup_order)\n    got:      c2, c1",
                "request 3: the request ends, but [\"c2\"] have no result",
                "request 3: it should carry the results of these calls, in this order\n    \
                 expected: c1 (lookup_order), c2 (lookup_order)\n    got:      c1",
                "the script has 3 turns, and this is request 4",
            ]
        );
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| script.verify())).unwrap_err();
        let message = panic.downcast::<String>().unwrap();
        assert!(
            message.starts_with("the conversation did not go by the script:\n- request 2: "),
            "{message}"
        );
    }

    #[test]
    #[should_panic(expected = "the script has 3 turns, but there were 1 requests")]
    fn a_dropped_script_fails_the_test_that_did_not_use_it_up() {
        let script = two_calls();
        ask(&script, &[]);
    }

    #[test]
    fn results_that_say_something_else_are_shown_beside_what_they_should_say() {
        let call = || ChatReply::new().call("c1", "lookup_order", json!({ "id": 1 }));
        let script = |content: &'static str| {
            let script = Script::openai_chat().turn(call().call("c2", "lookup_order", json!({ "id": 2 })));
            let script = script.results([("c1", "x"), ("c2", content)]).turn(ChatReply::new()).start();
            ask(&script, &[]);
            ask(&script, &["c1", "c2"]);
            let mismatches = script.mismatches();
            let verified = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| script.verify()));
            assert_eq!(verified.is_ok(), mismatches.is_empty());
            mismatches
        };
        assert_eq!(script("x"), Vec::<String>::new());
        let want = "request 2: its results should say\n    expected:\n      c1: x\n      c2: sent\n    \
                    got:\n      c1: x\n      c2: x";
        assert_eq!(script("sent"), [want]);
    }

    #[test]
    fn calls_whose_id_was_taken_are_expected_under_fresh_ones_and_old_results_are_left_out() {
        let call = || ChatReply::new().call("x", "f", json!({}));
        let script = Script::openai_chat()
            .turn(call().call("x", "f", json!({})))
            .results([("x", "a"), ("x_2", "b")])
            .turn(call())
            .results([("x", "c")])
            .turn(ChatReply::new().text(["Done."]))
            .start();
        let turn = |ids: &[&str], results: &[(&str, &str)]| {
            let call = |id: &&str| json!({ "id": id, "function": { "name": "f", "arguments": "{}" } });
            let calls: Vec<Value> = ids.iter().map(call).collect();
            let result = |(id, content): &(&str, &str)| json!({ "role": "tool", "tool_call_id": id, "content": content });
            let mut messages = vec![json!({ "role": "assistant", "tool_calls": calls })];
            messages.extend(results.iter().map(result));
            messages
        };
        let ask = |messages: &[Value]| {
            let body = json!({ "messages": messages }).to_string();
            assert_eq!(script.answer("", body.as_bytes()).status(), 200);
        };
        let mut messages = vec![json!({ "role": "user", "content": "go" })];
        ask(&messages);
        messages.extend(turn(&["x", "x_2"], &[("x", "a"), ("x_2", "b")]));
        ask(&messages);
        let by_the_rule = turn(&["x_3"], &[("x_3", "c")]);
        ask(&[messages.clone(), by_the_rule].concat());
        assert_eq!(script.mismatches(), Vec::<String>::new());

        let script = Script::openai_chat().turn(call()).turn(call()).turn(ChatReply::new()).start();
        let ask = |messages: &[Value]| {
            script.answer("", json!({ "messages": messages }).to_string().as_bytes());
        };
        let mut messages = vec![json!({ "role": "user", "content": "go" })];
        ask(&messages);
        messages.extend(turn(&["x"], &[("x", "a")]));
        ask(&messages);
        messages.extend(turn(&["y"], &[("y", "b")]));
        ask(&messages);
        assert_eq!(
            script.mismatches(),
            ["request 3: it should carry the results of these calls, in this order\n    \
              expected: x_2 (f)\n    got:      y"]
        );
        let verified = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| script.verify()));
        assert!(verified.is_err());
    }
}
