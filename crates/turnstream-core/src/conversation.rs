//! A [`Conversation`]: messages in order, with ids that stay unique and calls that are all answered.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::{
    message::{CallPart, Message, Part, ResultPart, Role},
    text::Text,
};

/// The messages of a conversation, oldest first.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conversation {
    messages: Vec<Message>,
    /// The ids of all calls, once one was asked for: a reply is appended in the time that it takes itself.
    #[serde(skip)]
    ids: Option<Ids>,
}

/// The ids that are taken, each with the number that the next fresh one made of it may have.
struct Ids(HashMap<Text, u64>);

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
        let taken = self.ids.get_or_insert_with(|| Ids::of(&self.messages));
        let mut ids = Vec::new();
        for part in &mut message.parts {
            if let Part::Call(call) = part {
                if let Some(fresh) = taken.take(&call.id) {
                    call.original_id = Some(std::mem::replace(&mut call.id, fresh));
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
        Self { messages, ids: None }
    }
}

/// A copy is mostly made to be sent or written down: it finds the ids anew when it has to.
impl Clone for Conversation {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), ids: None }
    }
}

/// The ids follow from the messages.
impl PartialEq for Conversation {
    fn eq(&self, other: &Self) -> bool {
        self.messages == other.messages
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Conversation").field("messages", &self.messages).finish()
    }
}

impl Extend<Message> for Conversation {
    fn extend<T: IntoIterator<Item = Message>>(&mut self, messages: T) {
        for message in messages {
            self.push(message);
        }
    }
}

impl Ids {
    fn of(messages: &[Message]) -> Self {
        Self(messages.iter().flat_map(Message::calls).map(|call| (call.id.clone(), FIRST_FRESH)).collect())
    }

    /// Takes an id. If it is taken already, takes a fresh one made of it and hands that back: deterministic, so
    /// that call and result agree.
    fn take(&mut self, id: &Text) -> Option<Text> {
        let Some(next) = self.0.get(id).copied() else {
            self.0.insert(id.clone(), FIRST_FRESH);
            return None;
        };
        let (number, fresh) = (next..)
            .map(|number| (number, Text::from(format!("{id}_{number}"))))
            .find(|(_, candidate)| !self.0.contains_key(candidate))
            .expect("fewer than 2^64 ids are taken");
        self.0.insert(id.clone(), number + 1);
        self.0.insert(fresh.clone(), FIRST_FRESH);
        Some(fresh)
    }
}

/// The open call that a result for `id` answers: the one of that id, or the first that had it and got a
/// fresh one.
fn take_answered(open: &mut Vec<(Text, Option<Text>)>, id: &str) -> Option<Text> {
    let same = open.iter().position(|(open, _)| open == id);
    let had_it = || open.iter().position(|(_, original)| original.as_deref() == Some(id));
    let position = same.or_else(had_it)?;
    Some(open.remove(position).0)
}

/// Counting from 2 as people do: the first call keeps the provider's id.
const FIRST_FRESH: u64 = 2;

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
    fn an_id_that_was_made_fresh_before_is_known_after_json_and_from_messages() {
        let mut conversation = Conversation::new();
        conversation.push_reply(reply(&["x", "x_2", "x"]));
        let json = serde_json::to_string(&conversation).unwrap();
        let mut read: Conversation = serde_json::from_str(&json).unwrap();
        assert_eq!(read, conversation);
        let mut made = Conversation::from(conversation.messages().to_vec());
        for known in [&mut conversation, &mut read, &mut made] {
            assert_eq!(known.push_reply(reply(&["x", "x_2", "x_3"])), ["x_4", "x_2_2", "x_3_2"]);
        }
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
