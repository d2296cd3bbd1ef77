//! Whose models differ in what they take.

use std::{fmt, str::FromStr};

use turnstream_core::{Error, IdForm};

use crate::WIRE;

/// Whose model it is: vendors' models behind Converse differ in a few things. The model's id tells, but for
/// those of an application's inference profiles.
///
/// | profile | id of a call | reasoning | source |
/// |---|---|---|---|
/// | `Anthropic` | Amazon's | `thinking` in the model's own fields, beside the effort | Amazon's pages on Claude |
/// | `Mistral` | nine letters and digits | effort only | refusals that Mistral's models give |
/// | `Other` | Amazon's | effort only | the API reference |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Anthropic's Claude.
    Anthropic,
    /// Mistral's models.
    Mistral,
    /// Everybody else's: Amazon's Nova, Meta's Llama, OpenAI's open models, ...
    Other,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::Mistral, Self::Other];

    /// The name, for example `anthropic`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Mistral => "mistral",
            Self::Other => "other",
        }
    }

    /// Whose model has this id: `us.anthropic.claude-haiku-4-5-20251001-v1:0`.
    pub(crate) fn of_model(model: &str) -> Self {
        let is_of = |vendor: &str| model.split(['.', '/', ':']).any(|word| word == vendor);
        match () {
            () if is_of("anthropic") => Self::Anthropic,
            () if is_of("mistral") => Self::Mistral,
            () => Self::Other,
        }
    }

    /// What ids of calls its models take.
    pub(crate) fn call_id(self) -> IdForm {
        match self {
            Self::Mistral => IdForm::new(9, 9, |letter| letter.is_ascii_alphanumeric()),
            Self::Anthropic | Self::Other => IdForm::new(1, 64, |letter| {
                letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | ':' | '-')
            }),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::config(format!("{WIRE} has no profile `{name}`; it has {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_id_tells_whose_it_is() {
        let table = [
            ("anthropic.claude-3-haiku-20240307-v1:0", Profile::Anthropic),
            ("global.anthropic.claude-opus-4-6", Profile::Anthropic),
            ("arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-v2", Profile::Anthropic),
            ("mistral.mistral-large-2402-v1:0", Profile::Mistral),
            ("us.amazon.nova-lite-v1:0", Profile::Other),
            ("arn:aws:bedrock:us-east-1:1:application-inference-profile/x1", Profile::Other),
            ("acme.mistral-like", Profile::Other),
        ];
        for (model, profile) in table {
            assert_eq!(Profile::of_model(model), profile, "{model}");
        }
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse::<Profile>().unwrap(), profile);
        }
        let unknown = "acme".parse::<Profile>().unwrap_err();
        assert_eq!(
            unknown.message(),
            "bedrock-converse has no profile `acme`; it has anthropic, mistral, other"
        );
    }
}
