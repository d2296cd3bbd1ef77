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

async fn run(mut command: Command, input: impl AsRef<[u8]>) -> Said {
    let mut child = command.spawn().unwrap();
    // A command that has ended already does not read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref()).await;
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
    let recording = fixture("recorded/openai-chat/text");
    let folder = folder("wrong-words");
    let folder = folder.to_str().unwrap();
    let in_folder = format!("{folder}/");
    for (words, problem) in [
        (&["decode"][..], "<FILE>"),
        (
            &["decode", "--chunk-size", "3", &recording],
            "error: --wire is needed with --chunk-size and --cuts",
        ),
        (
            &["decode", "--wire", "gemini", "--profile", "bogus", "x"],
            "error: --profile: gemini has no profile `bogus`",
        ),
        (
            &["decode", "--wire", "ollama", "--profile", "bogus", "x"],
            "error: --profile: ollama has no profile `bogus`",
        ),
        (&["chat", "--wire", "telegraph"], "'telegraph'"),
        (&["chat", "--wire", "openai-chat"], "error: --model says which model to ask"),
        (&["chat", "--model", "m"], "error: --wire says which wire to speak"),
        (&["chat", "--wire", "openai-chat", "--model", "m", " "], "error: the message is empty"),
        (
            &["chat", "--replay", &recording, "--profile", "bogus", "x"],
            "error: --profile: openai-chat has no",
        ),
        (&["encode", "--model", "m", "no/such/file"], "error: --wire says which wire to speak"),
        (&["encode", "--wire", "openai-chat", "no/such/file"], "error: --model says which model to ask"),
        (&["record", "--wire", "openai-chat", "-", "--out", "x"], "error: --model says which model to ask"),
        (
            &["record", "--wire", "openai-chat", "--model", "m", "-", "--out", &in_folder],
            "error: --out names a recording, and ",
        ),
        (&["replay", "--pace", "x1e-300", "x"], "from `x0.001` (slower) to `x1000`"),
        (&[], "Usage"),
    ] {
        let said = say(words, REQUEST).await;
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.aside);
        assert!(said.aside.contains(problem), "{words:?}: {}", said.aside);
    }
    let encode = ["encode", "--wire", "openai-chat", "--model", "m"];
    let missing = format!("{folder}/no/such/reply");
    for (words, problem) in [
        (&["decode", "--wire", "openai-chat", "no/such/file"][..], "error: cannot read no/such/file"),
        (&["decode", "--wire", "openai-chat", folder], &format!("error: cannot read {folder}")),
        (
            &["decode", "no/such/file"],
            "no/such/file is not read as a recording, and anything else needs --wire",
        ),
        (&[&encode[..], &["-"]].concat(), "error: what came on standard input is not a request"),
        (
            &[&encode[..], &[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]].concat(),
            "Cargo.toml is not a request",
        ),
        (
            &["record", "--wire", "openai-chat", "--model", "m", &missing, "--out", "x"],
            &format!("error: cannot read {missing}"),
        ),
        (&["replay", "no/such/recording"], "error: no/such/recording.json: "),
    ] {
        let said = say(words, "no request").await;
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{words:?}");
        // No colours, for standard error is no terminal.
        assert!(said.aside.contains(problem) && !said.aside.contains('\x1b'), "{words:?}: {}", said.aside);
    }
}

#[tokio::test]
async fn settings_and_addresses_that_keep_a_turn_from_being_sent_are_1() {
    let folder = folder("unusable");
    let out = folder.join("x");
    let record = ["record", "--out", out.to_str().unwrap(), "-"];
    let stop = REQUEST.replacen('{', r#"{"stop":["."],"#, 1);
    for (asking, request, problem) in [
        (&["--wire", "openai-chat", "--base-url", "nonsense"][..], REQUEST, "the base URL cannot be used"),
        (
            &["--wire", "openai-chat", "--base-url", "http://host.invalid/v1"],
            REQUEST,
            "or `--allow-insecure-http`",
        ),
        (&["--wire", "openai-responses", "--base-url", "http://127.0.0.1:1"], &stop, "stop"),
    ] {
        let asking = [asking, &["--model", "m"]].concat();
        let said = say(&[&record[..], &asking].concat(), request).await;
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{asking:?}: {}", said.aside);
        assert!(said.aside.starts_with("error: config: ") && said.aside.contains(problem), "{}", said.aside);
        if request == REQUEST {
            let said = say(&[&["chat"], &asking[..]].concat(), "Hello\n").await;
            assert_eq!((said.code, said.out.as_str()), (1, ""), "{asking:?}: {}", said.aside);
            assert!(
                said.aside.starts_with("error: config: ") && said.aside.contains(problem),
                "{}",
                said.aside
            );
            let said = say(&[&["chat", "--json"], &asking[..]].concat(), "Hello\n").await;
            let last: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
            assert_eq!((said.code, &last["error"]["kind"]), (1, &json!("config")));
        }
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "nothing is recorded");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn plain_http_to_a_host_that_is_no_loopback_has_to_be_allowed() {
    let server = ReplayServer::start([openai_chat::Reply::new().text(["Hello."])]).await.unwrap();
    // On this system it leads to the loopback, which its name does not tell.
    let base_url = server.base_url().replace("127.0.0.1", "0.0.0.0");
    let chat = ["chat", "--wire", "openai-chat", "--model", "m", "--base-url", &base_url, "Hello"];
    assert_eq!(say(&chat, "").await.code, 1);
    assert_eq!(server.requests().len(), 0);
    let said = say(&[&chat[..], &["--allow-insecure-http"]].concat(), "").await;
    assert_eq!((said.code, said.out.as_str()), (0, "Hello.\n"), "{}", said.aside);
}

#[tokio::test]
async fn lines_of_json_have_no_control_characters() {
    let words = "Red \u{9b}31m\u{7f}\u{1b}[2J.";
    let reply = || openai_chat::Reply::new().text([words]);
    let server = ReplayServer::start([reply(), reply()]).await.unwrap();
    let asking = ["--wire", "openai-chat", "--model", "m", "--base-url", &server.base_url(), "--json"];
    let out = folder("controls").join("red");
    let out = out.to_str().unwrap();
    let body = String::from_utf8(reply().body()).unwrap();
    for (words_of_command, input) in [
        (&["decode", "--wire", "openai-chat", "-"][..], body.as_str()),
        (&[&["record", "--out", out, "-"], &asking[..]].concat(), REQUEST),
        (&[&["chat", "Hello"], &asking[..]].concat(), ""),
        (&["decode", out], ""),
    ] {
        let said = say(words_of_command, input).await;
        assert_eq!(said.code, 0, "{words_of_command:?}: {}", said.aside);
        assert!(said.out.contains(r"Red \u009b31m\u007f\u001b[2J."), "{words_of_command:?}: {}", said.out);
        assert!(!said.out.lines().any(|line| line.contains(char::is_control)), "{}", said.out);
        let mut events = said.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let text = |event: &Value| event["text"] == words || event["event"]["text"] == words;
        assert!(events.any(|event| text(&event)), "it means the same: {}", said.out);
    }
}

#[tokio::test]
async fn the_manuals_request_is_one_that_every_wire_can_send() {
    let manual = include_str!("../../../docs/command-line.md");
    let request = manual.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    for wire in
        ["anthropic-messages", "bedrock-converse", "cohere-v2", "gemini", "openai-chat", "openai-responses"]
    {
        let said = say(&["encode", "--wire", wire, "--model", "m", "--json", "-"], request).await;
        assert_eq!((said.code, said.aside.as_str()), (0, ""), "{wire}");
        let body = &serde_json::from_str::<Value>(&said.out).unwrap()["body"];
        let body = body.to_string();
        assert!(body.contains("A-4471") && body.contains("It ships today."), "{wire}: {body}");
    }
}

#[tokio::test]
async fn encode_shows_no_key_and_sends_a_providers_key_to_nobody_else() {
    let encode = |words: &[&str]| {
        let mut command =
            turnstream(&[&["encode", "--wire", "openai-chat", "--model", "m", "-"], words].concat());
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

#[tokio::test]
async fn record_finds_out_whether_it_can_write_before_it_asks() {
    let server = ReplayServer::start([openai_chat::Reply::new().text(["Yes."])]).await.unwrap();
    let folder = folder("unwritable");
    let record = async |out: &Path| {
        let to = ["record", "--wire", "openai-chat", "--model", "m", "--base-url", &server.base_url(), "-"];
        say(&[&to[..], &["--out", out.to_str().unwrap()]].concat(), REQUEST).await
    };
    let said = record(&folder.join("missing/x")).await;
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert!(
        said.aside.contains("error: cannot write ") && said.aside.contains("missing/x.json"),
        "{}",
        said.aside
    );
    assert_eq!(server.requests().len(), 0);

    // Either file's name names the recording, and nothing is overwritten by that.
    assert_eq!(record(&folder.join("x.json")).await.code, 0);
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["x.body", "x.json"]);
    for name in ["x", "x.json", "x.body"] {
        let said = record(&folder.join(name)).await;
        assert_eq!(said.code, 1);
        assert!(said.aside.contains("--force overwrites it"), "{}", said.aside);
    }
}

#[tokio::test]
async fn record_keeps_a_reply_that_can_neither_be_shown_nor_written_where_it_should_be() {
    let gate = Gate::new();
    let reply = || openai_chat::Reply::new().text(["It ", "ships."]);
    let gated = openai_chat::Reply::new().text(["It "]).gate(&gate).text(["ships."]);
    let server = ReplayServer::start([Recording::from(reply()), Recording::from(gated)]).await.unwrap();
    let (folder, elsewhere) = (folder("goes-away"), folder("elsewhere"));
    let record = |out: &Path| {
        let to = ["record", "--wire", "openai-chat", "--model", "m", "--base-url", &server.base_url(), "-"];
        let mut command = turnstream(&[&to[..], &["--out", out.to_str().unwrap()]].concat());
        command.env("TMPDIR", &elsewhere).env("TMP", &elsewhere);
        command
    };

    // Nobody reads along.
    let mut child = record(&folder.join("unread")).spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(REQUEST.as_bytes()).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    assert_eq!(RecordedTurn::load(folder.join("unread")).unwrap().body(), reply().body());

    let mut child = record(&folder.join("order")).spawn().unwrap();
    child.stdin.take().unwrap().write_all(REQUEST.as_bytes()).await.unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 3]).await.unwrap();
    fs::remove_dir_all(&folder).unwrap();
    gate.open();
    let mut aside = String::new();
    child.stderr.take().unwrap().read_to_string(&mut aside).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(1));
    assert!(aside.starts_with("error: the reply is kept as "), "{aside}");
    let kept = fs::read_dir(&elsewhere).unwrap().next().unwrap().unwrap().path().join("reply");
    assert!(aside.contains(kept.to_str().unwrap()), "{aside}");
    let kept = RecordedTurn::load(kept).unwrap();
    assert_eq!(String::from_utf8(kept.body()).unwrap().matches("ships.").count(), 1);
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
    let said = say(&["replay", "--port", port, &recording], "").await;
    assert_eq!(said.code, 1);
    assert!(said.aside.starts_with(&format!("error: cannot listen on port {port}: ")), "{}", said.aside);
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

#[cfg(unix)]
#[tokio::test]
async fn a_chat_in_json_that_is_stopped_ends_with_its_last_line() {
    let gate = Gate::new();
    let slow = anthropic::Reply::new().text(["It is "]).gate(&gate).text(["here."]);
    let server = ReplayServer::start([slow]).await.unwrap();
    let words = ["chat", "--wire", "anthropic-messages", "--model", "m", "--base-url", &server.base_url()];
    let mut chat = turnstream(&[&words[..], &["--json", "Where?"]].concat()).spawn().unwrap();
    let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().unwrap().contains("It is ") {}
    interrupt(&chat).await;
    let mut last = Value::Null;
    let mut ends = 0;
    while let Some(line) = lines.next_line().await.unwrap() {
        last = serde_json::from_str(&line).unwrap();
        ends += usize::from(last["type"] == "ended");
    }
    assert_eq!(
        (ends, &last["type"], &last["status"], &last["turns"]),
        (1, &json!("ended"), &json!("cancelled"), &json!(1))
    );
    assert_eq!(chat.wait().await.unwrap().code(), Some(3));
}

#[tokio::test]
async fn a_line_that_is_no_text_is_not_sent_and_does_not_end_the_chat() {
    let answer = || openai_chat::Reply::new().text(["Yes."]);
    let server = ReplayServer::start([answer(), answer()]).await.unwrap();
    let words = ["chat", "--wire", "openai-chat", "--model", "m", "--base-url", &server.base_url()];
    let said = run(turnstream(&words), b"One?\n\xff\nTwo?\r\n").await;
    assert_eq!((said.code, said.out.as_str()), (0, "Yes.\nYes.\n"));
    assert_eq!(said.aside, "error: the line is not UTF-8, and was not sent\n");
    assert_eq!(server.sent_requests()[1].last_user_text(), Some("Two?"));
    assert_eq!(run(turnstream(&words), b"\xff\n").await.code, 1);
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
