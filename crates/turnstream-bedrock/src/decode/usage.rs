//! Token counts, as the provider gives them and as we do.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_core::{Count, Usage};

/// Token counts as the provider gives them, of which a later report replaces what it says.
#[derive(Debug, Default)]
pub(super) struct Counts {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

impl Counts {
    /// Takes a report, leniently: it is no reason to lose a turn. False if it says nothing.
    pub(super) fn update(&mut self, usage: &RawValue) -> bool {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Report {
            input_tokens: Count,
            output_tokens: Count,
            cache_read_input_tokens: Count,
            cache_write_input_tokens: Count,
        }
        let report: Report = serde_json::from_str(usage.get()).unwrap_or_default();
        let said = [
            (&mut self.input, report.input_tokens),
            (&mut self.output, report.output_tokens),
            (&mut self.cache_read, report.cache_read_input_tokens),
            (&mut self.cache_write, report.cache_write_input_tokens),
        ];
        let mut says_something = false;
        for (mine, theirs) in said {
            if let Some(theirs) = theirs.get() {
                *mine = Some(theirs);
                says_something = true;
            }
        }
        says_something
    }

    /// In our words: the provider's `inputTokens` leave the cached ones out, ours do not.
    pub(super) fn total(&self) -> Usage {
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        let mut usage = Usage::new();
        usage.input_tokens = self.input.map(|input| input.saturating_add(cached));
        usage.output_tokens = self.output;
        usage.cache_read_tokens = self.cache_read;
        usage.cache_write_tokens = self.cache_write;
        usage
    }
}
