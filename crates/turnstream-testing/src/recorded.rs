//! [`RecordedTurn`]: one turn as it was on the wire, and the two files that keep it.

mod mask;

use std::{
    ffi::OsStr,
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use turnstream_core::RawJson;

use crate::sent::SentRequest;

pub(crate) use mask::{Secrets, mask_request_headers, mask_response_headers, mask_url};

/// The version of the format that is written, and the only one that is read.
const VERSION: u32 = 1;
/// What stands for a value that is not kept.
pub(crate) const MASKED: &str = "***";

/// One turn as it was on the wire: the request, the head of the reply, and every chunk of the body with the
/// time at which it came.
///
/// A [`Recorder`](crate::Recorder) makes one, and so does `turnstream record`. It becomes a
/// [`Recording`](crate::Recording) for the replay server, with the same chunks at the same pace.
///
/// # Files
///
/// It is kept in two files. `<name>.body` holds the raw bytes of the body, and nothing else: any decoder can
/// be fed with it. `<name>.json` holds the rest:
///
/// ```json
/// {
///   "turnstream_recording": 1,
///   "wire": "openai-chat",
///   "request": {"url":"https://host/v1/chat/completions","headers":[["authorization","***"]],"body":{"model":"m"}},
///   "status": 200,
///   "headers": [["content-type","text/event-stream"]],
///   "head_at_ms": 211,
///   "chunks": [
///     {"at_ms":0,"bytes":312},
///     {"at_ms":41,"bytes":187}
///   ],
///   "end_at_ms": 41,
///   "end": "whole"
/// }
/// ```
///
/// | field | |
/// |---|---|
/// | `turnstream_recording` | the version of the format: 1 |
/// | `head_at_ms` | when the head came, in milliseconds after the request was made |
/// | `chunks` | how the body was cut: when each chunk came, in milliseconds after the head, and its bytes |
/// | `end` | `whole`: the body ended as HTTP promises it; `cut`: the connection broke, or the client left |
///
/// # Secrets
///
/// A recording holds none. Values of headers that are not known to be harmless, users and passwords of the
/// address and the values of its query are `***`; where the reply echoes a key, asterisks take its place, as
/// many as it had bytes. What the user, the model and the tools said is kept as it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RecordedTurn {
    /// The wire's name, for example `anthropic-messages`.
    pub wire: String,
    /// The request.
    pub request: RecordedRequest,
    /// The status of the reply.
    pub status: u16,
    /// The headers of the reply.
    pub headers: Vec<(String, String)>,
    /// How long after the request the head came.
    pub head_after: Duration,
    /// The body, as it came.
    pub chunks: Vec<RecordedChunk>,
    /// How long after the head the body ended.
    pub end_after: Duration,
    /// How the body ended.
    pub end: RecordedEnd,
}

/// The request of a [`RecordedTurn`]. It was a POST.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// Where it went.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// Its body, as it was sent.
    pub body: RawJson,
}

/// A chunk of the body of a [`RecordedTurn`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedChunk {
    /// How long after the head it came.
    pub after: Duration,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// How the body of a [`RecordedTurn`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RecordedEnd {
    /// As HTTP promises it.
    Whole,
    /// In the middle: the connection broke, or the client left.
    Cut,
}

/// The file beside the body.
#[derive(Debug, Deserialize)]
struct Sheet {
    turnstream_recording: u32,
    wire: String,
    request: RecordedRequest,
    status: u16,
    headers: Vec<(String, String)>,
    head_at_ms: u64,
    chunks: Vec<SheetChunk>,
    end_at_ms: u64,
    end: RecordedEnd,
}

#[derive(Debug, Serialize, Deserialize)]
struct SheetChunk {
    at_ms: u64,
    bytes: usize,
}

impl RecordedTurn {
    /// Reads a recording from its two files. `path` is the name of either, or what they have in common.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, is no recording, or is one of another version. The error names the file.
    pub fn load(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let read = |path: &Path| fs::read(path).map_err(|error| about(path, error.kind(), &error));
        let sheet = beside(path, "json");
        let invalid = |error: io::Error| about(&sheet, error.kind(), &error);
        Self::parse(&read(&sheet)?, &read(&beside(path, "body"))?).map_err(invalid)
    }

    /// Reads all recordings of a folder, in the order of their names. Other files are left alone.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn load_all(folder: impl AsRef<Path>) -> io::Result<Vec<Self>> {
        let folder = folder.as_ref();
        let cannot_read = |error: io::Error| about(folder, error.kind(), &error);
        let mut bodies = Vec::new();
        for entry in fs::read_dir(folder).map_err(cannot_read)? {
            let path = entry.map_err(cannot_read)?.path();
            if path.extension() == Some(OsStr::new("body")) {
                bodies.push(path);
            }
        }
        bodies.sort();
        bodies.iter().map(Self::load).collect()
    }

    /// Reads a recording from the content of its two files.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] when the first is no recording, or one of another version, or does not
    /// fit the body.
    pub fn parse(json: &[u8], body: &[u8]) -> io::Result<Self> {
        let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
        let sheet: Sheet =
            serde_json::from_slice(json).map_err(|error| invalid(format!("no recording: {error}")))?;
        if sheet.turnstream_recording != VERSION {
            let version = sheet.turnstream_recording;
            return Err(invalid(format!("a recording of version {version}; this reads version {VERSION}")));
        }
        let mut rest = body;
        let mut chunks = Vec::new();
        for chunk in sheet.chunks {
            let (bytes, after) = rest
                .split_at_checked(chunk.bytes)
                .ok_or_else(|| invalid("the chunks go beyond the body".to_owned()))?;
            rest = after;
            chunks.push(RecordedChunk { after: Duration::from_millis(chunk.at_ms), bytes: bytes.to_vec() });
        }
        if !rest.is_empty() {
            return Err(invalid(format!("{} bytes of the body are in no chunk", rest.len())));
        }
        Ok(Self {
            wire: sheet.wire,
            request: sheet.request,
            status: sheet.status,
            headers: sheet.headers,
            head_after: Duration::from_millis(sheet.head_at_ms),
            chunks,
            end_after: Duration::from_millis(sheet.end_at_ms),
            end: sheet.end,
        })
    }

    /// Writes the two files. `path` is what their names have in common, or the name of either. Files that are
    /// there already are overwritten.
    ///
    /// # Errors
    ///
    /// When a file cannot be written. The error names it.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let write = |path: &Path, content: &[u8]| {
            fs::write(path, content).map_err(|error| about(path, error.kind(), &error))
        };
        let path = path.as_ref();
        write(&beside(path, "body"), &self.body())?;
        write(&beside(path, "json"), self.to_json().as_bytes())
    }

    /// The content of the `.json` file.
    pub fn to_json(&self) -> String {
        let mut json = format!("{{\n  \"turnstream_recording\": {VERSION},\n");
        field(&mut json, "wire", &self.wire);
        field(&mut json, "request", &self.request);
        field(&mut json, "status", &self.status);
        field(&mut json, "headers", &self.headers);
        field(&mut json, "head_at_ms", &milliseconds(self.head_after));
        let chunk = |chunk: &RecordedChunk| {
            let chunk = SheetChunk { at_ms: milliseconds(chunk.after), bytes: chunk.bytes.len() };
            format!("\n    {}", line(&chunk))
        };
        let chunks: Vec<String> = self.chunks.iter().map(chunk).collect();
        let end = if chunks.is_empty() { "" } else { "\n  " };
        writeln!(json, "  \"chunks\": [{}{end}],", chunks.join(",")).expect("a string takes everything");
        field(&mut json, "end_at_ms", &milliseconds(self.end_after));
        json + &format!("  \"end\": {}\n}}\n", line(&self.end))
    }

    /// The whole body.
    pub fn body(&self) -> Vec<u8> {
        self.chunks.iter().flat_map(|chunk| chunk.bytes.iter().copied()).collect()
    }

    /// What the request says, if it went to a known wire's path.
    pub fn sent(&self) -> Option<SentRequest> {
        SentRequest::read(&self.request.url, self.request.body.as_str().as_bytes())
    }
}

/// The path with another ending, or with one if it has none of ours: names may have dots.
fn beside(path: &Path, extension: &str) -> PathBuf {
    match path.extension().and_then(OsStr::to_str) {
        Some("json" | "body") => path.with_extension(extension),
        _ => {
            let mut path = path.as_os_str().to_owned();
            path.push(".");
            path.push(extension);
            path.into()
        }
    }
}

fn about(path: &Path, kind: io::ErrorKind, problem: &io::Error) -> io::Error {
    io::Error::new(kind, format!("{}: {problem}", path.display()))
}

fn field<T: Serialize>(json: &mut String, name: &str, value: &T) {
    writeln!(json, "  \"{name}\": {},", line(value)).expect("a string takes everything");
}

fn line<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("no map of it has keys that are not strings")
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn() -> RecordedTurn {
        let chunk = |ms, bytes: &str| RecordedChunk {
            after: Duration::from_millis(ms),
            bytes: bytes.as_bytes().to_vec(),
        };
        RecordedTurn {
            wire: "openai-chat".to_owned(),
            request: RecordedRequest {
                url: "http://localhost/v1/chat/completions".to_owned(),
                headers: vec![("authorization".to_owned(), MASKED.to_owned())],
                body: RawJson::parse(r#"{"model":"m", "temperature":1.0}"#).unwrap(),
            },
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            head_after: Duration::from_millis(211),
            chunks: vec![chunk(0, "data: {}\n"), chunk(41, "\ndata: [DONE]\n\n")],
            end_after: Duration::from_millis(42),
            end: RecordedEnd::Cut,
        }
    }

    #[test]
    fn a_recording_is_written_for_people_and_read_back_as_it_was() {
        let json = turn().to_json();
        assert_eq!(
            json,
            r#"{
  "turnstream_recording": 1,
  "wire": "openai-chat",
  "request": {"url":"http://localhost/v1/chat/completions","headers":[["authorization","***"]],"body":{"model":"m", "temperature":1.0}},
  "status": 200,
  "headers": [["content-type","text/event-stream"]],
  "head_at_ms": 211,
  "chunks": [
    {"at_ms":0,"bytes":9},
    {"at_ms":41,"bytes":15}
  ],
  "end_at_ms": 42,
  "end": "cut"
}
"#
        );
        assert_eq!(RecordedTurn::parse(json.as_bytes(), &turn().body()).unwrap(), turn());
        let empty = RecordedTurn { chunks: Vec::new(), ..turn() };
        assert_eq!(RecordedTurn::parse(empty.to_json().as_bytes(), b"").unwrap(), empty);
    }

    #[test]
    fn what_is_no_recording_is_an_error_that_says_so() {
        let json = turn().to_json();
        let problem = |json: &str, body: &[u8]| {
            let error = RecordedTurn::parse(json.as_bytes(), body).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            error.to_string()
        };
        assert!(problem("{}", b"").starts_with("no recording: missing field"));
        let next = json.replace("\"turnstream_recording\": 1", "\"turnstream_recording\": 2");
        assert_eq!(problem(&next, b""), "a recording of version 2; this reads version 1");
        assert_eq!(problem(&json, b"short"), "the chunks go beyond the body");
        assert_eq!(problem(&json, &[b' '; 26]), "2 bytes of the body are in no chunk");
    }

    #[test]
    fn both_files_are_found_by_any_of_their_names() {
        for name in ["a/turn", "a/turn.json", "a/turn.body"] {
            assert_eq!(beside(Path::new(name), "json"), Path::new("a/turn.json"));
        }
        assert_eq!(beside(Path::new("gpt-5.1"), "body"), Path::new("gpt-5.1.body"));
        let error = RecordedTurn::load("no/such/turn").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("no/such/turn.json: "), "{error}");
    }
}
