//! Ids of calls from elsewhere, made to fit a wire.

use std::borrow::Cow;

/// What ids of calls a wire takes.
#[derive(Debug, Clone, Copy)]
pub struct IdForm {
    shortest: usize,
    longest: usize,
    takes: fn(char) -> bool,
}

impl IdForm {
    /// The names of tools that every provider takes. A model can make up another one, and the call that has
    /// it stands in the history like any other.
    pub const TOOL_NAME: Self =
        Self::new(1, 64, |letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'));

    /// Ids of so many characters, the fewest and the most, all of which `takes` takes.
    pub const fn new(shortest: usize, longest: usize, takes: fn(char) -> bool) -> Self {
        Self { shortest, longest, takes }
    }

    /// The id as the wire takes it: itself if it fits, else one made of it. The same id becomes the same one in
    /// every request, in call and result alike, and different ids stay apart.
    pub fn fit<'i>(&self, id: &'i str) -> Cow<'i, str> {
        let Self { shortest, longest, takes } = *self;
        if (shortest..=longest).contains(&id.chars().count()) && id.chars().all(takes) {
            return Cow::Borrowed(id);
        }
        // FNV-1a, which is the same on every machine and in every version: history must not change.
        let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let digits = longest.min(DIGITS);
        let digit = |place| ALPHANUMERICS.chars().nth((hash / 62_u64.pow(place) % 62) as usize);
        let mut fitting: String =
            id.chars().filter(|letter| takes(*letter)).take(longest.min(READABLE) - digits).collect();
        fitting.extend((0..digits as u32).filter_map(digit));
        Cow::Owned(fitting)
    }
}

/// So many digits to base 62 hold a hash, but for a bit.
const DIGITS: usize = 10;

/// An id that is made is no longer than every provider takes, where it has the choice.
const READABLE: usize = 64;

const ALPHANUMERICS: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const WORDS: IdForm =
        IdForm::new(1, usize::MAX, |letter| letter.is_ascii_alphanumeric() || letter == '_');
    const NINE: IdForm = IdForm::new(9, 9, |letter| letter.is_ascii_alphanumeric());
    const SHORT: IdForm = IdForm::new(1, 64, |_| true);

    #[test]
    fn what_fits_stays_and_what_does_not_is_made_to_fit_and_stays_apart() {
        let long = "x".repeat(70);
        let ids = ["toolu_1", "gSIMJiOkT", "a:b", "a_b", "a.b", "", "æ", &long, &long[..69]];
        for form in [WORDS, NINE, SHORT] {
            let fitting: HashSet<Cow<'_, str>> = ids.iter().map(|id| form.fit(id)).collect();
            assert_eq!(fitting.len(), ids.len(), "{fitting:?}");
            for id in &fitting {
                assert_eq!(form.fit(id), *id, "an id that fits is changed");
            }
        }
        assert_eq!(IdForm::TOOL_NAME.fit("lookup-order_2"), "lookup-order_2");
        assert!(IdForm::TOOL_NAME.fit("multi_tool_use.parallel").starts_with("multi_tool_useparallel"));
        assert_eq!(WORDS.fit("toolu_1"), "toolu_1");
        assert_eq!(WORDS.fit("call:1"), "call1IlX83uostq");
        assert_eq!(NINE.fit("gSIMJiOkT"), "gSIMJiOkT");
        assert_eq!(SHORT.fit(&long).len(), 64);
    }
}
