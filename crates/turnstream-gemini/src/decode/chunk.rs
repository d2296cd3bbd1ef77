//! The frames of the stream, as serde reads them: each is a `GenerateContentResponse`, of which every field may
//! be missing.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_core::{Count, JsonText, Lesson, List};

use super::{Piece, Voice, usage::Report};

/// Any frame. What is hot is read here; what is rare is left as it stands, for a second look.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<List<Candidate<'a>>>,
    #[serde(borrow)]
    pub(super) usage_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) model_version: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) response_id: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) finish_message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citation_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) url_context_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) safety_ratings: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) logprobs_result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) continuation_token: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<List<Part<'a>>>,
}

/// One part: text, a call, or something else, which is read again as it stands.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) text: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) thought: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thought_signature: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<JsonText<'a>>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) partial_args: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    will_continue: Option<&'a RawValue>,
}

impl<'a> Chunk<'a> {
    /// What frames like this one mean, if but for token counts it has one piece of text or of a thought, and nothing
    /// else that is read.
    pub(super) fn lesson(&self, report: &Report<'a>) -> Option<Lesson<'a, Piece>> {
        let [candidate] = self.candidates.as_deref()? else { return None };
        let [part] = candidate.content.as_ref()?.parts.as_deref()? else { return None };
        let has_more = self.prompt_feedback.is_some()
            || self.has_error()
            || candidate.index.get().is_some_and(|index| index > 0)
            || candidate.finish_reason.is_some()
            || candidate.finish_message.is_some()
            || candidate.grounding_metadata.is_some()
            || candidate.citation_metadata.is_some()
            || candidate.url_context_metadata.is_some()
            || candidate.safety_ratings.is_some()
            || candidate.logprobs_result.is_some()
            || candidate.continuation_token.is_some()
            || part.thought_signature.as_ref().is_some_and(|signature| !signature.is_empty())
            || part.function_call.is_some();
        if has_more {
            return None;
        }
        let voice = if is_true(part.thought) { Voice::Thought } else { Voice::Text };
        let (report, numbers) = report.shape();
        Some(Lesson::new(Piece { voice, report }, part.text.as_ref()?.as_borrowed()?).with_numbers(numbers))
    }

    /// Whether the frame is one of the wire's at all.
    pub(super) fn is_known(&self) -> bool {
        self.candidates.is_some()
            || self.usage_metadata.is_some()
            || self.prompt_feedback.is_some()
            || self.model_version.is_some()
            || self.response_id.is_some()
    }

    /// Whether the frame says that something went wrong. Some servers say with every frame that nothing did.
    pub(super) fn has_error(&self) -> bool {
        self.error.is_some_and(|error| !matches!(error.get(), "{}" | "\"\"" | "false" | "[]"))
    }
}

impl FunctionCall<'_> {
    pub(super) fn will_continue(&self) -> bool {
        is_true(self.will_continue)
    }
}

/// Whether a flag is set. What is no flag says nothing.
pub(super) fn is_true(flag: Option<&RawValue>) -> bool {
    flag.is_some_and(|flag| flag.get() == "true")
}

/// The parts of a candidate, as they stand.
pub(super) fn raw_parts(candidate: &RawValue) -> Vec<&RawValue> {
    #[derive(Deserialize)]
    struct Candidate<'a> {
        #[serde(borrow)]
        content: Content<'a>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        parts: Vec<&'a RawValue>,
    }
    serde_json::from_str(candidate.get()).map(|Candidate { content }| content.parts).unwrap_or_default()
}

/// The candidates of a frame, as they stand.
pub(super) fn raw_candidates(data: &str) -> Vec<&RawValue> {
    #[derive(Deserialize)]
    struct Candidates<'a> {
        #[serde(borrow)]
        candidates: Vec<&'a RawValue>,
    }
    serde_json::from_str(data).map(|Candidates { candidates }| candidates).unwrap_or_default()
}
