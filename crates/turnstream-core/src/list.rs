//! [`List`]: a list of a reply, as long as one may be.

use std::{fmt, marker::PhantomData, ops::Deref, slice, vec};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

/// A list of a reply whose elements are read into a struct of several fields. It has at most 65,536 elements: one
/// that is longer is an error. A frame of nothing but `{},{},{}` would take many times its length in memory.
#[derive(Debug)]
pub struct List<T>(Vec<T>);

impl<T> List<T> {
    /// Reads what is left of a list.
    ///
    /// # Errors
    ///
    /// When an element is not what it should be, or there are too many.
    pub fn read<'de, S: SeqAccess<'de>>(mut sequence: S) -> Result<Self, S::Error>
    where
        T: Deserialize<'de>,
    {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            if elements.len() == MOST_ELEMENTS {
                return Err(S::Error::custom(format_args!("a list has more than {MOST_ELEMENTS} elements")));
            }
            elements.push(element);
        }
        Ok(Self(elements))
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'l, T> IntoIterator for &'l List<T> {
    type Item = &'l T;
    type IntoIter = slice::Iter<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, sequence: S) -> Result<Self::Value, S::Error> {
        List::read(sequence)
    }
}

/// More than a turn has parts, by far.
const MOST_ELEMENTS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_up_to_its_most_elements_and_is_an_error_beyond() {
        let list = |elements: usize| format!("[{}0]", "0,".repeat(elements - 1));
        for elements in [1, 2, MOST_ELEMENTS] {
            assert_eq!(serde_json::from_str::<List<u8>>(&list(elements)).unwrap().len(), elements);
        }
        let error = serde_json::from_str::<List<u8>>(&list(MOST_ELEMENTS + 1)).unwrap_err().to_string();
        assert!(error.starts_with("a list has more than 65536 elements"), "{error}");
        assert_eq!(serde_json::from_str::<List<u8>>("[]").unwrap().len(), 0);
        assert!(serde_json::from_str::<List<u8>>("{}").is_err());
    }
}
