//! [`Fallback`]: several models, of which the next is asked when the one before could not answer.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;

use crate::{
    error::{Error, ErrorKind},
    event::Event,
    model::{Head, Model, TurnSource, TurnStream},
    request::{Request, Warning},
};

/// Several models, of which the next is asked when the one before could not answer.
///
/// A model that fails, with whatever error, **before it has said anything** gives way to the next one: a start and
/// [`Provider`](Event::Provider) events are not something, and are held back until something comes. Once output has
/// been given out an error is the turn's end, for two models' halves are no answer. The last model's error is the
/// turn's. Each turn begins with the first model again; the turn's own
/// [`TurnStarted`](crate::TurnStarted) says who answers it.
///
/// A client's own retries come first: give the models that have another behind them few. A turn costs a copy of the
/// request while there is another model. Its [`attempts`](TurnStream::attempts) are those of all models together.
///
/// ```
/// use turnstream_core::{Fallback, Model};
///
/// # fn example(first: impl Model + 'static, second: impl Model + 'static) -> impl Model {
/// Fallback::new(first).or(second)
/// # }
/// ```
#[derive(Clone)]
pub struct Fallback {
    first: Arc<dyn Model>,
    others: Vec<Arc<dyn Model>>,
}

impl Fallback {
    /// Only this model so far.
    pub fn new(first: impl Model + 'static) -> Self {
        Self { first: Arc::new(first), others: Vec::new() }
    }

    /// Asks this one if those before could not answer.
    pub fn or(mut self, model: impl Model + 'static) -> Self {
        self.others.push(Arc::new(model));
        self
    }
}

impl Model for Fallback {
    fn stream(&self, request: &Request) -> TurnStream {
        let stream = self.first.stream(request);
        if self.others.is_empty() {
            return stream;
        }
        TurnStream::new(FallbackTurn {
            stream,
            request: request.clone(),
            others: self.others.clone().into(),
            held: VecDeque::new(),
            has_said: false,
            attempts: 0,
        })
    }

    /// The first model's.
    fn name(&self) -> &str {
        self.first.name()
    }

    /// The first model's.
    fn provider(&self) -> Option<&str> {
        self.first.provider()
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = std::iter::once(&self.first).chain(&self.others).map(|model| model.name());
        formatter.debug_list().entries(names).finish()
    }
}

struct FallbackTurn {
    stream: TurnStream,
    request: Request,
    /// Those that have not been asked.
    others: VecDeque<Arc<dyn Model>>,
    /// What the model has sent without saying anything.
    held: VecDeque<Result<Event, Error>>,
    /// Whether what is held goes out.
    has_said: bool,
    /// How many requests the models before this one have sent.
    attempts: u32,
}

impl FallbackTurn {
    fn take(&mut self, event: Option<Result<Event, Error>>) {
        let has_failed = match &event {
            Some(Ok(event)) => {
                let is_nothing = matches!(event, Event::TurnStarted(_) | Event::Provider(_));
                self.has_said |= !is_nothing || self.held.len() >= MOST_HELD;
                false
            }
            Some(Err(_)) | None => true,
        };
        if has_failed
            && !self.has_said
            && let Some(next) = self.others.pop_front()
        {
            self.held.clear();
            self.attempts = self.attempts();
            self.stream = next.stream(&self.request);
            return;
        }
        self.has_said |= has_failed;
        let cut = || Err(Error::new(ErrorKind::Truncated, "the turn's events stopped before its end"));
        self.held.push_back(event.unwrap_or_else(cut));
    }
}

impl Stream for FallbackTurn {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.has_said {
                return match self.held.pop_front() {
                    Some(event) => Poll::Ready(Some(event)),
                    None => Pin::new(&mut self.stream).poll_next(context),
                };
            }
            let event = ready!(Pin::new(&mut self.stream).poll_next(context));
            self.take(event);
        }
    }
}

impl TurnSource for FallbackTurn {
    fn head(&self) -> Option<&Head> {
        self.stream.head()
    }

    fn warnings(&self) -> &[Warning] {
        self.stream.warnings()
    }

    /// Those of all models that were asked.
    fn attempts(&self) -> u32 {
        self.attempts.saturating_add(self.stream.attempts())
    }
}

/// A stream that sends more than this without saying anything is not waited for any longer.
const MOST_HELD: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{
        event::{PartIndex, ProviderEvent, Reason, TextDelta, TurnFinished, TurnStarted},
        raw_json::RawJson,
    };

    /// Says the same each time, and counts.
    struct Fake(&'static str, Vec<Result<Event, ErrorKind>>, Arc<Mutex<Vec<&'static str>>>);

    impl Model for Fake {
        fn stream(&self, _: &Request) -> TurnStream {
            self.2.lock().unwrap().push(self.0);
            let events = self.1.clone().into_iter();
            TurnStream::from_events(events.map(|event| event.map_err(|kind| Error::new(kind, "down"))))
        }

        fn name(&self) -> &str {
            self.0
        }
    }

    fn started(model: &str) -> Result<Event, ErrorKind> {
        Ok(Event::TurnStarted(TurnStarted::new(None, Some(model.into()))))
    }

    fn text(text: &str) -> Result<Event, ErrorKind> {
        Ok(Event::TextDelta(TextDelta::new(PartIndex(0), text)))
    }

    fn stop() -> Result<Event, ErrorKind> {
        Ok(Event::TurnFinished(TurnFinished::new(Reason::Stop)))
    }

    fn news() -> Result<Event, ErrorKind> {
        Ok(Event::Provider(ProviderEvent::new("ping", RawJson::parse("{}").unwrap())))
    }

    /// Who was asked, and what came out.
    fn play(
        models: [Vec<Result<Event, ErrorKind>>; 2],
    ) -> (Vec<&'static str>, Vec<Result<Event, ErrorKind>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let [first, second] = models;
        let model = Fallback::new(Fake("a", first, asked.clone())).or(Fake("b", second, asked.clone()));
        let mut stream = model.stream(&Request::new().user("hi"));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut events = Vec::new();
        while let Poll::Ready(Some(event)) = Pin::new(&mut stream).poll_next(&mut context) {
            events.push(event.map_err(|error| error.kind()));
        }
        let asked = asked.lock().unwrap().clone();
        (asked, events)
    }

    #[test]
    fn the_next_is_asked_when_nothing_was_said_and_what_was_held_of_the_first_is_gone() {
        let answer = vec![started("b"), text("Hi."), stop()];
        let failures =
            [vec![Err(ErrorKind::Overloaded)], vec![started("a"), news(), Err(ErrorKind::Provider)], vec![]];
        for failure in failures {
            assert_eq!(play([failure, answer.clone()]), (vec!["a", "b"], answer.clone()));
        }
    }

    #[test]
    fn a_model_that_has_said_something_is_not_replaced() {
        let cut = vec![started("a"), text("Hi"), Err(ErrorKind::Truncated)];
        assert_eq!(play([cut.clone(), vec![stop()]]), (vec!["a"], cut));
        let answer = vec![started("a"), news(), text("Hi."), stop()];
        assert_eq!(play([answer.clone(), vec![stop()]]), (vec!["a"], answer));
        let silent = vec![started("a"), stop()];
        assert_eq!(play([silent.clone(), vec![text("Hi.")]]), (vec!["a"], silent), "silence is an answer");
    }

    #[test]
    fn the_last_models_error_is_the_turns() {
        let (asked, events) =
            play([vec![Err(ErrorKind::RateLimited)], vec![started("b"), Err(ErrorKind::Server)]]);
        assert_eq!((asked, events), (vec!["a", "b"], vec![started("b"), Err(ErrorKind::Server)]));
        let (_, events) = play([vec![Err(ErrorKind::RateLimited)], vec![started("b")]]);
        assert_eq!(events, [started("b"), Err(ErrorKind::Truncated)]);
    }

    #[test]
    fn the_requests_of_all_models_are_counted() {
        struct Counted(std::vec::IntoIter<Result<Event, Error>>, u32);
        impl Stream for Counted {
            type Item = Result<Event, Error>;

            fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Poll::Ready(self.0.next())
            }
        }
        impl TurnSource for Counted {
            fn attempts(&self) -> u32 {
                self.1
            }
        }
        struct Asked(u32, ErrorKind);
        impl Model for Asked {
            fn stream(&self, _: &Request) -> TurnStream {
                TurnStream::new(Counted(vec![Err(Error::new(self.1, "down"))].into_iter(), self.0))
            }

            fn name(&self) -> &str {
                "asked"
            }
        }
        let model = Fallback::new(Asked(3, ErrorKind::Server)).or(Asked(2, ErrorKind::Overloaded));
        let mut stream = model.stream(&Request::new().user("hi"));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Some(Err(error))) = Pin::new(&mut stream).poll_next(&mut context) else {
            panic!("no error came")
        };
        assert_eq!((error.kind(), stream.attempts()), (ErrorKind::Overloaded, 5));
    }

    #[test]
    fn a_stream_that_never_says_anything_is_not_kept_for_ever() {
        let mut endless: Vec<_> = std::iter::repeat_with(news).take(1000).collect();
        endless.push(Err(ErrorKind::Provider));
        assert_eq!(play([endless.clone(), vec![stop()]]), (vec!["a"], endless));
    }
}
