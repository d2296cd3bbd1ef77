//! Silence, and a stream that is dropped.

use std::{
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};

use turnstream::{
    Client, Event, Request, TurnStream, anthropic::Anthropic, openai_chat::OpenAiChat,
    wire::reexports::futures_core::Stream,
};
use turnstream_testing::{Gate, Recording, ReplayServer, anthropic, openai_chat};

async fn text(turn: &mut TurnStream) -> String {
    loop {
        match turn.next().await.unwrap().unwrap() {
            Event::TextDelta(delta) => return delta.text.to_string(),
            Event::TurnStarted(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn case_134_idle_timeout_too_eager() {
    let gate = Gate::new();
    let reply = openai_chat::Reply::new().text(["a"]).gate(&gate).text(["a"]).cut();
    let server = ReplayServer::start([Recording::from(reply).stall()]).await.unwrap();
    let wire = OpenAiChat::new("m").base_url(server.base_url());
    let client = Client::new(wire).idle_timeout(Duration::from_millis(1000));
    let mut turn = client.stream(&Request::new().user("?"));
    assert_eq!(text(&mut turn).await, "a");
    let mut context = Context::from_waker(Waker::noop());
    tokio::time::pause();
    assert!(Pin::new(&mut turn).poll_next(&mut context).is_pending());
    // Nearly all of it may pass: no smaller constant ends the turn.
    for wait in [300, 690] {
        tokio::time::advance(Duration::from_millis(wait)).await;
        assert!(Pin::new(&mut turn).poll_next(&mut context).is_pending());
    }
    tokio::time::resume();
    gate.open();
    assert_eq!(text(&mut turn).await, "a");
}

#[test]
fn case_140_drop_closes_the_connection() {
    let server_side = tokio::runtime::Runtime::new().unwrap();
    let reply = Recording::from(openai_chat::Reply::new().text(["a"]).cut()).stall();
    let server = server_side.block_on(ReplayServer::start([reply])).unwrap();
    let client_side = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    client_side.block_on(async {
        let client = Client::new(OpenAiChat::new("m").base_url(server.base_url()));
        let mut turn = client.stream(&Request::new().user("?"));
        assert_eq!(text(&mut turn).await, "a");
        assert_eq!((server.connections(), server.clients_gone()), (1, 0));
        drop(turn);
        let gone = async {
            server.client_gone().await;
            // No task of ours was ever there; the HTTP library's own sees the closed connection now.
            while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("nothing is left");
    });
}

/// A turn that is read inside a task of the caller's, as in a server's handler, and whose task is aborted.
#[tokio::test]
async fn case_140_drop_closes_the_connection_when_the_callers_task_is_aborted() {
    let reply = Recording::from(anthropic::Reply::new().text(["a"]).cut()).stall();
    let server = ReplayServer::start([reply]).await.unwrap();
    let client = Client::new(Anthropic::new("m").base_url(server.base_url()));
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        let mut turn = client.stream(&Request::new().user("?"));
        while let Some(Ok(event)) = turn.next().await {
            let _ = said.send(event);
        }
    });
    while !matches!(heard.recv().await.unwrap(), Event::TextDelta(_)) {}
    task.abort();
    tokio::time::timeout(Duration::from_secs(10), server.client_gone()).await.expect("the client goes");
}
