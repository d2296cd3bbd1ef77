//! The model's side of a run: asking, reading the turn, and taking it into the conversation.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use turnstream_core::{Error, ErrorKind, Event, Reason, ToolChoice, TurnStream};

use super::Run;
use crate::{
    event::{RunEvent, TurnEvent, TurnStep},
    outcome::End,
    reply::Reply,
    trace,
    turns::Call,
};

impl Run {
    pub(super) fn ask(&mut self) {
        // A choice that forces a call would force one for ever.
        if let Some(choice) = &mut self.request.tool_choice
            && choice.is_forced()
            && self.turns.calls_made > 0
            && !self.settings.keeps_tool_choice
        {
            *choice = ToolChoice::Auto;
        }
        self.turns.asked();
        self.offer.turn_began();
        self.is_busy = false;
        self.events.push_back(RunEvent::TurnBegan(TurnStep::new(self.turns.turn(), None)));
        let span = trace::turn(&self.span, &*self.model);
        let entered = span.enter();
        let is_last = self.turns.asked >= self.settings.bounds.turns;
        let stream = match is_last && self.settings.last_turn_without_tools && !self.request.tools.is_empty()
        {
            true => {
                let choice = self.request.tool_choice.replace(ToolChoice::None);
                let stream = self.model.stream(&self.request);
                self.request.tool_choice = choice;
                stream
            }
            false => self.model.stream(&self.request),
        };
        drop(entered);
        self.reply = Some(Reply::new(stream, span));
    }

    pub(super) fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(reply) = &mut self.reply else { return Poll::Pending };
        let stream = &mut reply.stream;
        match ready!(reply.span.in_scope(|| Pin::new(stream).poll_next(context))) {
            Some(Ok(event)) => self.take(event),
            Some(Err(error)) => self.end_with(End::Failed(error)),
            None => {
                let message = "the turn's events stopped before its end";
                self.end_with(End::Failed(Error::new(ErrorKind::Truncated, message)));
            }
        }
        Poll::Ready(())
    }

    pub(super) fn poll_tail(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(tail) = &mut self.tail {
            while ready!(Pin::new(&mut *tail).poll_next(context)).is_some() {}
            self.tail = None;
        }
        Poll::Ready(())
    }

    fn take(&mut self, event: Event) {
        let turn = self.turns.turn();
        let ended = self.reply.as_mut().and_then(|reply| reply.take(&event));
        if let Some(reply) = &self.reply {
            trace::event(&reply.span, &event);
        }
        if let Some(call) = ended {
            let tool = self.offer.tool(&call.name);
            let is_sequential = tool.is_some_and(|tool| tool.is_sequential());
            let is_eager =
                tool.is_some_and(|tool| tool.can_be_eager() && (tool.is_eager() || self.settings.is_eager));
            self.turns.call_came(Call { is_sequential, is_eager, ..call });
            self.is_busy = false;
        }
        let reason = match &event {
            Event::TurnFinished(finished) => Some(finished.reason),
            _ => None,
        };
        self.events.push_back(RunEvent::Turn(TurnEvent::new(turn, event)));
        if reason.is_some() {
            self.tail = self.replied(reason);
            self.events.push_back(RunEvent::TurnEnded(TurnStep::new(turn, reason)));
            self.is_unsaved = true;
        }
    }

    /// The turn is over, well or not: what came of it goes into the conversation.
    pub(super) fn replied(&mut self, reason: Option<Reason>) -> Option<TurnStream> {
        let (turn, stream) = self.reply.take()?.into_turn();
        self.text = turn.text();
        let usage = turn.usage;
        // A message without a part could not be sent.
        let is_empty = turn.parts.is_empty();
        let ids = match is_empty {
            true => Vec::new(),
            false => self.request.conversation.push_reply(turn.into_message()),
        };
        self.is_cut = reason.is_none() && !is_empty && ids.is_empty();
        self.turns.replied(reason, usage, ids, &self.settings.bounds);
        self.is_busy = false;
        Some(stream)
    }
}
