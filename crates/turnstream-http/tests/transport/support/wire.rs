use turnstream_core::{
    Announcement, BodyEnd, Closing, Decode, Endpoint, Error, ErrorEnvelope, ErrorKind, Frame, Interpret,
    JsonText, Key, KeyHeader, Ledger, Lesson, Limits, PartIndex, RawJson, Reason, Request, Rules, SseDecoder,
    Warning, Wire, WireRequest, reexports::http::HeaderMap,
};

/// A wire whose frames are a word and its argument: `data: text Hello`.
pub(crate) struct Lines {
    endpoint: Endpoint,
    /// The body of the other form of every request, if there is one.
    other_body: Option<&'static str>,
}

impl Lines {
    pub(crate) fn new(base_url: &str) -> Self {
        let lines = Self::keyless(base_url);
        Self { endpoint: lines.endpoint.key("sk-SECRET-1".to_owned()), ..lines }
    }

    pub(crate) fn keyless(base_url: &str) -> Self {
        Self { endpoint: Endpoint::new(base_url.to_owned(), KeyHeader::Bearer), other_body: None }
    }

    pub(crate) fn key_header(self, key_header: KeyHeader) -> Self {
        Self { endpoint: self.endpoint.key_header(key_header), ..self }
    }

    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        Self { endpoint: self.endpoint.header(name, value.to_owned()), ..self }
    }

    pub(crate) fn other_body(self, body: &'static str) -> Self {
        Self { other_body: Some(body), ..self }
    }
}

impl Wire for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn model(&self) -> &str {
        "m-1"
    }

    fn encode(&self, request: &Request) -> Result<WireRequest, Error> {
        let encoded = self.endpoint.post("turn", &[("x-wire", "lines")], request)?;
        Ok(encoded.with_warnings(vec![Warning::new("top_p", "it has none")]))
    }

    fn decoder(&self) -> Box<dyn Decode> {
        let rules = Rules::new("lines", Closing::Marker, BodyEnd::FinishesIfClean);
        Box::new(SseDecoder::new(rules, Limits::new(), Words::default()))
    }

    fn refused(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
        turnstream_core::refused(status, headers, body)
    }

    fn other_form(&self, request: &WireRequest, error: &Error) -> Option<WireRequest> {
        assert!(error.status().is_some_and(|status| (400..500).contains(&status)));
        let mut other = request.clone();
        other.body = self.other_body?.into();
        Some(other)
    }
}

#[derive(Default)]
struct Words {
    part: Option<PartIndex>,
}

impl Interpret for Words {
    type Hot = ();

    fn frame<'f>(
        &mut self,
        frame: Frame<'f>,
        ledger: &mut Ledger,
    ) -> Result<Option<Lesson<'f, ()>>, turnstream_core::BadFrame> {
        let (word, rest) = frame.data.split_once(' ').unwrap_or((frame.data, ""));
        let key = Key::Index(0);
        match word {
            "start" => ledger.turn_started(Some(rest), None),
            "text" => {
                let part = *self.part.get_or_insert_with(|| ledger.part_began());
                ledger.text(part, &JsonText::from(rest));
            }
            "call" => ledger.announce(key, Announcement::new(Some("call_1"), Some(rest))),
            "fragment" => ledger.append(&key, &JsonText::from(rest)),
            "close" => ledger.close(&key),
            "reason" => ledger.reason(Reason::Stop, rest),
            "error" => ledger.fail(said(Error::new(ErrorKind::Provider, "said so").with_code(rest))),
            "end" => ledger.turn_ended(),
            other => ledger.provider(other, RawJson::of(rest).unwrap()),
        }
        Ok(None)
    }

    fn error_body(&self, envelope: ErrorEnvelope) -> Error {
        said(envelope.into_error(ErrorKind::Provider))
    }
}

fn said(error: Error) -> Error {
    let is_overload = error.code() == Some("overloaded");
    error.with_retryable(is_overload)
}
