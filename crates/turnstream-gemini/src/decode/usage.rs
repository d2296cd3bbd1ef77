//! Token counts, as the provider gives them and as we do.

use serde::Deserialize;
use turnstream_core::{Count, Usage};

/// Token counts as the provider gives them. A later report replaces what it says, field by field: on Vertex
/// the ones in between have only `trafficType`.
#[derive(Debug, Default)]
pub(super) struct Counts {
    prompt: Count,
    tool_use_prompt: Count,
    cached: Count,
    candidates: Count,
    thoughts: Count,
}

/// One report.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Report {
    prompt_token_count: Count,
    tool_use_prompt_token_count: Count,
    cached_content_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
}

impl Counts {
    /// Takes a report. False if it says nothing.
    pub(super) fn update(&mut self, report: Report) -> bool {
        let said = [
            (&mut self.prompt, report.prompt_token_count),
            (&mut self.tool_use_prompt, report.tool_use_prompt_token_count),
            (&mut self.cached, report.cached_content_token_count),
            (&mut self.candidates, report.candidates_token_count),
            (&mut self.thoughts, report.thoughts_token_count),
        ];
        let mut says_something = false;
        for (mine, theirs) in said {
            says_something |= theirs.get().is_some();
            *mine = theirs.or(*mine);
        }
        says_something
    }

    /// In our words: what the provider's own tools gave the model is input, and thoughts are output.
    pub(super) fn total(&self) -> Usage {
        let sum = |one: Count, other: Count| match (one.get(), other.get()) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        let mut usage = Usage::new();
        usage.input_tokens = sum(self.prompt, self.tool_use_prompt);
        usage.output_tokens = sum(self.candidates, self.thoughts);
        usage.cache_read_tokens = self.cached.get();
        usage.reasoning_tokens = self.thoughts.get();
        usage
    }
}
