//! [`Recorder`]: a wire that keeps what passes.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::HeaderMap;
use tokio::time::Instant;
use turnstream_core::{Decode, End, Error, Event, Events, Head, RawJson, Request, Wire, WireRequest};

use crate::recorded::{
    RecordedChunk, RecordedEnd, RecordedRequest, RecordedTurn, Secrets, mask_request_headers,
    mask_response_headers, mask_url,
};

/// A wire that keeps the last turn that passed through it, bytes and times, as a [`RecordedTurn`].
///
/// Give it to a client instead of the wire. Clones share what they keep. A turn is recorded to the end of its
/// body, which may be a little later than its last event would have come without a recorder. Turns are
/// recorded one at a time; of a turn that is retried the last attempt is kept.
///
/// The keys of the wire are masked, and so are those that a client finds out for an attempt
/// (`Client::authorize`). Name secrets that neither knows with [`mask`](Self::mask), in case a reply echoes them.
///
/// ```
/// use turnstream::{Client, Request, openai_chat::OpenAiChat};
/// use turnstream_testing::{Recorder, ReplayServer, openai_chat::Reply};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// # let server = ReplayServer::start([Reply::new().text(["On its way."])]).await?;
/// # let base_url = server.base_url();
/// let recorder = Recorder::new(OpenAiChat::new("gpt-5").key("sk-1234567").base_url(base_url));
/// let model = Client::new(recorder.clone());
/// let mut turn = model.stream(&Request::new().user("Where is order A-4471?"));
/// while turn.next().await.is_some() {}
/// let recorded = recorder.turn(turn.head()).expect("a reply came");
/// // recorded.save("order-1")?;   // order-1.json and order-1.body
/// assert_eq!(recorded.body(), Reply::new().text(["On its way."]).body());
/// assert!(!recorded.to_json().contains("sk-1234567"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Recorder<W> {
    wire: W,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// The last turn.
    draft: Option<Arc<Mutex<Draft>>>,
    /// Secrets that the wire does not know.
    secrets: Secrets,
}

/// What has been kept of a turn.
struct Draft {
    request: RecordedRequest,
    secrets: Secrets,
    asked: Instant,
    /// When the head of the reply came.
    answered: Option<Instant>,
    /// The status and headers of a reply that was refused.
    refused: Option<(u16, HeaderMap)>,
    chunks: Vec<(Instant, Vec<u8>)>,
    end: Option<(Instant, RecordedEnd)>,
}

impl<W: Wire> Recorder<W> {
    /// Records what passes through this wire.
    pub fn new(wire: W) -> Self {
        Self { wire, kept: Arc::default() }
    }

    /// Masks a secret that the wire does not know, wherever a reply echoes it. A short one may be found in
    /// innocent words, too.
    pub fn mask(&self, secret: &str) {
        lock(&self.kept).secrets.add(secret);
    }

    /// The last turn, as far as it has come. `head` is that of its stream, [`TurnStream::head`]. `None` if no
    /// turn was asked for, or no reply came.
    ///
    /// [`TurnStream::head`]: turnstream_core::TurnStream::head
    pub fn turn(&self, head: Option<&Head>) -> Option<RecordedTurn> {
        let kept = lock(&self.kept);
        let draft = lock(kept.draft.as_ref()?);
        let answered = draft.answered?;
        let (status, headers) = match &draft.refused {
            Some((status, headers)) => (*status, mask_response_headers(headers)),
            None => {
                head.map_or((200, Vec::new()), |head| (head.status, mask_response_headers(&head.headers)))
            }
        };
        let (ended, end) = draft.end.unwrap_or((Instant::now(), RecordedEnd::Cut));
        Some(RecordedTurn {
            wire: self.wire.name().to_owned(),
            request: draft.request.clone(),
            status,
            headers,
            head_after: answered - draft.asked,
            chunks: draft.masked_chunks(answered, &kept.secrets),
            end_after: ended - answered,
            end,
        })
    }

    fn begin(&self, request: &WireRequest) {
        let secrets = Secrets::of(request);
        let mut body = request.body.to_vec();
        secrets.mask(&mut body);
        let body = String::from_utf8_lossy(&body);
        let draft = Draft {
            request: RecordedRequest {
                url: mask_url(&request.url),
                headers: mask_request_headers(request),
                // A body that is no JSON is kept as a string of it.
                body: RawJson::parse(&body).unwrap_or_else(|_| serde_json::Value::from(body).into()),
            },
            secrets,
            asked: Instant::now(),
            answered: None,
            refused: None,
            chunks: Vec::new(),
            end: None,
        };
        lock(&self.kept).draft = Some(Arc::new(Mutex::new(draft)));
    }

    /// The draft of the turn whose reply begins now.
    fn answered(&self) -> Option<Arc<Mutex<Draft>>> {
        let draft = lock(&self.kept).draft.clone()?;
        {
            let mut draft = lock(&draft);
            draft.answered = Some(Instant::now());
            draft.chunks.clear();
            (draft.refused, draft.end) = (None, None);
        }
        Some(draft)
    }
}

/// Shows the wire's name only: what is kept may hold secrets.
impl<W: Wire> fmt::Debug for Recorder<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recorder").field("wire", &self.wire.name()).finish_non_exhaustive()
    }
}

impl<W: Wire> Wire for Recorder<W> {
    fn name(&self) -> &'static str {
        self.wire.name()
    }

    fn model(&self) -> &str {
        self.wire.model()
    }

    fn encode(&self, request: &Request) -> Result<WireRequest, Error> {
        let encoded = self.wire.encode(request)?;
        self.begin(&encoded);
        Ok(encoded)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        let decoder = self.wire.decoder();
        match self.answered() {
            Some(draft) => Box::new(Tap { decoder, draft, held: Events::new(), is_over: false }),
            None => decoder,
        }
    }

    fn refused(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
        if let Some(draft) = self.answered() {
            let mut draft = lock(&draft);
            let now = Instant::now();
            draft.refused = Some((status, headers.clone()));
            draft.chunks.push((now, body.to_vec()));
            draft.end = Some((now, RecordedEnd::Whole));
        }
        self.wire.refused(status, headers, body)
    }

    fn other_form(&self, request: &WireRequest, error: &Error) -> Option<WireRequest> {
        let other = self.wire.other_form(request, error)?;
        self.begin(&other);
        Some(other)
    }

    fn sent(&self, request: &WireRequest) {
        // Credentials of one attempt are secrets, too.
        let draft = lock(&self.kept).draft.clone();
        if let Some(draft) = draft {
            let mut draft = lock(&draft);
            draft.request.headers = mask_request_headers(request);
            draft.secrets = Secrets::of(request);
        }
        self.wire.sent(request);
    }
}

/// A decoder that keeps what it is fed.
struct Tap {
    decoder: Box<dyn Decode>,
    draft: Arc<Mutex<Draft>>,
    /// The turn's last event, held back until the body has ended: with it the transport would stop reading.
    held: Events,
    is_over: bool,
}

impl Decode for Tap {
    fn feed(&mut self, bytes: &[u8], events: &mut Events) {
        lock(&self.draft).chunks.push((Instant::now(), bytes.to_vec()));
        let mut decoded = Events::new();
        self.decoder.feed(bytes, &mut decoded);
        for event in decoded {
            self.is_over |= matches!(event, Ok(Event::TurnFinished(_)) | Err(_));
            if self.is_over { self.held.push(event) } else { events.push(event) }
        }
    }

    fn end(&mut self, end: End, events: &mut Events) {
        let how = match &end {
            End::Closed => RecordedEnd::Whole,
            End::Broken(_) => RecordedEnd::Cut,
        };
        lock(&self.draft).end.get_or_insert((Instant::now(), how));
        self.held.by_ref().for_each(|event| events.push(event));
        self.decoder.end(end, events);
    }

    fn is_settled(&self) -> bool {
        self.is_over || self.decoder.is_settled()
    }
}

impl Draft {
    /// The chunks without the secrets that they echo, also where a cut goes through one.
    fn masked_chunks(&self, answered: Instant, more: &Secrets) -> Vec<RecordedChunk> {
        let mut body: Vec<u8> = self.chunks.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        self.secrets.mask(&mut body);
        more.mask(&mut body);
        let mut rest = body.into_iter();
        let chunks = self.chunks.iter().map(|(came, bytes)| RecordedChunk {
            after: *came - answered,
            bytes: rest.by_ref().take(bytes.len()).collect(),
        });
        chunks.collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
