//! The project's own tests build their replies with the testing kit: what a frame looks like is written down in
//! the wires' crates and in the kit, and nowhere else.

#![allow(clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use turnstream_tests::{entries, root};

/// Where frames are written by hand.
struct Exception {
    /// A file or a folder, from the project's root.
    path: &'static str,
    /// What the line has in it; nothing where any line may be one.
    line: &'static str,
    why: &'static str,
}

const fn all_of(path: &'static str, why: &'static str) -> Exception {
    Exception { path, line: "", why }
}

const fn line_of(path: &'static str, line: &'static str, why: &'static str) -> Exception {
    Exception { path, line, why }
}

/// All of them, whole folders first.
const EXCEPTIONS: &[Exception] = &[
    all_of("crates/turnstream-core/src/", "framers: what a frame is, is what they are tested for"),
    all_of("crates/turnstream-anthropic/src/", "a wire's own tests spell its frames"),
    all_of(
        "crates/turnstream-bedrock/src/",
        "writes events of messages, and a framer gets another wire's frame",
    ),
    all_of("crates/turnstream-cohere/src/", "a wire's own tests spell its frames"),
    all_of("crates/turnstream-gemini/src/", "a wire's own tests spell its frames"),
    all_of("crates/turnstream-ollama/src/", "a wire's own tests spell its frames"),
    all_of("crates/turnstream-openai-chat/src/", "a wire's own tests spell its frames"),
    all_of("crates/turnstream-openai-responses/src/", "a wire's own tests spell its frames"),
    all_of("crates/turnstream-testing/src/", "the kit writes the frames, and is tested for it"),
    all_of("crates/turnstream-bench/src/", "bodies without the kit's cost, and a reader that is the floor"),
    all_of("crates/turnstream-http/tests/", "a toy wire of a word a frame, so that no provider's is needed"),
    all_of("tests/tests/kit_used.rs", "this test has to be tested"),
    all_of("tests/tests/properties/bodies.rs", "takes recorded bodies apart and puts them together anew"),
    all_of("tests/tests/properties/line_ends.rs", "frames that say nothing, with every line end there is"),
    line_of("tests/tests/properties/news.rs", "x_news", "news for frames that were recorded"),
    line_of("tests/tests/properties/fragments.rs", "fn main()", "a call's arguments that look like a frame"),
    line_of("tests/network/src/fixtures.rs", r#"{\"type\": \n"#, "malformed: the JSON has no end"),
    line_of("tests/tests/failures.rs", r"\xff\xfe\xfd", "malformed: no UTF-8"),
    line_of("tests/tests/failures.rs", r#"{\"type\": \n"#, "malformed: the JSON has no end"),
    line_of("tests/tests/failures.rs", "0123456789", "malformed: the frame has no end"),
    line_of("tests/tests/limits.rs", r#""x".repeat(1000)"#, "malformed: the frame is too long, and no JSON"),
    line_of("tests/tests/limits.rs", r#""{},".repeat"#, "malformed: a list of nothing, and of too much"),
    line_of("tests/tests/kit_recordings.rs", "{KEY} token", "malformed: a key where JSON should be"),
    line_of("tests/tests/kit_recordings.rs", "********", "malformed: the same, masked"),
    line_of("tests/tests/kit_recordings.rs", "data: {}", "what the check of a decoder sends behind the end"),
    line_of("tests/tests/transport_cases/errors.rs", "choices", "malformed: a number in the place of a list"),
    line_of("tests/tests/transport_replies.rs", r#""data: {\"ty""#, "malformed: the body ends in a frame"),
    line_of("tests/tests/transport_secrets.rs", "ECHO", "malformed: words where JSON should be"),
];

#[test]
fn replies_are_built_with_the_kit() {
    let mut files = Vec::new();
    for folder in ["crates", "examples", "tests"] {
        sources(&root().join(folder), &mut files);
    }
    assert!(files.len() > 100, "the sources were not found");
    let mut is_met = vec![false; EXCEPTIONS.len()];
    let mut problems = Vec::new();
    for file in files {
        let path = file.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        for (number, line) in written_frames(&fs::read_to_string(&file).unwrap()) {
            let excepts =
                |exception: &Exception| path.starts_with(exception.path) && line.contains(exception.line);
            match EXCEPTIONS.iter().position(excepts) {
                Some(found) => is_met.iter_mut().skip(found).take(1).for_each(|met| *met = true),
                None => problems.push(format!("{path}:{number}: {}", line.trim())),
            }
        }
    }
    let problems = problems.join("\n");
    assert!(
        problems.is_empty(),
        "Build these with the kit (`Reply::text`, `call`, `frame`, ...), or say in EXCEPTIONS what is \
         malformed about them:\n{problems}"
    );
    for (exception, is_met) in EXCEPTIONS.iter().zip(is_met) {
        let Exception { path, line, why } = exception;
        assert!(is_met, "no line of {path} needs the exception `{line}` ({why}): take it out");
    }
}

#[test]
fn a_frame_that_is_written_by_hand_is_found() {
    let found = [
        r##"let body = r#"data: {"type":"message_stop"}"#;"##,
        r#"Recording::new(format!("data: {chunk}\n\n"))"#,
        r#"Recording::new("event: ping\ndata: {}\n\n")"#,
        r#""\n\ndata: [DONE]\n\n""#,
        r#"": ping\r\rdata: x""#,
        r#"b"data:{}\n\n""#,
        r#"    data: {"choices":[]}"#,
        "data: [DONE]",
        r#""{\"message\":{\"content\":\"\"},\"done\":false}\n""#,
        r##"r#"{"model": "m", "message": {}, "done": true}"#"##,
    ];
    for line in found {
        assert_eq!(written_frames(&format!("a\n{line}\nb")), [(2, line)], "{line}");
    }
    let others = [
        "// data: {\"type\":\"message_stop\"}",
        "fn frame(event: &str, data: &str) {",
        "    data: String,",
        "    data: [u8; 2],",
        r#"let image = "data:image/png;base64,iVBORw0KGgo=";"#,
        r#"line.strip_prefix("data:")"#,
        r#"json!({ "done": true })"#,
        r#"Reply::new().frame("news", json!({ "type": "news" }))"#,
    ];
    for line in others {
        assert_eq!(written_frames(line), [], "{line}");
    }
}

/// The lines that have a frame of server-sent events in them, or a line of JSON lines, with their numbers.
fn written_frames(source: &str) -> Vec<(usize, &str)> {
    let numbered = (1..).zip(source.lines());
    numbered.filter(|(_, line)| has_field(line) || has_json_line(line)).collect()
}

/// Whether a string has a field of a server-sent event at its start or behind a line's end. A string over
/// several lines has no quote in front of it.
fn has_field(line: &str) -> bool {
    if line.trim_start().starts_with("//") {
        return false;
    }
    ["data:", "event:"].iter().any(|field| {
        line.match_indices(field).any(|(at, _)| {
            let (before, after) = (line.get(..at).unwrap(), line.get(at + field.len()..).unwrap());
            let is_first = ["\"", r"\n", r"\r"].iter().any(|start| before.ends_with(start));
            let is_frame = [" ", "{", "["].iter().any(|start| after.starts_with(start));
            let is_whole_line = [" {", " [DONE]"].iter().any(|start| after.starts_with(start));
            (is_first && is_frame) || (before.trim().is_empty() && is_whole_line)
        })
    })
}

/// Whether a string is a line of Ollama's.
fn has_json_line(line: &str) -> bool {
    let bare = line.replace(['\\', ' '], "");
    !bare.starts_with("//")
        && bare.contains("\"message\":{")
        && ["\"done\":true", "\"done\":false"].iter().any(|done| bare.contains(done))
}

/// The Rust files below a folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in entries(folder).unwrap() {
        if path.is_dir() {
            if !path.ends_with("target") {
                sources(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
