//! A [`Conversation`]: messages in order, with ids that stay unique and calls that are all answered.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{
    message::{CallPart, Message, Part, ResultPart, Role},
    text::Text,
};

/// The messages of a conversation, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conversation {
    messages: Vec<Message>,
}

impl Conversation {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// The messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Appends a message. A call whose id stands in the conversation already gets a fresh one, and so does
    /// the result that answers it: name calls by the ids that the provider gave.
    pub fn push(&mut self, mut message: Message) {
        if message.role == Role::Assistant {
            self.push_reply(message);
            return;
        }
        let open = self.open_calls().into_iter().map(|call| (call.id.clone(), call.original_id.clone()));
        let mut open: Vec<_> = open.collect();
        for part in &mut message.parts {
            if let Part::Result(result) = part
                && let Some(id) = take_answered(&mut open, &result.call_id)
            {
                result.call_id = id;
            }
        }
        self.messages.push(message);
    }

    /// Appends a model's message and hands back the ids under which its calls stand now, in order:
    /// a call whose id occurred before has a fresh one.
    pub fn push_reply(&mut self, mut message: Message) -> Vec<Text> {
        let mut taken: HashSet<Text> =
            self.messages.iter().flat_map(Message::calls).map(|call| call.id.clone()).collect();
        let mut ids = Vec::new();
        for part in &mut message.parts {
            if let Part::Call(call) = part {
                if !taken.insert(call.id.clone()) {
                    let fresh = fresh(&call.id, &taken);
                    call.original_id = Some(std::mem::replace(&mut call.id, fresh));
                    taken.insert(call.id.clone());
                }
                ids.push(call.id.clone());
            }
        }
        self.messages.push(message);
        ids
    }

    /// The calls of the last model's message that no result answers yet.
    pub fn open_calls(&self) -> Vec<&CallPart> {
        let Some(position) = self.messages.iter().rposition(|message| message.role == Role::Assistant) else {
            return Vec::new();
        };
        let (_, tail) = self.messages.split_at(position);
        let Some((reply, after)) = tail.split_first() else { return Vec::new() };
        let answered: HashSet<&str> = after
            .iter()
            .flat_map(|message| &message.parts)
            .filter_map(|part| match part {
                Part::Result(result) => Some(result.call_id.as_str()),
                _ => None,
            })
            .collect();
        reply.calls().filter(|call| !answered.contains(call.id.as_str())).collect()
    }

    /// Makes a cut history sendable again: every call of the last reply that has no result is answered
    /// by an error result that says that the outcome is unknown. Does nothing where all are answered.
    pub fn close_open_calls(&mut self) {
        let results: Vec<Part> = self
            .open_calls()
            .into_iter()
            .map(|call| {
                let words = "The call was cancelled. Whether it had an effect is unknown.";
                let result = ResultPart::text(call.id.clone(), call.name.clone(), words).with_error();
                Part::Result(ResultPart { input: call.input, ..result })
            })
            .collect();
        if results.is_empty() {
            return;
        }
        // Results come first in the message that follows the calls, whatever else it says.
        let position = self.messages.iter().rposition(|message| message.role == Role::Assistant);
        let next = position.map_or(0, |position| position + 1);
        match self.messages.get_mut(next) {
            Some(message) => {
                let end = message.parts.iter().take_while(|part| matches!(part, Part::Result(_))).count();
                message.parts.splice(end..end, results);
            }
            None => self.messages.push(Message::new(Role::User, results)),
        }
    }
}

impl IntoIterator for Conversation {
    type Item = Message;
    type IntoIter = std::vec::IntoIter<Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.messages.into_iter()
    }
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages }
    }
}

impl Extend<Message> for Conversation {
    fn extend<T: IntoIterator<Item = Message>>(&mut self, messages: T) {
        for message in messages {
            self.push(message);
        }
    }
}

/// An id like `id` that is not taken: deterministic, so that call and result agree.
fn fresh(id: &str, taken: &HashSet<Text>) -> Text {
    // Counting from 2 as people do: the first call keeps the provider's id.
    (2_u64..)
        .map(|number| Text::from(format!("{id}_{number}")))
        .find(|candidate| !taken.contains(candidate))
        .expect("fewer than 2^64 ids are taken")
}

/// The open call that a result for `id` answers: the one of that id, or the first that had it and got a
/// fresh one.
fn take_answered(open: &mut Vec<(Text, Option<Text>)>, id: &str) -> Option<Text> {
    let same = open.iter().position(|(open, _)| open == id);
    let had_it = || open.iter().position(|(_, original)| original.as_deref() == Some(id));
    let position = same.or_else(had_it)?;
    Some(open.remove(position).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(ids: &[&str]) -> Message {
        let calls = ids.iter().map(|id| Part::Call(CallPart::new(*id, "f", "{}"))).collect();
        Message::new(Role::Assistant, calls)
    }

    #[test]
    fn a_repeated_id_gets_a_fresh_one_in_a_turn_and_across_turns() {
        let mut conversation = Conversation::new();
        assert_eq!(conversation.push_reply(reply(&["x:0", "x:0"])), ["x:0", "x:0_2"]);
        assert_eq!(conversation.push_reply(reply(&["x:0"])), ["x:0_3"]);
    }

    #[test]
    fn a_result_finds_its_call_though_the_id_is_a_fresh_one() {
        let mut conversation = Conversation::new();
        for _ in 0..2 {
            conversation.push(reply(&["x:0", "x:0"]));
            let results = ["first", "second"].map(|text| ResultPart::text("x:0", "f", text));
            conversation.push(Message::results(results));
            assert!(conversation.open_calls().is_empty());
        }
        let ids: Vec<_> =
            conversation.messages().iter().flat_map(Message::calls).map(|call| &*call.id).collect();
        assert_eq!(ids, ["x:0", "x:0_2", "x:0_3", "x:0_4"]);
    }

    #[test]
    fn a_result_too_many_answers_no_other_call() {
        let mut conversation = Conversation::new();
        conversation.push(reply(&["call", "call_2"]));
        conversation.push(Message::results(["call", "call"].map(|id| ResultPart::text(id, "f", "x"))));
        assert_eq!(conversation.open_calls().iter().map(|call| &*call.id).collect::<Vec<_>>(), ["call_2"]);
    }

    #[test]
    fn open_calls_are_closed_once_and_in_front_of_other_parts() {
        let mut conversation = Conversation::new();
        conversation.push(Message::user("go"));
        conversation.push(reply(&["a", "b"]));
        conversation.push(Message::results([ResultPart::text("a", "f", "A")]).with_part("go on"));
        conversation.close_open_calls();
        let once = conversation.clone();
        conversation.close_open_calls();
        assert_eq!(conversation, once);
        let last = conversation.messages().last().unwrap();
        let kinds: Vec<_> = last.parts.iter().map(|part| matches!(part, Part::Result(_))).collect();
        assert_eq!(kinds, [true, true, false]);
        assert!(conversation.open_calls().is_empty());
    }
}
