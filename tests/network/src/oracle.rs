//! [`Oracle`]: what must come of a plan. It knows the wire's decoder, and nothing of the transport.

use std::{ops::RangeInclusive, sync::Arc};

use turnstream::{
    Error, ErrorKind, Event,
    wire::{End, Events},
};
use turnstream_testing::conformance;
use turnstream_tests::TestedWire;

use crate::{
    clients::MAX_ATTEMPTS,
    fixtures::{Fixture, Fixtures},
    plan::{Fault, Plan},
};

/// What a turn gives.
pub type Item = Result<Event, Error>;

/// What must come of a turn.
#[derive(Debug)]
pub struct Want {
    /// Everything, the end among it.
    pub items: Vec<Item>,
    /// How many requests are sent.
    pub attempts: u32,
}

/// Says what must come of a plan.
#[derive(Debug, Clone)]
pub struct Oracle {
    fixtures: Arc<Fixtures>,
}

impl Oracle {
    /// For these fixtures.
    pub fn new(fixtures: Arc<Fixtures>) -> Self {
        Self { fixtures }
    }

    /// What must come of this plan; `None` if its fixture is not known.
    pub fn want(&self, plan: &Plan) -> Option<Want> {
        let fixture = self.fixtures.get(plan.fixture)?;
        let mut attempts = 1;
        loop {
            let (items, is_retried) = match attempts <= plan.failing {
                true => Self::attempt(fixture, plan),
                false => Self::whole(fixture),
            };
            if !is_retried || attempts == MAX_ATTEMPTS {
                let is_document = matches!(fixture.body.first(), Some(b'{' | b'['));
                let stands_alone = is_document && items.len() == 1;
                let items = items.into_iter().map(|item| with_status(item, stands_alone)).collect();
                return Some(Want { items, attempts });
            }
            attempts += 1;
        }
    }

    /// Whether these items are what comes of a body that is cut at one of these bytes, and of nothing else.
    pub fn is_cut(
        &self,
        fixture: &Fixture,
        at: RangeInclusive<usize>,
        kind: ErrorKind,
        got: &[Item],
    ) -> bool {
        at.rev().any(|at| {
            let (items, _) = cut(fixture, at, kind);
            difference(&items, got).is_none()
        })
    }

    fn whole(fixture: &Fixture) -> (Vec<Item>, bool) {
        Self::ended(decoded(fixture.wire, &fixture.body, End::Closed))
    }

    /// What one attempt gives to which the fault happens, and whether another one follows it.
    fn attempt(fixture: &Fixture, plan: &Plan) -> (Vec<Item>, bool) {
        let before = fixture.body.get(..plan.at).unwrap_or(&fixture.body);
        let alone = |error: Error, is_retried: bool| (vec![Err(error)], is_retried);
        match plan.fault {
            Fault::Whole | Fault::SlowChunks | Fault::Held | Fault::ErrorInStream | Fault::Dropped => {
                Self::whole(fixture)
            }
            Fault::Refused | Fault::ResetInHead => alone(Error::new(ErrorKind::Connect, ""), true),
            Fault::SilentHead => alone(Error::new(ErrorKind::FirstByteTimeout, ""), true),
            Fault::RateLimited | Fault::RateLimitedSoon => {
                alone(Error::new(ErrorKind::RateLimited, "").with_status(429), true)
            }
            Fault::RateLimitedLong => alone(Error::new(ErrorKind::RateLimited, "").with_status(429), false),
            Fault::ServerError | Fault::ServerErrorSoon => {
                alone(Error::new(ErrorKind::Server, "").with_status(500), true)
            }
            Fault::Overloaded | Fault::OverloadedSoon => {
                alone(Error::new(ErrorKind::Overloaded, "").with_status(529), true)
            }
            Fault::Html | Fault::Gzip | Fault::GzipUndeclared => {
                alone(Error::new(ErrorKind::NotAStream, "").with_status(200), false)
            }
            Fault::ResetInBody | Fault::EarlyClose => cut(fixture, plan.at, ErrorKind::Truncated),
            Fault::CloseDelimited => Self::ended(decoded(fixture.wire, before, End::Closed)),
            Fault::Stall => cut(fixture, plan.at, ErrorKind::IdleTimeout),
            Fault::MalformedFrame => {
                let mut events = Events::new();
                fixture.wire.decoder().feed(before, &mut events);
                let mut items: Vec<Item> = events.collect();
                if items.iter().any(is_end) {
                    return Self::ended(items);
                }
                // The ledger closes the parts that were open: what it says of them is the decoder's.
                items = decoded(fixture.wire, &[before, fixture.damage()].concat(), End::Closed);
                let is_right =
                    matches!(items.last(), Some(Err(error)) if error.kind() == ErrorKind::Malformed);
                if !is_right {
                    items.push(Err(Error::new(ErrorKind::Malformed, "the decoder should have said so")));
                }
                (items, false)
            }
        }
    }

    fn ended(items: Vec<Item>) -> (Vec<Item>, bool) {
        let may_get_better = |error: &Error| !error.partial() && error.is_retryable();
        let is_retried = matches!(items.last(), Some(Err(error)) if may_get_better(error));
        (items, is_retried)
    }
}

/// What comes of a body that breaks after so many bytes.
fn cut(fixture: &Fixture, at: usize, kind: ErrorKind) -> (Vec<Item>, bool) {
    let before = fixture.body.get(..at).unwrap_or(&fixture.body);
    let mut decoder = fixture.wire.decoder();
    decoder.feed(before, &mut Events::new());
    let end = match kind {
        // A turn whose reason has come is finished after a short grace.
        ErrorKind::IdleTimeout if decoder.is_settled() => End::Closed,
        _ => End::Broken(Error::new(kind, "")),
    };
    Oracle::ended(decoded(fixture.wire, before, end))
}

/// What a decoder makes of a body that ends so.
pub fn decoded(wire: TestedWire, body: &[u8], end: End) -> Vec<Item> {
    let mut decoder = wire.decoder();
    let mut events = Events::new();
    decoder.feed(body, &mut events);
    decoder.end(end, &mut events);
    events.collect()
}

/// Where two turns differ, in words; `None` if they do not. Errors are the same if their kind, their code, their
/// status and what they say about output are: their messages are for people.
pub fn difference(want: &[Item], got: &[Item]) -> Option<String> {
    let is_same = |want: &Item, got: &Item| match (want, got) {
        (Ok(want), Ok(got)) => want == got,
        (Err(want), Err(got)) => {
            (want.kind(), want.status(), want.partial()) == (got.kind(), got.status(), got.partial())
                // The shape of a refusal's body is the wire's, and tested there.
                && (want.status().is_some() || want.code() == got.code())
        }
        _ => false,
    };
    let same = want.iter().zip(got).take_while(|(want, got)| is_same(want, got)).count();
    if same == want.len() && same == got.len() {
        return None;
    }
    let line = |items: &[Item]| items.get(same).map_or("nothing".to_owned(), conformance::line);
    let end = got.last().map_or("nothing".to_owned(), conformance::line);
    Some(format!("item {same} should be {} and is {}; the turn ends with {end}", line(want), line(got)))
}

/// What stands in place of a stream has the status of its head.
fn with_status(item: Item, stands_alone: bool) -> Item {
    item.map_err(|error| match error.kind() {
        ErrorKind::NotAStream => error.with_status(200),
        ErrorKind::Provider if stands_alone => error.with_status(200),
        _ => error,
    })
}

fn is_end(item: &Item) -> bool {
    matches!(item, Ok(Event::TurnFinished(_)) | Err(_))
}
