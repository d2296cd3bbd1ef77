//! What only this wire has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use turnstream_core::{RawJson, WireOptions};

use crate::WIRE;

/// What only this wire has. Set it with [`Request::options`](turnstream_core::Request::options).
///
/// ```
/// use turnstream_bedrock::{CachePoint, Guardrail, Options};
/// use turnstream_core::Request;
///
/// let options = Options::new()
///     .guardrail(Guardrail::new("gr-1", "DRAFT"))
///     .cache_point(CachePoint::System)
///     .model_field("top_k", serde_json::json!(50));
/// let request = Request::new().system("Long rules.").user("hi").options(options);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) guardrail: Option<Guardrail>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) cache_points: Vec<CachePoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_lifetime: Option<CacheLifetime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_tier: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) system_tools: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) model_fields: BTreeMap<String, RawJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) response_fields: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) prompt_variables: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) extra: BTreeMap<String, RawJson>,
}

impl WireOptions for Options {
    const WIRE: &'static str = WIRE;
}

impl Options {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Thinks with a fixed budget, in tokens: at least 1,024, and less than the reply's most tokens. For
    /// Anthropic's models from before adaptive thinking; later ones refuse it.
    pub fn thinking_budget(self, tokens: u64) -> Self {
        Self { thinking_budget: Some(tokens), ..self }
    }

    /// Holds what goes in and what comes out against a guardrail of the account's.
    pub fn guardrail(self, guardrail: Guardrail) -> Self {
        Self { guardrail: Some(guardrail), ..self }
    }

    /// Caches the request up to here. The provider takes four such points; one behind nothing is left out.
    pub fn cache_point(mut self, point: CachePoint) -> Self {
        self.cache_points.push(point);
        self
    }

    /// How long cached prefixes live. The provider's default is five minutes.
    pub fn cache_lifetime(self, lifetime: CacheLifetime) -> Self {
        Self { cache_lifetime: Some(lifetime), ..self }
    }

    /// How fast the model is to be: `standard` or `optimized`.
    pub fn latency(self, latency: impl Into<String>) -> Self {
        Self { latency: Some(latency.into()), ..self }
    }

    /// How the request is served: `default`, `priority`, `flex` or `reserved`.
    pub fn service_tier(self, service_tier: impl Into<String>) -> Self {
        Self { service_tier: Some(service_tier.into()), ..self }
    }

    /// Offers one of the provider's own tools, for example `nova_grounding`, behind the request's tools.
    pub fn system_tool(mut self, name: impl Into<String>) -> Self {
        self.system_tools.push(name.into());
        self
    }

    /// Sets a field that only this model has (`additionalModelRequestFields`), for example `top_k`. One that the
    /// request itself sets is an error when it is encoded.
    pub fn model_field(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.model_fields.insert(name.into(), value.into());
        self
    }

    /// Asks for a field that only this model gives back, as a JSON pointer, for example `/stop_sequence`. It comes
    /// in the `Provider` event `additionalModelResponseFields`.
    pub fn response_field(mut self, pointer: impl Into<String>) -> Self {
        self.response_fields.push(pointer.into());
        self
    }

    /// Fills in a variable of a prompt from the provider's prompt management; the model is then the prompt's ARN.
    pub fn prompt_variable(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.prompt_variables.insert(name.into(), text.into());
        self
    }

    /// Sets a field of the body that this crate has no word for. One that the request itself sets is an error when
    /// it is encoded.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<RawJson>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }
}

/// A guardrail of the account's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Guardrail {
    /// Its id or ARN.
    pub id: String,
    /// Its version: a number, or `DRAFT`.
    pub version: String,
    /// Whether what it did comes back, in the `Provider` event `trace`: `enabled`, `enabled_full` or `disabled`,
    /// which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Whether the text waits for it (`sync`, the default) or runs ahead (`async`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl Guardrail {
    /// A guardrail, by its id or ARN and its version.
    pub fn new(id: impl Into<String>, version: impl Into<String>) -> Self {
        Self { id: id.into(), version: version.into(), trace: None, mode: None }
    }

    /// Says whether what it did comes back.
    pub fn trace(self, trace: impl Into<String>) -> Self {
        Self { trace: Some(trace.into()), ..self }
    }

    /// Says whether the text waits for it.
    pub fn mode(self, mode: impl Into<String>) -> Self {
        Self { mode: Some(mode.into()), ..self }
    }
}

/// Up to where a request is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CachePoint {
    /// The tools.
    Tools,
    /// The tools and the system texts.
    System,
    /// All of it: behind the last message of the user's.
    Messages,
}

/// How long a cached prefix lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CacheLifetime {
    /// Five minutes after its last use.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour after its last use.
    #[serde(rename = "1h")]
    OneHour,
}

#[cfg(test)]
mod tests {
    use turnstream_core::Request;

    use super::*;

    #[test]
    fn options_are_the_same_after_json() {
        let options = Options::new()
            .thinking_budget(2048)
            .guardrail(Guardrail::new("gr-1", "1").trace("enabled").mode("async"))
            .cache_point(CachePoint::Tools)
            .cache_lifetime(CacheLifetime::OneHour)
            .latency("optimized")
            .service_tier("flex")
            .system_tool("nova_grounding")
            .model_field("top_k", serde_json::json!(5))
            .response_field("/stop_sequence")
            .prompt_variable("name", "Ada")
            .extra("projectIdentifier", serde_json::json!("p"));
        let request = Request::new().options(options.clone());
        let json = serde_json::to_string(&request).unwrap();
        let request: Request = serde_json::from_str(&json).unwrap();
        assert_eq!(request.options_of::<Options>().unwrap(), options);
        assert_eq!(Request::new().options(Options::new()).options_of::<Options>().unwrap(), Options::new());
    }
}
