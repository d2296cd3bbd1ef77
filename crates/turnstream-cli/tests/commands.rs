//! The command as people run it: its output, its exit codes, and what Ctrl-C does.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::Command,
};
use turnstream_testing::{Gate, RecordedTurn, Recording, ReplayServer, anthropic, openai_chat};

const REQUEST: &str =
    r#"{"messages":[{"role":"user","parts":[{"type":"text","text":"Where is order A-4471?"}]}]}"#;

/// The command, without keys but those that a test gives it.
fn turnstream(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnstream"));
    command
        .args(words)
        .kill_on_drop(true)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(key);
    }
    command
}

/// What a command said and how it ended.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    aside: String,
}

async fn run(mut command: Command, input: &str) -> Said {
    let mut child = command.spawn().unwrap();
    // A command that has ended already does not read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes()).await;
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap(), out: text(output.stdout), aside: text(output.stderr) }
}

async fn say(words: &[&str], input: &str) -> Said {
    run(turnstream(words), input).await
}

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    root.join(name).to_str().unwrap().to_owned()
}

/// An empty folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn decode_prints_the_events_and_says_by_its_exit_code_whether_the_turn_finished() {
    let want = |name: &str| fs::read_to_string(fixture(name)).unwrap();
    let whole = fixture("openai-chat/order-1-call.sse");
    for words in [&["--chunk-size", "3"][..], &["--cuts", "5,100"], &[]] {
        let said = say(&[&["decode", "--wire", "openai-chat", &whole], words].concat(), "").await;
        assert_eq!((said.code, said.out), (0, want("openai-chat/order-1-call.events.jsonl")));
    }
    let cut = fs::read_to_string(fixture("openai-chat/cut-in-arguments.sse")).unwrap();
    let said = say(&["decode", "--wire", "openai-chat", "-"], &cut).await;
    assert_eq!((said.code, said.out), (3, want("openai-chat/cut-in-arguments.events.jsonl")));
    // A recording knows its wire.
    let said = say(&["decode", &fixture("recorded/anthropic-messages/one-call.json")], "").await;
    assert_eq!((said.code, said.out), (0, want("recorded/anthropic-messages/one-call.events.jsonl")));
}

#[tokio::test]
async fn wrong_words_are_2_and_what_cannot_be_done_is_1() {
    for words in [&["decode"][..], &["chat", "--wire", "telegraph"], &["replay", "--pace", "slow", "x"], &[]]
    {
        assert_eq!(say(words, "").await.code, 2, "{words:?}");
    }
    for (words, problem) in [
        (&["decode", "--wire", "openai-chat", "no/such/file"][..], "error: cannot read no/such/file"),
        (&["decode", "no/such/file"], "without --wire, the file has to be a recording"),
        (&["encode", "--wire", "openai-chat", "-"], "error: the file is not a request"),
        (&["encode", "-"], "--wire says which wire to speak"),
        (&["chat", "--wire", "openai-chat"], "--model says which model to ask"),
        (&["replay", "no/such/recording"], "error: no/such/recording.json: "),
    ] {
        let said = say(words, "no request").await;
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{words:?}");
        // No colours, for standard error is no terminal.
        assert!(said.aside.contains(problem) && !said.aside.contains('\x1b'), "{words:?}: {}", said.aside);
    }
}

#[tokio::test]
async fn encode_shows_no_key_and_sends_a_providers_key_to_nobody_else() {
    let encode = |words: &[&str]| {
        let mut command = turnstream(&[&["encode", "--wire", "openai-chat", "-"], words].concat());
        command.env("OPENAI_API_KEY", "sk-secret-1").env("OTHER_KEY", "sk-secret-2");
        run(command, REQUEST)
    };
    let said = encode(&[]).await;
    assert_eq!(said.code, 0);
    assert!(said.out.starts_with("POST https://api.openai.com/v1/chat/completions\n"), "{}", said.out);
    assert!(said.out.contains("authorization: ***\n") && !said.out.contains("secret"), "{}", said.out);
    assert!(!encode(&["--base-url", "http://127.0.0.1:1/v1"]).await.out.contains("authorization"));

    let said = encode(&["--base-url", "http://127.0.0.1:1/v1", "--key-from", "OTHER_KEY", "--json"]).await;
    let request: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&request["method"], &request["url"]),
        (&json!("POST"), &json!("http://127.0.0.1:1/v1/chat/completions"))
    );
    assert!(request["headers"].as_array().unwrap().contains(&json!(["authorization", "***"])));
    assert_eq!(request["body"]["messages"][0]["content"], "Where is order A-4471?");
    assert!(!said.out.contains("secret"));
}

#[tokio::test]
async fn record_keeps_a_turn_and_does_not_overwrite_one_unasked() {
    let reply = || anthropic::Reply::new().text(["It ships ", "today."]).header("set-cookie", "id=4471");
    let refused = anthropic::Reply::new().refused(529, "overloaded_error", "sk-secret-1 is busy.");
    let server = ReplayServer::start([reply(), reply(), refused]).await.unwrap();
    let out = folder("record").join("order");
    let record = |words: &[&str]| {
        let base_url = format!("{}/v1", server.base_url());
        let to = ["record", "--wire", "anthropic-messages", "--base-url", &base_url, "--model", "m", "-"];
        let key = ["--key-from", "KEY", "--out", out.to_str().unwrap()];
        let mut command = turnstream(&[&to[..], &key, words].concat());
        command.env("KEY", "sk-secret-1");
        run(command, REQUEST)
    };

    let said = record(&[]).await;
    assert_eq!((said.code, said.out.as_str()), (0, "It ships today.\n"), "{}", said.aside);
    let recorded = RecordedTurn::load(&out).unwrap();
    assert_eq!(recorded.body(), reply().body());
    assert_eq!(server.requests()[0].headers["x-api-key"], "sk-secret-1");

    let said = record(&[]).await;
    assert_eq!(said.code, 1);
    assert!(said.aside.contains("--force overwrites it"), "{}", said.aside);
    let said = record(&["--force", "--json"]).await;
    assert_eq!((said.code, said.out.lines().count()), (0, 5), "{}", said.out);

    let said = record(&["--force"]).await;
    assert_eq!(said.code, 3);
    assert_eq!(RecordedTurn::load(&out).unwrap().status, 529);
    for file in ["order.json", "order.body"] {
        let text = fs::read_to_string(out.with_file_name(file)).unwrap();
        assert!(!text.contains("secret") && !text.contains("id=4471"), "{text}");
    }
    // What was recorded of a refusal is decoded as one.
    let said = say(&["decode", out.to_str().unwrap()], "").await;
    assert_eq!(said.code, 3);
    assert!(said.out.starts_with(r#"{"type":"error","kind":"overloaded""#), "{}", said.out);
}

#[cfg(unix)]
#[tokio::test]
async fn replay_serves_recordings_in_turn_until_it_is_interrupted() {
    let folder_of_recordings = fixture("recorded/openai-chat");
    let mut server =
        turnstream(&["replay", "--pace", "fast", "--json", &folder_of_recordings]).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut line =
        async || -> Value { serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap() };
    let address = line().await["listening"].as_str().unwrap().to_owned();

    let base_url = format!("{address}/any/prefix");
    let record = async |out: &Path| {
        let words =
            ["record", "--wire", "openai-chat", "--base-url", &base_url, "--model", "m", "-", "--out"];
        say(&[&words[..], &[out.to_str().unwrap()]].concat(), REQUEST).await.code
    };
    let folder = folder("replay");
    let recordings = RecordedTurn::load_all(&folder_of_recordings).unwrap();
    for (number, recording) in (1..).zip(recordings.iter().chain(&recordings[..1])) {
        let out = folder.join(number.to_string());
        assert_eq!(record(&out).await, 0);
        assert_eq!(RecordedTurn::load(&out).unwrap().body(), recording.body());
        let request = line().await;
        assert!(request["recording"].as_str().unwrap().starts_with(&folder_of_recordings), "{request}");
        assert_eq!(
            (&request["request"], &request["path"]),
            (&json!(number), &json!("/any/prefix/chat/completions"))
        );
    }
    // No recording of this wire is in that folder.
    let words = ["chat", "--wire", "anthropic-messages", "--base-url", &base_url, "--model", "m", "Hello"];
    let said = say(&words, "").await;
    assert_eq!(said.code, 3);
    assert_eq!(line().await["recording"], Value::Null);

    interrupt(&server).await;
    assert_eq!(server.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn replay_serves_once_where_that_is_asked_and_only_at_a_port_that_is_free() {
    let recording = fixture("recorded/openai-chat/text");
    let mut server = turnstream(&["replay", "--pace", "fast", "--once", &recording]).spawn().unwrap();
    let first = BufReader::new(server.stdout.take().unwrap()).lines().next_line().await.unwrap().unwrap();
    let address = first.strip_prefix("LISTENING ").unwrap();
    let chat = ["chat", "--wire", "openai-chat", "--model", "m", "--base-url", address, "Hello"];
    assert_eq!(say(&chat, "").await.code, 0);
    let said = say(&chat, "").await;
    assert_eq!(said.code, 3);
    assert!(said.aside.contains("all recordings of this path have been served"), "{}", said.aside);

    let port = address.rsplit(':').next().unwrap();
    assert_eq!(say(&["replay", "--port", port, &recording], "").await.code, 1);
}

#[tokio::test]
async fn chat_answers_from_recordings_and_runs_the_built_in_tools() {
    let recording = fixture("recorded/openai-responses/text");
    let everything = fixture("recorded");
    let from =
        ["chat", "--wire", "openai-chat", "--replay", &everything, "--pace", "fast", "--json", "Hello"];
    let said = say(&from, "").await;
    assert_eq!(said.code, 3, "the first one of this wire is cut in a call");
    let said = say(&["chat", "--replay", &recording, "--pace", "fast", "Hello"], "").await;
    let answer = "Hello, I'm here to help with your creative writing endeavors.\n";
    assert_eq!((said.code, said.out.as_str(), said.aside.as_str()), (0, answer, ""));

    let reply = openai_chat::Reply::new;
    let server = ReplayServer::start([
        reply().text(["Let me see."]).call(
            "c1",
            "calculate",
            json!({ "left": 6, "operator": "*", "right": 7 }),
        ),
        reply().text(["It is 42."]),
        reply().text(["Goodbye."]),
    ])
    .await
    .unwrap();
    let words =
        ["chat", "--wire", "openai-chat", "--model", "m", "--tools", "--base-url", &server.base_url()];
    let said = say(&words, "What is 6 times 7?\n\nThank you.\n").await;
    assert_eq!((said.code, said.out.as_str()), (0, "Let me see.\nIt is 42.\nGoodbye.\n"));
    let want = "[calculate {\"left\":6,\"operator\":\"*\",\"right\":7}]\n  = {\"value\":42.0}\n";
    assert_eq!(said.aside, want);
    let requests = server.sent_requests();
    requests.iter().for_each(turnstream_testing::SentRequest::assert_sound);
    assert_eq!(requests[0].tools, ["current_time", "calculate", "count"]);
    assert_eq!(requests[1].result("c1").unwrap().content, "{\"value\":42.0}");
    assert_eq!(requests[2].last_user_text(), Some("Thank you."));
}

#[tokio::test]
async fn chat_ends_with_the_exit_code_of_its_last_answer() {
    let refused = || Recording::from(openai_chat::Reply::new().refused(400, "bad_request", "No."));
    let answer = || Recording::from(openai_chat::Reply::new().text(["Yes."]));
    for (replies, code) in [([refused(), answer()], 0), ([answer(), refused()], 3)] {
        let server = ReplayServer::start(replies).await.unwrap();
        let words = ["chat", "--wire", "openai-chat", "--model", "m", "--base-url", &server.base_url()];
        let said = say(&words, "One?\nTwo?\n").await;
        assert_eq!((said.code, said.out.as_str()), (code, "Yes.\n"));
        assert!(said.aside.starts_with("error: "), "{}", said.aside);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_stops_the_answer_and_not_the_chat() {
    let gate = Gate::new();
    let slow = anthropic::Reply::new().text(["It is "]).gate(&gate).text(["here."]);
    let next = anthropic::Reply::new().text(["Still here."]);
    let server = ReplayServer::start([slow, next]).await.unwrap();
    let words = ["chat", "--wire", "anthropic-messages", "--model", "m", "--base-url", &server.base_url()];
    let mut chat = turnstream(&words).spawn().unwrap();
    let (mut input, mut out) = (chat.stdin.take().unwrap(), chat.stdout.take().unwrap());

    input.write_all(b"Where is it?\n").await.unwrap();
    let mut shown = [0; 6];
    out.read_exact(&mut shown).await.unwrap();
    assert_eq!(&shown, b"It is ");
    interrupt(&chat).await;
    server.client_gone().await;

    input.write_all(b"Are you there?\n").await.unwrap();
    drop(input);
    let mut rest = String::new();
    out.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "\nStill here.\n");
    let mut aside = String::new();
    chat.stderr.take().unwrap().read_to_string(&mut aside).await.unwrap();
    assert_eq!(aside, "[stopped]\n");
    assert_eq!(chat.wait().await.unwrap().code(), Some(0));
    let request = server.sent_requests().pop().unwrap();
    request.assert_sound();
    assert_eq!(request.last_user_text(), Some("Are you there?"));
}

#[tokio::test]
async fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = say(&["completions", shell], "").await;
        assert_eq!(said.code, 0);
        assert!(said.out.contains("turnstream") && said.out.contains("replay"), "{shell}");
    }
}

/// Presses Ctrl-C.
#[cfg(unix)]
async fn interrupt(child: &tokio::process::Child) {
    let id = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
}
