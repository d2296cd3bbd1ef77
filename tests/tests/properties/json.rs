//! JSON text, with the place of every value in it: edits leave all else as it stands, spelling and order.

use std::ops::Range;

use turnstream::wire::is_json;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Json<'t> {
    pub(crate) text: &'t str,
    pub(crate) span: Range<usize>,
    pub(crate) content: Content<'t>,
}

#[derive(Debug, Clone)]
pub(crate) enum Content<'t> {
    /// Names as they are spelled.
    Object(Vec<(&'t str, Json<'t>)>),
    Array(Vec<Json<'t>>),
    Scalar,
}

impl<'t> Json<'t> {
    /// The one value that a text is.
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        is_json(text).then(|| Reader { text, at: 0 }.value())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json<'t>> {
        match &self.content {
            Content::Object(members) => {
                members.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// A value some objects further down.
    pub(crate) fn at(&self, names: &[&str]) -> Option<&Json<'t>> {
        names.iter().try_fold(self, |value, name| value.get(name))
    }

    pub(crate) fn elements(&self) -> &[Json<'t>] {
        match &self.content {
            Content::Array(elements) => elements,
            _ => &[],
        }
    }

    /// A string's value.
    pub(crate) fn string(&self) -> Option<String> {
        serde_json::from_str(self.text).ok()
    }

    pub(crate) fn number(&self) -> Option<u64> {
        self.text.parse().ok()
    }

    /// Visits every object, with its path: `.choices[].delta`, and `""` for the outermost.
    pub(crate) fn each_object(&self, path: &str, visit: &mut dyn FnMut(&str, &Json<'t>)) {
        match &self.content {
            Content::Object(members) => {
                visit(path, self);
                for (name, value) in members {
                    value.each_object(&format!("{path}.{name}"), visit);
                }
            }
            Content::Array(elements) => {
                for value in elements {
                    value.each_object(&format!("{path}[]"), visit);
                }
            }
            Content::Scalar => {}
        }
    }
}

/// Replacements in a text.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    edits: Vec<(Range<usize>, String)>,
}

impl Edits {
    pub(crate) fn replace(&mut self, value: &Json<'_>, new: impl Into<String>) {
        self.edits.push((value.span.clone(), new.into()));
    }

    /// Adds a member (`"name":value`) to an object, as its first or as its last.
    pub(crate) fn add_member(&mut self, object: &Json<'_>, member: &str, is_first: bool) {
        let Content::Object(members) = &object.content else { return };
        let place = if is_first { object.span.start + 1 } else { object.span.end - 1 };
        let member = match (members.is_empty(), is_first) {
            (true, _) => member.to_owned(),
            (false, true) => format!("{member},"),
            (false, false) => format!(",{member}"),
        };
        self.edits.push((place..place, member));
    }

    /// Takes a member out of an object.
    pub(crate) fn remove_member(&mut self, object: &Json<'_>, name: &str) {
        let Content::Object(members) = &object.content else { return };
        let Some(index) = members.iter().position(|(known, _)| *known == name) else { return };
        let value = &members[index].1;
        let range = match (index, members.get(index + 1)) {
            (0, None) => object.span.start + 1..object.span.end - 1,
            // From the quote before this name to the one before the next.
            (0, Some((next, _))) => object.span.start + 1..object.span.start + offset(object, next) - 1,
            (index, _) => members[index - 1].1.span.end..value.span.end,
        };
        self.edits.push((range, String::new()));
    }

    /// The text with the edits in it; `None` if there are none.
    pub(crate) fn apply(mut self, text: &str) -> Option<String> {
        if self.edits.is_empty() {
            return None;
        }
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let (mut edited, mut start) = (String::with_capacity(text.len() * 2), 0);
        for (range, new) in self.edits {
            edited.push_str(&text[start..range.start]);
            edited.push_str(&new);
            start = range.end;
        }
        edited.push_str(&text[start..]);
        Some(edited)
    }
}

/// How far into an object's text one of its names stands, which is lent from that text.
fn offset(object: &Json<'_>, name: &str) -> usize {
    name.as_ptr().addr() - object.text.as_ptr().addr()
}

/// Reads text that is known to be JSON.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn value(&mut self) -> Json<'t> {
        self.skip_space();
        let start = self.at;
        let content = match self.peek() {
            b'{' => Content::Object(self.list(|reader| {
                let name = reader.string();
                reader.skip_space();
                reader.at += 1;
                (name, reader.value())
            })),
            b'[' => Content::Array(self.list(Self::value)),
            b'"' => {
                self.string();
                Content::Scalar
            }
            _ => {
                let is_end = |byte: &u8| b" \t\n\r,]}".contains(byte);
                let rest = &self.text.as_bytes()[start..];
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                Content::Scalar
            }
        };
        Json { text: &self.text[start..self.at], span: start..self.at, content }
    }

    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut list = Vec::new();
        self.at += 1;
        self.skip_space();
        while !matches!(self.peek(), b'}' | b']') {
            list.push(element(self));
            self.skip_space();
            if self.peek() == b',' {
                self.at += 1;
                self.skip_space();
            }
        }
        self.at += 1;
        list
    }

    /// The inside of a string.
    fn string(&mut self) -> &'t str {
        self.at += 1;
        let start = self.at;
        while self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        &self.text[start..self.at - 1]
    }

    fn skip_space(&mut self) {
        while matches!(self.text.as_bytes().get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes()[self.at]
    }
}

#[test]
fn edits_leave_all_else_as_it_stands() {
    let text = r#" {"a" : [1.0, {"b":"\"}"}], "c":{} , "d":null}"#;
    let json = Json::parse(text).unwrap();
    assert_eq!(json.get("a").unwrap().elements()[1].get("b").unwrap().string().unwrap(), "\"}");
    let mut edits = Edits::default();
    edits.replace(json.get("d").unwrap(), "7");
    edits.add_member(json.get("c").unwrap(), "\"x\":1", true);
    edits.add_member(&json.get("a").unwrap().elements()[1], "\"x\":2", false);
    edits.remove_member(&json, "a");
    assert_eq!(Edits::default().apply(text), None);
    // The member that was taken out had an edit inside: edits do not overlap.
    edits.edits.retain(|(range, _)| range.start != json.get("a").unwrap().elements()[1].span.end - 1);
    assert_eq!(edits.apply(text).unwrap(), r#" {"c":{"x":1} , "d":7}"#);
}
