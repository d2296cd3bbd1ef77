//! Which call a piece belongs to.
//!
//! On this wire a call has an index, an id and a name, and each of them is missing, repeated or made up
//! anew on one server or another. [`Slots`] gives every call a number of its own, which is the ledger's key.
//!
//! | there is | it is |
//! |---|---|
//! | an index, nothing there yet | a new call |
//! | an index, a name, and an id that is not the call's | a new call in its place |
//! | an index and a name without an id | a new call if the old one holds one complete value and this one brings text; else more of the old one, and the name is ignored |
//! | an index, and none of these | more of the call at that index, whatever its id |
//! | no index, a name | a new call |
//! | no index, no name | more of the call with that id, else of the one that was spoken of last |

use std::collections::BTreeMap;

use turnstream_core::{Key, Ledger};

/// The calls of a turn by what the wire calls them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    by_index: BTreeMap<u64, usize>,
    /// The call that was spoken of last.
    last: Option<usize>,
    /// The one call of the old `function_call` form.
    legacy: Option<usize>,
}

/// What a piece says of its call. Empty ids and names are left out before.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    /// Whether it brings argument text that is not blank. Only asked of a piece with a name.
    pub(crate) has_text: bool,
}

#[derive(Debug, Default)]
struct Slot {
    id: String,
    is_named: bool,
}

impl Slots {
    /// The key of the call that a piece belongs to.
    pub(crate) fn resolve(&mut self, said: Said<'_>, ledger: &mut Ledger) -> Key {
        let known = match said.index {
            Some(index) => {
                let slot = self.by_index.get(&index).copied();
                slot.filter(|slot| !self.is_new_call(*slot, said, ledger))
            }
            None if said.name.is_some() => None,
            None => self.with_id(said.id).or(self.last),
        };
        let slot = known.unwrap_or_else(|| self.open());
        if let Some(index) = said.index
            && known.is_none()
        {
            self.by_index.insert(index, slot);
        }
        self.last = Some(slot);
        self.learn(slot, said);
        key(slot)
    }

    /// The key of the call of the old `function_call` form: there is at most one.
    pub(crate) fn legacy(&mut self) -> Key {
        let slot = self.legacy.unwrap_or_else(|| self.open());
        self.legacy = Some(slot);
        key(slot)
    }

    fn is_new_call(&self, slot: usize, said: Said<'_>, ledger: &mut Ledger) -> bool {
        // A call that has no name yet takes the first that comes.
        let Some(known) = self.slots.get(slot).filter(|known| known.is_named) else { return false };
        if said.name.is_none() {
            return false;
        }
        match said.id {
            Some(id) if !known.id.is_empty() => id != known.id,
            // Some servers repeat the name on every piece, the last and blank one too.
            _ => said.has_text && ledger.holds_one_value(&key(slot)),
        }
    }

    /// The latest call with an id. Calls that share one are told apart by which was spoken of last.
    fn with_id(&self, id: Option<&str>) -> Option<usize> {
        let id = id?;
        let has_id = |slot: &usize| self.slots.get(*slot).is_some_and(|known| known.id == id);
        self.last.filter(has_id).or_else(|| self.slots.iter().rposition(|known| known.id == id))
    }

    fn open(&mut self) -> usize {
        self.slots.push(Slot::default());
        self.slots.len() - 1
    }

    fn learn(&mut self, slot: usize, said: Said<'_>) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        if slot.id.is_empty() {
            slot.id.push_str(said.id.unwrap_or_default());
        }
        slot.is_named |= said.name.is_some();
    }
}

fn key(slot: usize) -> Key {
    Key::Index(slot as u64)
}

#[cfg(test)]
mod tests {
    use turnstream_core::{Announcement, Limits};

    use super::*;
    use crate::decode::RULES;

    /// Speaks of calls one after the other, and gives the keys back: `(index, id, name, text)`.
    fn keys(pieces: &[(Option<u64>, &str, &str, &str)]) -> Vec<u64> {
        let mut slots = Slots::default();
        let mut ledger = Ledger::new(RULES, Limits::default());
        let mut speak = |&(index, id, name, text): &(Option<u64>, &str, &str, &str)| {
            let (id, name) =
                (Some(id).filter(|id| !id.is_empty()), Some(name).filter(|name| !name.is_empty()));
            let key = slots.resolve(Said { index, id, name, has_text: !text.trim().is_empty() }, &mut ledger);
            ledger.announce(key.clone(), Announcement::new(id, name));
            ledger.append(&key, &text.into());
            let Key::Index(slot) = key else { panic!("a slot has a number") };
            slot
        };
        pieces.iter().map(&mut speak).collect()
    }

    #[test]
    fn the_index_decides_where_there_is_one() {
        let pieces = [
            (Some(0), "a", "f", ""),
            (Some(3), "b", "f", ""),
            (Some(0), "", "", "{"),
            (Some(3), "", "", "{"),
        ];
        assert_eq!(keys(&pieces), [0, 1, 0, 1]);
    }

    #[test]
    fn an_index_taken_again_with_name_and_new_id_is_a_new_call() {
        let pieces = [
            (Some(0), "a", "f", "{}"),
            (Some(0), "b", "g", "{"),
            (Some(0), "", "", "}"),
            (Some(0), "b", "g", " "),
        ];
        assert_eq!(keys(&pieces), [0, 1, 1, 1]);
    }

    #[test]
    fn a_new_id_without_a_name_continues_the_call_at_its_index() {
        assert_eq!(
            keys(&[(Some(0), "a", "f", "{"), (Some(0), "b", "", "}"), (Some(0), "c", "", " ")]),
            [0, 0, 0]
        );
    }

    #[test]
    fn a_repeated_name_is_a_new_call_only_behind_a_complete_value() {
        let repeated = [(Some(0), "", "f", "{"), (Some(0), "", "f", "}"), (Some(0), "", "f", "")];
        assert_eq!(keys(&repeated), [0, 0, 0]);
        let again = [(Some(0), "", "f", "{}"), (Some(0), "", "f", "{}"), (Some(0), "", "f", "\n")];
        assert_eq!(keys(&again), [0, 1, 1]);
    }

    #[test]
    fn an_id_or_a_name_may_come_late() {
        let pieces = [(Some(0), "", "", "{"), (Some(0), "", "f", "}"), (Some(0), "a", "", "")];
        assert_eq!(keys(&pieces), [0, 0, 0]);
    }

    #[test]
    fn without_an_index_a_name_opens_and_all_else_continues() {
        let pieces = [
            (None, "a", "f", "{"),
            (None, "x-1", "", "}"),
            (None, "b", "f", "{"),
            (None, "", "", "}"),
            (None, "a", "", " "),
            (None, "x-2", "", " "),
        ];
        assert_eq!(keys(&pieces), [0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn an_index_on_the_first_piece_only_is_enough() {
        assert_eq!(keys(&[(Some(7), "", "f", "{"), (None, "a", "", "}")]), [0, 0]);
    }
}
