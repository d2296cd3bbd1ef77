//! The laws that hold for every list of events, whatever the wire and the input.

use std::{collections::BTreeMap, fmt};

use turnstream_core::{
    AbortReason, CallAborted, CallFinished, CallIndex, CallStarted, Error, Event, InputKind, PartIndex,
    Reason, TurnFinished, is_json,
};

use super::line;

/// Checks the laws that every turn keeps: a start first, one end, last; calls announced once, in order, with
/// id and name; fragments of open calls only, which add up to the arguments exactly; finished arguments blank
/// or one JSON value; no call left open; a reason that fits the calls; and the same events after a way
/// through JSON.
///
/// # Panics
///
/// When one does not hold. The message names the law and the event.
pub fn check_laws(events: &[Result<Event, Error>]) {
    let broken = broken_law(events);
    assert!(broken.is_none(), "{}", broken.unwrap_or_default());
}

/// The first law that the events break, and where; `None` if they keep them all. See [`check_laws`].
pub fn broken_law(events: &[Result<Event, Error>]) -> Option<String> {
    let mut turn = Turn::default();
    for (index, event) in events.iter().enumerate() {
        let checked = match event {
            _ if turn.has_ended => Err("nothing comes after the end".to_owned()),
            Ok(event) => turn.event(event),
            Err(error) => turn.error(error),
        };
        if let Err(law) = checked {
            return Some(format!("a law is broken: {law}\n  at event {index}: {}", line(event)));
        }
    }
    turn.ended().err().map(|law| format!("a law is broken: {law}"))
}

#[derive(Default)]
struct Turn {
    has_started: bool,
    has_ended: bool,
    has_output: bool,
    has_refusal: bool,
    calls: Vec<Call>,
    parts: BTreeMap<PartIndex, Part>,
}

struct Call {
    id: String,
    name: String,
    input: InputKind,
    text: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    Finished,
    Aborted(AbortReason),
}

struct Part {
    kind: Kind,
    is_finished: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Text,
    Reasoning,
    Refusal,
    Call,
    Opaque,
}

impl Turn {
    fn event(&mut self, event: &Event) -> Result<(), String> {
        let json = serde_json::to_string(event).unwrap_or_default();
        let is_same = serde_json::from_str::<Event>(&json).is_ok_and(|again| again == *event);
        law(is_same, format_args!("an event is the same after a way through JSON"))?;
        let is_start = matches!(event, Event::TurnStarted(_));
        law(is_start != self.has_started, format_args!("`turn_started` is the first event, and only that"))?;
        self.has_started = true;
        self.has_output |=
            !matches!(event, Event::TurnStarted(_) | Event::Provider(_) | Event::TurnFinished(_));
        match event {
            Event::TextDelta(delta) => self.prose(delta.part, Kind::Text, &delta.text),
            Event::ReasoningDelta(delta) => self.prose(delta.part, Kind::Reasoning, &delta.text),
            Event::RefusalDelta(delta) => {
                self.has_refusal = true;
                self.prose(delta.part, Kind::Refusal, &delta.text)
            }
            Event::CallStarted(call) => self.call_started(call),
            Event::CallArgumentFragment(fragment) => {
                let text = fragment.fragment.as_raw_str();
                law(!text.is_empty(), format_args!("a fragment is not empty"))?;
                self.open_call(fragment.call)?.text.push_str(text);
                Ok(())
            }
            Event::CallFinished(call) => self.call_finished(call),
            Event::CallAborted(call) => self.call_aborted(call),
            Event::PartFinished(finished) => {
                let new = Part { kind: Kind::Opaque, is_finished: false };
                let part = self.parts.entry(finished.part).or_insert(new);
                let is_again = std::mem::replace(&mut part.is_finished, true);
                law(!is_again, format_args!("a part is finished once"))
            }
            Event::TurnFinished(finished) => self.turn_finished(finished),
            _ => Ok(()),
        }
    }

    fn error(&mut self, error: &Error) -> Result<(), String> {
        self.has_ended = true;
        law(!error.message().is_empty(), format_args!("an error says something"))?;
        let (is_partial, has_output) = (error.partial(), self.has_output);
        law(
            is_partial == has_output,
            format_args!("an error is partial if output had been given out, which is {has_output} here"),
        )?;
        self.abort_reasons_are(&[AbortReason::Truncated, AbortReason::Error, AbortReason::Malformed])
    }

    fn turn_finished(&mut self, finished: &TurnFinished) -> Result<(), String> {
        self.has_ended = true;
        let reason = finished.reason;
        // A wire can say of a single call that it was cut, in a turn that was not.
        self.abort_reasons_are(match reason {
            Reason::Refusal => &[AbortReason::Refusal, AbortReason::Truncated, AbortReason::Malformed],
            Reason::ContentFilter => {
                &[AbortReason::ContentFilter, AbortReason::Truncated, AbortReason::Malformed]
            }
            Reason::Length => &[AbortReason::Length, AbortReason::Truncated, AbortReason::Malformed],
            _ => &[AbortReason::Truncated, AbortReason::Malformed],
        })?;
        law(
            !self.has_refusal || reason == Reason::Refusal,
            format_args!("the reason of a turn with a refusal is `refusal`"),
        )?;
        let waits =
            |call: &Call| matches!(call.state, State::Finished | State::Aborted(AbortReason::Malformed));
        law(
            !matches!(reason, Reason::Stop | Reason::Other) || !self.calls.iter().any(waits),
            format_args!("the reason of a turn whose calls wait for their results is `tool_calls`"),
        )?;
        let numbers: Vec<u32> = self.parts.keys().map(|part| part.0).collect();
        law(
            numbers.iter().copied().eq(0..u32::try_from(numbers.len()).unwrap_or(u32::MAX)),
            format_args!("the parts of a whole turn are numbered without gaps, and these are {numbers:?}"),
        )
    }

    fn ended(&self) -> Result<(), String> {
        law(self.has_ended, format_args!("a turn ends in a `turn_finished` or in an error"))?;
        let open = self.calls.iter().filter(|call| call.state == State::Open);
        let open: Vec<&str> = open.map(|call| call.id.as_str()).collect();
        law(open.is_empty(), format_args!("every call is finished or aborted, and {open:?} are not"))
    }

    fn abort_reasons_are(&self, allowed: &[AbortReason]) -> Result<(), String> {
        self.calls.iter().try_for_each(|call| {
            let fits = !matches!(call.state, State::Aborted(reason) if !allowed.contains(&reason));
            law(
                fits,
                format_args!("the reasons of aborted calls fit the end, and that of {:?} does not", call.id),
            )
        })
    }

    fn prose(&mut self, part: PartIndex, kind: Kind, text: &str) -> Result<(), String> {
        law(!text.is_empty(), format_args!("a delta is not empty"))?;
        self.part(part, kind)
    }

    fn call_started(&mut self, call: &CallStarted) -> Result<(), String> {
        let number = usize::try_from(call.call.0).unwrap_or(usize::MAX);
        law(number == self.calls.len(), format_args!("calls are numbered as they are announced"))?;
        law(!call.id.is_empty() && !call.name.is_empty(), format_args!("a call has an id and a name"))?;
        law(!self.parts.contains_key(&call.part), format_args!("a call is a part of its own"))?;
        let (id, name) = (call.id.to_string(), call.name.to_string());
        self.calls.push(Call { id, name, input: call.input, text: String::new(), state: State::Open });
        self.part(call.part, Kind::Call)
    }

    fn call_finished(&mut self, finished: &CallFinished) -> Result<(), String> {
        let call = self.open_call(finished.call)?;
        call.state = State::Finished;
        call.is_named(&finished.id, &finished.name)?;
        let text = finished.arguments.as_str();
        law(
            call.text == text,
            format_args!("the arguments are the fragments, and those are {:?}", call.text),
        )?;
        let is_whole = call.input == InputKind::Text || text.trim().is_empty() || is_json(text);
        law(is_whole, format_args!("finished arguments are blank or one JSON value"))
    }

    fn call_aborted(&mut self, aborted: &CallAborted) -> Result<(), String> {
        let call = self.open_call(aborted.call)?;
        call.state = State::Aborted(aborted.reason);
        call.is_named(&aborted.id, &aborted.name)?;
        let text = aborted.partial.as_raw_str();
        law(
            call.text == text,
            format_args!("what is partial are the fragments, and those are {:?}", call.text),
        )
    }

    fn open_call(&mut self, number: CallIndex) -> Result<&mut Call, String> {
        let index = usize::try_from(number.0).unwrap_or(usize::MAX);
        let call = self.calls.get_mut(index).filter(|call| call.state == State::Open);
        call.ok_or_else(|| "a call is announced before and not ended when more comes of it".to_owned())
    }

    fn part(&mut self, index: PartIndex, kind: Kind) -> Result<(), String> {
        let part = self.parts.entry(index).or_insert(Part { kind, is_finished: false });
        law(part.kind == kind, format_args!("a part is of one kind, and this one is {:?}", part.kind))?;
        law(!part.is_finished, format_args!("nothing comes for a part that is finished"))
    }
}

impl Call {
    fn is_named(&self, id: &str, name: &str) -> Result<(), String> {
        let is_so = self.id == id && self.name == name;
        law(is_so, format_args!("a call keeps its id and its name, {:?} and {:?}", self.id, self.name))
    }
}

fn law(holds: bool, law: fmt::Arguments<'_>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(law.to_string()) }
}

#[cfg(test)]
mod tests {
    use turnstream_core::{CallIndex, ErrorKind, TextDelta, TurnStarted};

    use super::*;
    use crate::events::Reply;

    fn a_call() -> Vec<Result<Event, Error>> {
        Reply::new().call_raw("c1", "lookup_order", "{\"id\":1}").events()
    }

    #[test]
    fn each_broken_law_is_named() {
        let start = || Ok(Event::TurnStarted(TurnStarted::default()));
        let text = |part, text: &str| Ok(Event::TextDelta(TextDelta::new(PartIndex(part), text)));
        let end = |reason| Ok(Event::TurnFinished(TurnFinished::new(reason)));
        let error = |partial| Err(Error::new(ErrorKind::Truncated, "cut").with_partial(partial));
        let finished = CallFinished::new(CallIndex(0), "c1", "lookup_order", "{\"id\":1}");
        let [mut unannounced, mut short, mut open, mut twice, mut stopped] = [(); 5].map(|()| a_call());
        drop(unannounced.remove(1));
        drop(short.remove(2));
        drop(open.remove(3));
        twice.insert(4, Ok(Event::CallFinished(finished)));
        stopped[4] = end(Reason::Stop);
        for (events, law) in [
            (vec![], "a turn ends in"),
            (vec![start(), text(0, "a")], "a turn ends in"),
            (vec![start(), start()], "`turn_started` is the first event"),
            (vec![text(0, "a")], "`turn_started` is the first event"),
            (vec![start(), end(Reason::Stop), text(0, "a")], "nothing comes after the end"),
            (vec![start(), text(0, "")], "a delta is not empty"),
            (vec![start(), text(1, "a"), end(Reason::Stop)], "without gaps, and these are [1]"),
            (vec![start(), text(0, "a"), error(false)], "output had been given out, which is true here"),
            (vec![start(), error(true)], "output had been given out, which is false here"),
            (unannounced, "a call is announced before"),
            (short, "the arguments are the fragments, and those are \"\""),
            (open, "every call is finished or aborted, and [\"c1\"] are not"),
            (twice, "a call is announced before"),
            (stopped, "is `tool_calls`"),
        ] {
            let broken = broken_law(&events).unwrap();
            assert!(broken.contains(law), "{broken}");
        }
        assert_eq!(broken_law(&a_call()), None);
    }

    #[test]
    fn finished_arguments_that_are_not_json_are_found() {
        let mut events = Reply::new().call_raw("c1", "t", "{\"id\":").cut().events();
        events.truncate(3);
        events.push(Ok(Event::CallFinished(CallFinished::new(CallIndex(0), "c1", "t", "{\"id\":"))));
        assert!(broken_law(&events).unwrap().contains("blank or one JSON value"));
    }
}
