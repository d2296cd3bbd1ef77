//! Replies and scripts as responders of [wiremock](https://docs.rs/wiremock), and matchers for what was sent. The only
//! module that names wiremock's types; behind the feature `wiremock`, which is on by default.
//!
//! ```
//! use serde_json::json;
//! use turnstream_testing::{anthropic::Reply, wiremock::has_result_for};
//! use wiremock::{Mock, MockServer, matchers::method};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let server = MockServer::start().await;
//! Mock::given(method("POST"))
//!     .and(has_result_for("toolu_1"))
//!     .respond_with(Reply::new().text(["It ships today."]))
//!     .mount(&server)
//!     .await;
//! Mock::given(method("POST"))
//!     .respond_with(Reply::new().call("toolu_1", "lookup_order", json!({ "order_id": "A-4471" })))
//!     .mount(&server)
//!     .await;
//! # }
//! ```

use turnstream_core::ToolChoice;
use wiremock::{
    Match, Mock, MockServer, Request, Respond, ResponseTemplate,
    matchers::{method, path_regex},
};

use crate::{
    format::HttpWire,
    reply::{OverHttp, Reply},
    script::{Script, ScriptGuard},
    sent::SentRequest,
};

impl<W: HttpWire> From<&Reply<OverHttp<W>>> for ResponseTemplate {
    fn from(reply: &Reply<OverHttp<W>>) -> Self {
        let template = Self::new(reply.status()).set_body_raw(reply.body(), reply.content_type());
        reply.headers().fold(template, |template, (name, value)| template.insert_header(name, value))
    }
}

impl<W: HttpWire> From<Reply<OverHttp<W>>> for ResponseTemplate {
    fn from(reply: Reply<OverHttp<W>>) -> Self {
        Self::from(&reply)
    }
}

impl<W: HttpWire> Respond for Reply<OverHttp<W>> {
    fn respond(&self, _request: &Request) -> ResponseTemplate {
        self.into()
    }
}

impl<W: HttpWire> Respond for ScriptGuard<W> {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.answer(request.url.path(), &request.body).into()
    }
}

impl<W: HttpWire> Script<W> {
    /// Starts the script and mounts it on a server, for all posts to the wire's path, under any prefix.
    ///
    /// Keep the guard until the end of the test, and call [`verify`](ScriptGuard::verify): the server holds
    /// the script too, and where it is dropped last is a matter of luck.
    #[must_use = "the guard says what did not go by the script"]
    pub async fn mount(self, server: &MockServer) -> ScriptGuard<W> {
        let path = path_regex(format!("{}$", W::PATH_END));
        let guard = self.start();
        Mock::given(method("POST")).and(path).respond_with(guard.clone()).mount(server).await;
        guard
    }
}

/// The requests that a server has received so far, as far as they went to a known wire's path.
///
/// ```
/// # async fn check(server: &wiremock::MockServer) {
/// for request in turnstream_testing::wiremock::sent_requests(server).await {
///     request.assert_sound();
/// }
/// # }
/// ```
pub async fn sent_requests(server: &MockServer) -> Vec<SentRequest> {
    let received = server.received_requests().await.unwrap_or_default();
    received.iter().filter_map(read).collect()
}

/// Matches requests that carry a result for this call: its id, or where the wire sends none its tool's name.
pub fn has_result_for(call: impl Into<String>) -> impl Match {
    let call = call.into();
    sent(move |request| request.result(&call).is_some())
}

/// Matches requests whose result for this call says exactly this.
pub fn has_result(call: impl Into<String>, content: impl Into<String>) -> impl Match {
    let (call, content) = (call.into(), content.into());
    sent(move |request| request.result(&call).is_some_and(|result| result.content == content))
}

/// Matches requests whose result for this call is marked as an error. Not every wire has such a mark: see
/// [`SentResult::is_error`](crate::SentResult::is_error).
pub fn has_error_result_for(call: impl Into<String>) -> impl Match {
    let call = call.into();
    sent(move |request| request.result(&call).is_some_and(|result| result.is_error))
}

/// Matches requests that offer this tool.
pub fn offers_tool(name: impl Into<String>) -> impl Match {
    let name = name.into();
    sent(move |request| request.offers_tool(&name))
}

/// Matches requests with this tool choice.
pub fn chooses_tools(choice: ToolChoice) -> impl Match {
    sent(move |request| request.tool_choice.as_ref() == Some(&choice))
}

/// Matches requests for this model.
pub fn asks_model(model: impl Into<String>) -> impl Match {
    let model = model.into();
    sent(move |request| request.model.as_ref() == Some(&model))
}

/// Matches requests whose system text is this.
pub fn system_text(text: impl Into<String>) -> impl Match {
    let text = text.into();
    sent(move |request| request.system == text)
}

/// Matches requests in which the user's last text is this.
pub fn last_user_text(text: impl Into<String>) -> impl Match {
    let text = text.into();
    sent(move |request| request.last_user_text() == Some(text.as_str()))
}

/// Matches requests of which this is true. The wire is known by the end of the path; a request to none of
/// the known paths does not match.
pub fn sent(is_so: impl Fn(&SentRequest) -> bool + Send + Sync + 'static) -> impl Match {
    move |request: &Request| read(request).is_some_and(|request| is_so(&request))
}

fn read(request: &Request) -> Option<SentRequest> {
    SentRequest::read(request.url.path(), &request.body)
}
