//! Token counts, as the provider gives them and as we do.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_core::{Count, Usage};

/// Token counts as the provider gives them. A later report replaces what it says, field by field: on Vertex
/// the ones in between have only `trafficType`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    prompt: Count,
    tool_use_prompt: Count,
    cached: Count,
    candidates: Count,
    thoughts: Count,
}

/// One report, as it stands.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Report<'a> {
    #[serde(borrow)]
    prompt_token_count: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_prompt_token_count: Option<&'a RawValue>,
    #[serde(borrow)]
    cached_content_token_count: Option<&'a RawValue>,
    #[serde(borrow)]
    candidates_token_count: Option<&'a RawValue>,
    #[serde(borrow)]
    thoughts_token_count: Option<&'a RawValue>,
}

/// A report whose numbers change from frame to frame: a bit for each count that is one of them.
#[derive(Debug)]
pub(super) struct ReportShape {
    counts: Counts,
    changing: u8,
}

impl<'a> Report<'a> {
    pub(super) fn counts(&self) -> Counts {
        let [prompt, tool_use_prompt, cached, candidates, thoughts] =
            self.said().map(|raw| raw.map(Count::of).unwrap_or_default());
        Counts { prompt, tool_use_prompt, cached, candidates, thoughts }
    }

    /// The report without its plain numbers, and those.
    pub(super) fn shape(&self) -> (ReportShape, Vec<&'a str>) {
        let (mut changing, mut numbers) = (0, Vec::new());
        for (place, raw) in self.said().into_iter().enumerate() {
            if let Some(raw) = raw
                && raw.get().bytes().all(|byte| byte.is_ascii_digit())
            {
                changing |= 1 << place;
                numbers.push(raw.get());
            }
        }
        (ReportShape { counts: self.counts(), changing }, numbers)
    }

    fn said(&self) -> [Option<&'a RawValue>; 5] {
        [
            self.prompt_token_count,
            self.tool_use_prompt_token_count,
            self.cached_content_token_count,
            self.candidates_token_count,
            self.thoughts_token_count,
        ]
    }
}

impl ReportShape {
    /// The report with other numbers.
    pub(super) fn with(&self, numbers: &[u64]) -> Counts {
        let mut counts = self.counts;
        let mut numbers = numbers.iter();
        for (place, count) in counts.all().into_iter().enumerate() {
            if self.changing & 1 << place != 0
                && let Some(number) = numbers.next()
            {
                *count = Count::from(*number);
            }
        }
        counts
    }
}

impl Counts {
    /// Takes a report. False if it says nothing.
    pub(super) fn update(&mut self, mut report: Self) -> bool {
        let mut says_something = false;
        for (mine, theirs) in self.all().into_iter().zip(report.all()) {
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

    /// In the order of [`Report::said`].
    fn all(&mut self) -> [&mut Count; 5] {
        let Self { prompt, tool_use_prompt, cached, candidates, thoughts } = self;
        [prompt, tool_use_prompt, cached, candidates, thoughts]
    }
}
