//! The conversation on its way out.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use serde::Serialize;
use serde_json::value::RawValue;
use turnstream_core::{
    CallPart, Error, IdForm, InputKind, Part, RawJson, Replay, Request, ResultContent, ResultPart, Role,
    Source, Warning,
};

use crate::{Gemini, WIRE};

/// One message, as the wire has it.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    role: &'static str,
    parts: Vec<Sent<'a>>,
    /// Whether it is the results of a turn's calls, which stand alone.
    #[serde(skip)]
    is_results: bool,
}

/// A part: one that we write, or one that goes back as it came.
#[derive(Serialize)]
#[serde(untagged)]
enum Sent<'a> {
    Ours(Box<Written<'a>>),
    Theirs(&'a RawJson),
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<File<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<RawJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'static str>,
    file_uri: &'a str,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    args: Args<'a>,
}

/// Arguments as the object that the wire wants.
#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Object(&'a RawValue),
    Value { input: &'a RawValue },
    Text { input: &'a str },
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: Answer,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Sent<'a>>,
}

/// What a handler gave back: the wire has no mark for an error but the name.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Output(String),
    Error(String),
}

impl<'a> From<Written<'a>> for Sent<'a> {
    fn from(part: Written<'a>) -> Self {
        Self::Ours(Box::new(part))
    }
}

impl<'a> Written<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    /// The same part with the marks that it came with.
    fn marked(self, replay: Option<&Replay>) -> Self {
        let marks: BTreeMap<String, RawJson> = replay
            .and_then(|replay| replay.data_for(WIRE))
            .and_then(|data| data.read().ok())
            .unwrap_or_default();
        let mark = |name: &str| marks.get(name).cloned();
        Self { thought: mark("thought"), thought_signature: mark("thoughtSignature"), ..self }
    }
}

/// What has to agree between calls and results.
pub(super) struct History<'a> {
    /// From Gemini 3 on: a turn's first call has to be signed, and a result may hold images.
    is_third: bool,
    /// Ids that the provider never gave.
    made_up: HashSet<&'a str>,
    /// The place of each call among all.
    order: HashMap<&'a str, usize>,
}

impl<'a> History<'a> {
    pub(super) fn new(wire: &Gemini, request: &'a Request) -> Self {
        let calls = || request.conversation.messages().iter().flat_map(|message| message.calls());
        Self {
            is_third: wire.series().is_some_and(|series| series >= 3),
            made_up: calls().filter(|call| call.made_up_id).map(|call| call.id.as_str()).collect(),
            order: calls().enumerate().map(|(place, call)| (call.id.as_str(), place)).collect(),
        }
    }

    /// The messages. Those of one role in a row are one, but results of calls stand alone, in the order of the
    /// calls: the provider wants as many of them, right behind the calls, as there are calls.
    pub(super) fn contents(
        &self,
        request: &'a Request,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Content<'a>>, Error> {
        let mut contents: Vec<Content<'a>> = Vec::new();
        for message in request.conversation.messages() {
            let mut results: Vec<&'a ResultPart> = Vec::new();
            let mut parts = Vec::new();
            for part in &message.parts {
                match (part, message.role) {
                    (Part::Result(result), Role::User) => results.push(result),
                    (part, role) => parts.extend(self.part(role, part, warnings)?),
                }
            }
            results.sort_by_key(|result| self.order.get(result.call_id.as_str()).copied());
            let mut answers = Vec::new();
            for result in results {
                self.answer(result, &mut answers)?;
            }
            push(&mut contents, "user", answers, true);
            let role = if message.role == Role::User { "user" } else { "model" };
            push(&mut contents, role, parts, false);
        }
        if self.is_third {
            contents.iter_mut().for_each(Content::sign_first_call);
        }
        Ok(contents)
    }

    fn part(
        &self,
        role: Role,
        part: &'a Part,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<Sent<'a>>, Error> {
        let misplaced = |what| Err(Error::config(format!("{what} cannot stand in a message of this role")));
        let written = match (part, role) {
            (Part::Text(text) | Part::Refusal(text), _) if text.text.is_empty() => return Ok(None),
            (Part::Text(text) | Part::Refusal(text), _) => {
                Written::text(&text.text).marked(text.replay.as_ref())
            }
            (Part::Image(image), _) => data(&image.source)?,
            (Part::Document(document), _) => {
                if document.name.is_some() {
                    warnings.push(Warning::new("document.name", "this wire has no place for it"));
                }
                data(&document.source)?
            }
            (Part::Audio(audio), _) => data(&audio.source)?,
            // Thoughts of another wire stay there.
            (Part::Reasoning(reasoning), Role::Assistant) => match &reasoning.replay {
                Some(replay) if replay.data_for(WIRE).is_some() && !reasoning.text.is_empty() => {
                    Written::text(&reasoning.text).marked(Some(replay))
                }
                _ => return Ok(None),
            },
            (Part::Reasoning(_), _) => return Ok(None),
            (Part::Call(call), Role::Assistant) => self.call(call),
            (Part::Call(_), _) => return misplaced("a call"),
            (Part::Result(_), _) => return misplaced("a result"),
            (Part::Opaque(opaque), _) => return Ok(opaque.replay.data_for(WIRE).map(Sent::Theirs)),
            _ => return Err(Error::config("this wire does not know a part of the conversation")),
        };
        Ok(Some(written.into()))
    }

    fn call(&self, call: &'a CallPart) -> Written<'a> {
        let text = call.arguments.json();
        let args = match serde_json::from_str::<&RawValue>(text) {
            _ if call.input != InputKind::Json => Args::Text { input: call.arguments.as_str() },
            Ok(value) if value.get().starts_with('{') => Args::Object(value),
            Ok(input) => Args::Value { input },
            Err(_) => Args::Text { input: text },
        };
        let name = IdForm::TOOL_NAME.fit(&call.name);
        let function_call = Some(FunctionCall { id: self.id(&call.id), name, args });
        Written { function_call, ..Written::default() }.marked(call.replay.as_ref())
    }

    /// The result of one call. Models before Gemini 3 want its images behind it.
    fn answer(&self, result: &'a ResultPart, answers: &mut Vec<Sent<'a>>) -> Result<(), Error> {
        let (mut texts, mut parts) = (Vec::new(), Vec::new());
        for piece in &result.content {
            match piece {
                ResultContent::Text(text) if text.is_empty() => {}
                ResultContent::Text(text) => texts.push(text.as_str()),
                ResultContent::Image(image) => parts.push(Sent::from(data(&image.source)?)),
                ResultContent::Document(document) => parts.push(Sent::from(data(&document.source)?)),
                _ => return Err(Error::config("this wire does not know a piece of a result")),
            }
        }
        let text = match texts.is_empty() {
            true if parts.is_empty() || result.is_error => result.placeholder().to_owned(),
            _ => texts.join("\n"),
        };
        let behind = if self.is_third { Vec::new() } else { std::mem::take(&mut parts) };
        let function_response = FunctionResponse {
            id: self.id(&result.call_id),
            name: IdForm::TOOL_NAME.fit(&result.name),
            response: if result.is_error { Answer::Error(text) } else { Answer::Output(text) },
            parts,
        };
        let written = Written { function_response: Some(function_response), ..Written::default() };
        answers.push(written.into());
        answers.extend(behind);
        Ok(())
    }

    fn id(&self, id: &'a str) -> Option<&'a str> {
        Some(id).filter(|id| !id.is_empty() && !self.made_up.contains(id))
    }
}

impl Content<'_> {
    /// The first call of a model's message that nobody signed came from elsewhere. The provider takes this
    /// word for a signature then: <https://ai.google.dev/gemini-api/docs/thought-signatures>.
    fn sign_first_call(&mut self) {
        let first = self.parts.iter_mut().find_map(|part| match part {
            Sent::Ours(written) if written.function_call.is_some() => Some(written),
            _ => None,
        });
        if let Some(call) = first
            && call.thought_signature.is_none()
        {
            call.thought_signature = RawJson::of("skip_thought_signature_validator").ok();
        }
    }
}

fn push<'a>(contents: &mut Vec<Content<'a>>, role: &'static str, mut parts: Vec<Sent<'a>>, is_results: bool) {
    if parts.is_empty() {
        return;
    }
    match contents.last_mut() {
        Some(last) if last.role == role && last.is_results == is_results => last.parts.append(&mut parts),
        _ => contents.push(Content { role, parts, is_results }),
    }
}

fn data(source: &Source) -> Result<Written<'_>, Error> {
    let (inline_data, file_data) = match source {
        Source::Base64 { media_type, data } => (Some(Blob { mime_type: media_type, data }), None),
        Source::Url(uri) | Source::File(uri) => {
            (None, Some(File { mime_type: mime_type(uri), file_uri: uri }))
        }
        _ => return Err(Error::config("this wire does not know the source of an image or a document")),
    };
    Ok(Written { inline_data, file_data, ..Written::default() })
}

/// The type that the end of an address says: Vertex AI wants it said.
fn mime_type(uri: &str) -> Option<&'static str> {
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    let (_, end) = path.rsplit_once('/')?.1.rsplit_once('.')?;
    Some(match end.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "pdf" => "application/pdf",
        "txt" | "md" => "text/plain",
        "html" => "text/html",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        _ => return None,
    })
}
