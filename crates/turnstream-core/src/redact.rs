//! Masks secrets in text that others wrote: providers and gateways echo what they were sent.

/// The fewest characters of a secret. Shorter ones are words that stand everywhere.
const SECRET_LENGTH: usize = 6;

/// Secrets that are masked, the longest first: one may be a part of another.
pub(crate) struct Secrets<'a>(Vec<&'a str>);

impl<'a> Secrets<'a> {
    /// Those that are long enough to be told from words.
    pub(crate) fn new(secrets: &[&'a str]) -> Self {
        let is_long = |secret: &&str| secret.chars().nth(SECRET_LENGTH - 1).is_some();
        let mut secrets: Vec<&str> = secrets.iter().copied().filter(is_long).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Whether a text says one of them, whole.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret))
    }

    /// Puts `***` for every secret in a text.
    pub(crate) fn mask(&self, text: &mut String) {
        for secret in &self.0 {
            if text.contains(secret) {
                *text = text.replace(secret, "***");
            }
        }
    }

    /// The same, and for the beginning of one at the end of a text that may have been cut.
    pub(crate) fn mask_cut(&self, text: &mut String) {
        self.mask(text);
        let cut = |secret: &&str| {
            let starts = secret.char_indices().skip(SECRET_LENGTH).filter_map(|(end, _)| secret.get(..end));
            starts.filter(|start| text.ends_with(start)).map(str::len).max()
        };
        if let Some(length) = self.0.iter().filter_map(cut).max() {
            text.truncate(text.len() - length);
            text.push_str("***");
        }
    }
}
