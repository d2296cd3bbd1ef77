//! Amazon Bedrock's Converse wire for turnstream: requests for `POST /model/{id}/converse-stream`, and its
//! event stream as events.
//!
//! ```
//! use turnstream_bedrock::Bedrock;
//! use turnstream_core::{Request, Wire};
//!
//! let wire = Bedrock::new("us.anthropic.claude-haiku-4-5-20251001-v1:0", "us-east-1").key("the key");
//! let request = wire.encode(&Request::new().user("Say hi."))?;
//! assert_eq!(
//!     request.url.as_str(),
//!     "https://bedrock-runtime.us-east-1.amazonaws.com\
//!      /model/us.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream"
//! );
//! assert_eq!(request.body, r#"{"messages":[{"role":"user","content":[{"text":"Say hi."}]}]}"#);
//! # Ok::<(), turnstream_core::Error>(())
//! ```
//!
//! A Bedrock API key is sent as a bearer token. Without one the request goes out unsigned: `SigV4` of
//! turnstream's transport signs every attempt, with credentials of AWS and its own clock. This crate knows no
//! clock and no secret but the key.
//!
//! # What goes out
//!
//! - System texts become the top-level `system`. Messages of one role in a row are one message, and results
//!   come first in it. Blank texts are left out, because the provider refuses them.
//! - `inferenceConfig` holds the most tokens, temperature, top-p and stop texts. The request's metadata is
//!   `requestMetadata`; its output schema is `outputConfig.textFormat`, with the schema as a text.
//! - A reasoning effort is `outputConfig.effort`. For Anthropic's models it asks for adaptive thinking, too, and
//!   effort `none` turns thinking off; see [`Profile`]. Models from before adaptive thinking want a
//!   [budget](Options::thinking_budget) instead. Other models' own switches are [model fields](Options::model_field).
//! - There is no tool choice `none`. Where the conversation has no calls the tools are left out instead, which
//!   means the same; where it has, that is an error, because the provider then insists on tools.
//! - `toolUse.input` has to be an object. Arguments in a history that are none are sent as `{"input": ...}`.
//! - Ids of calls that came from another wire are made to fit, in call and result alike; Mistral's models take
//!   only nine letters and digits.
//! - Reasoning goes back with its signature; reasoning without one is left out, because Anthropic's models refuse
//!   it. See [`Bedrock::unsigned_reasoning`].
//! - Images, documents and sound go as bytes, or as an `s3://` address. Names of documents are made to fit and
//!   kept apart: the provider takes few characters and no name twice.
//!
//! # What comes in
//!
//! - Frames are told apart by the headers of their messages. The padding field `p` is left out.
//! - Text and reasoning begin with their first delta. A call is finished when its block stopped and the turn went
//!   on.
//! - `messageStop` gives the reason, and `metadata` behind it the usage and the end of the turn. A body that ends
//!   without `metadata`, or a connection that falls silent for the transport's grace, is a finished turn without
//!   usage. A `metadata` that came first counts, too.
//! - Calls of type `server_tool_use`, their results and the model's images are opaque parts, which go back as
//!   they came, and are shown as [`Provider`](turnstream_core::Event::Provider) events; so is everything of
//!   `metadata` but the usage (`metrics`, `trace`, `serviceTier`), and `additionalModelResponseFields`.
//! - Exceptions in the stream end the turn in an [`ErrorKind::Provider`](turnstream_core::ErrorKind::Provider)
//!   error whose code is the exception's name, for example `throttlingException`.
//! - The stop reasons `malformed_model_output` and `malformed_tool_use` are such errors, too; `guardrail_intervened`
//!   and `content_filtered` are the reason `content_filter`. What a guardrail traced is the `Provider` event `trace`.
//!
//! # What is not supported
//!
//! Raw bodies of vendors other than [Anthropic's](InvokeAnthropic), Converse without a stream, free-form tools, videos, search results and
//! guarded content of the caller's, addresses of images that are not `s3://`. There is no switch against parallel
//! calls. What the provider has and this crate does not name can be sent through [`Options::extra`].
//!
//! Sources: Amazon's API reference of `ConverseStream`, its service model in botocore, and the description of
//! the event-stream encoding in the Smithy specification.

mod decode;
mod encode;
mod error;
mod frame;
mod invoke;
mod options;
mod profile;

use secrecy::SecretString;
use turnstream_core::{Decode, Decoder, Endpoint, Error, KeyHeader, Limits, Request, Wire, WireRequest};

pub use frame::EventStreamFramer;
pub use invoke::InvokeAnthropic;
pub use options::{CacheLifetime, CachePoint, Guardrail, Options};
pub use profile::Profile;

/// The wire's name.
pub const WIRE: &str = "bedrock-converse";

/// The Converse wire: a model, and where it is asked.
///
/// Its `Debug` shows no key and no header value.
#[derive(Debug, Clone)]
pub struct Bedrock {
    model: String,
    region: String,
    profile: Option<Profile>,
    endpoint: Endpoint,
    /// Whether the caller has said where requests go; else the region does.
    has_base_url: bool,
    limits: Limits,
    unsigned_reasoning: bool,
}

impl Bedrock {
    /// A model of a region, without a key. The model is an id, an inference profile's id or an ARN.
    pub fn new(model: impl Into<String>, region: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            region: region.into(),
            profile: None,
            endpoint: Endpoint::new("", KeyHeader::Bearer),
            has_base_url: false,
            limits: Limits::default(),
            unsigned_reasoning: false,
        }
    }

    /// A model of the region in `AWS_REGION`, or else in `AWS_DEFAULT_REGION`, with the key in
    /// `AWS_BEARER_TOKEN_BEDROCK`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when a variable is not set or empty.
    pub fn from_env(model: impl Into<String>) -> Result<Self, Error> {
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"]
            .into_iter()
            .filter_map(|variable| std::env::var(variable).ok())
            .find(|region| !region.trim().is_empty())
            .ok_or_else(|| Error::config("the environment variable AWS_REGION is not set"))?;
        Self::new(model, region.trim()).key_from_env()
    }

    /// Sets the key from `AWS_BEARER_TOKEN_BEDROCK`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](turnstream_core::ErrorKind::Config) when the variable is not set or empty.
    pub fn key_from_env(self) -> Result<Self, Error> {
        Ok(Self { endpoint: self.endpoint.key_from_env("AWS_BEARER_TOKEN_BEDROCK")?, ..self })
    }

    /// Sets a Bedrock API key, sent as a bearer token. A signature of the transport's replaces it.
    pub fn key(self, key: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.key(key), ..self }
    }

    /// Sets the header in which the key is sent: gateways may want another one.
    pub fn key_header(self, key_header: KeyHeader) -> Self {
        Self { endpoint: self.endpoint.key_header(key_header), ..self }
    }

    /// Says whose model it is, where the model's id does not tell: that of an application's inference profile.
    pub fn profile(self, profile: Profile) -> Self {
        Self { profile: Some(profile), ..self }
    }

    /// Sets the base URL: a FIPS or VPC endpoint, a gateway. `model/{id}/converse-stream` is appended to its path,
    /// and its query is kept.
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        Self { endpoint: self.endpoint.base_url(base_url), has_base_url: true, ..self }
    }

    /// Adds a header. It replaces one of the wire's own of the same name; a header that carries a key
    /// replaces the key.
    pub fn header(self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        Self { endpoint: self.endpoint.header(name, value), ..self }
    }

    /// Sets how much of a reply is taken.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sends reasoning that came without a signature back, too. Anthropic's models refuse it, which is why it is
    /// left out by default.
    pub fn unsigned_reasoning(self, unsigned_reasoning: bool) -> Self {
        Self { unsigned_reasoning, ..self }
    }

    /// Whose model it is.
    fn model_profile(&self) -> Profile {
        self.profile.unwrap_or_else(|| Profile::of_model(&self.model))
    }

    /// Where requests go. China's regions have a domain of their own.
    fn address(&self) -> Result<Endpoint, Error> {
        if self.has_base_url {
            return Ok(self.endpoint.clone());
        }
        // It becomes a part of a host's name, and the key goes there.
        let region = &self.region;
        if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::config(format!(
                "`{region}` is not the name of a region, for example us-east-1"
            )));
        }
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        Ok(self.endpoint.clone().base_url(format!("https://bedrock-runtime.{region}.{domain}")))
    }
}

impl Wire for Bedrock {
    fn name(&self) -> &'static str {
        WIRE
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn encode(&self, request: &Request) -> Result<WireRequest, Error> {
        encode::encode(self, request)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        let converse = decode::Converse::new(self.limits);
        Box::new(Decoder::<EventStreamFramer, _>::new(decode::RULES, self.limits, converse))
    }

    fn refused(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Error {
        error::refused(status, headers, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(wire: &Bedrock) -> String {
        wire.encode(&Request::new().user("hi")).unwrap().url.into()
    }

    fn refusal(wire: &Bedrock) -> String {
        wire.encode(&Request::new().user("hi")).unwrap_err().message().to_owned()
    }

    #[test]
    fn no_secret_is_shown() {
        let wire = Bedrock::new("m", "us-east-1")
            .key("sk-SECRET-1")
            .header("x-api-key", "sk-SECRET-2")
            .base_url("https://h/v1?key=sk-SECRET-3");
        let request = wire.encode(&Request::new().user("hi")).unwrap();
        let shown = format!("{wire:?} {wire:#?} {request:?}");
        assert!(!shown.contains("SECRET"), "{shown}");
    }

    #[test]
    fn a_models_id_is_one_segment_of_the_path() {
        let table = [
            ("amazon.nova-lite-v1:0", "amazon.nova-lite-v1%3A0"),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/a b%",
                "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fa%20b%25",
            ),
            ("æ?#_~-", "%C3%A6%3F%23_~-"),
        ];
        for (model, segment) in table {
            assert_eq!(
                url(&Bedrock::new(model, "eu-north-1")),
                format!("https://bedrock-runtime.eu-north-1.amazonaws.com/model/{segment}/converse-stream")
            );
        }
        for model in ["", ".", ".."] {
            assert!(refusal(&Bedrock::new(model, "us-east-1")).contains("no name of a model"), "{model}");
        }
    }

    #[test]
    fn the_region_is_a_part_of_the_host_and_no_more() {
        assert!(
            url(&Bedrock::new("m", "cn-north-1"))
                .starts_with("https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/m/")
        );
        for region in ["", "h.example/", "us-east-1@h", "us east"] {
            assert!(refusal(&Bedrock::new("m", region)).contains("the name of a region"), "{region}");
        }
        let gateway = Bedrock::new("m", "").base_url("https://h/aws/?stage=1");
        assert_eq!(url(&gateway), "https://h/aws/model/m/converse-stream?stage=1");
    }
}
