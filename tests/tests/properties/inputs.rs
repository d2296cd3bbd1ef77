//! What the properties are tried on.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use turnstream::{
    Error, Event,
    openai_chat::{OpenAiChat, Profile},
    wire::{Decode, Wire},
};
use turnstream_tests::{TestedWire, corpora, entries, root};

use crate::{bodies::Frames, events::decode};

/// Up to this size every byte of a body is tried. A debug build is some twenty times slower.
pub(crate) const EVERY_BYTES: usize = if cfg!(debug_assertions) { 3 << 10 } else { 16 << 10 };

/// A body of one wire.
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) wire: TestedWire,
    pub(crate) body: Vec<u8>,
    pub(crate) frames: Frames,
    /// The events of the whole body.
    pub(crate) whole: Vec<Result<Event, Error>>,
    is_mistral: bool,
}

impl Input {
    pub(crate) fn decoder(&self) -> Box<dyn Decode> {
        match self.is_mistral {
            true => OpenAiChat::new("m").profile(Profile::Mistral).decoder(),
            false => self.wire.decoder(),
        }
    }

    /// The events of another body for the same decoder.
    pub(crate) fn decode(&self, body: &[u8]) -> Vec<Result<Event, Error>> {
        decode(self.decoder(), body)
    }

    /// Whether the body is so long that only a sample of its bytes is tried.
    pub(crate) fn is_long(&self) -> bool {
        self.body.len() > EVERY_BYTES
    }

    pub(crate) fn new(name: String, wire: TestedWire, body: Vec<u8>) -> Self {
        Self::with_profile(name, wire, body, false)
    }

    fn with_profile(name: String, wire: TestedWire, body: Vec<u8>, is_mistral: bool) -> Self {
        let frames = Frames::of(wire.framing(), &body);
        let mut input = Self { name, wire, body, frames, whole: Vec::new(), is_mistral };
        input.whole = input.decode(&input.body);
        input
    }
}

/// All inputs of this build, the longest first.
pub(crate) fn inputs() -> &'static [Input] {
    static INPUTS: LazyLock<Vec<Input>> = LazyLock::new(|| {
        let mut inputs = fixtures();
        let is_all = env::var("TURNSTREAM_PROPERTIES").is_ok_and(|value| value == "all");
        if is_all || !cfg!(debug_assertions) {
            inputs.extend(cases());
            inputs.extend(recordings());
        }
        inputs.sort_by_key(|input| std::cmp::Reverse(input.body.len()));
        inputs
    });
    &INPUTS
}

fn fixtures() -> Vec<Input> {
    let mut inputs = Vec::new();
    for wire in TestedWire::ALL {
        for folder in ["fixtures", "fixtures/recorded"] {
            let folder = root().join(folder).join(wire.name());
            inputs.extend(bodies_in(&folder, wire, false));
        }
    }
    inputs
}

fn recordings() -> Vec<Input> {
    let Some(folder) = corpus("streams") else { return Vec::new() };
    let mistral = bodies_in(&folder.join("mistral"), TestedWire::OpenAiChat, true);
    let wires = TestedWire::ALL.into_iter();
    wires.flat_map(|wire| bodies_in(&folder.join(wire.name()), wire, false)).chain(mistral).collect()
}

fn cases() -> Vec<Input> {
    let Some(folder) = corpus("cases") else { return Vec::new() };
    let mut inputs = Vec::new();
    for case in entries(&folder).unwrap() {
        let format = fs::read_to_string(case.join("format")).unwrap_or_default();
        let Some(wire) = TestedWire::from_name(format.trim()) else { continue };
        let body = case.join("input").with_extension(wire.extension());
        if body.exists() {
            inputs.push(Input::new(name_of(&case), wire, fs::read(&body).unwrap()));
        }
    }
    inputs
}

fn bodies_in(folder: &Path, wire: TestedWire, is_mistral: bool) -> Vec<Input> {
    let paths = entries(folder).unwrap_or_default().into_iter();
    let is_body =
        |path: &PathBuf| path.extension().is_some_and(|end| end == wire.extension() || end == "body");
    let bodies = paths.filter(is_body);
    bodies
        .map(|path| Input::with_profile(name_of(&path), wire, fs::read(&path).unwrap(), is_mistral))
        .collect()
}

/// A folder of the conformance corpora; where it is not, that is said.
fn corpus(name: &str) -> Option<PathBuf> {
    let folder = corpora(name);
    if folder.is_none() {
        let skipped = format!("skipped: the corpus `{name}`, which is not here\n");
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
    }
    folder
}

/// The last two parts of a path.
fn name_of(path: &Path) -> String {
    let mut names: Vec<_> = path.iter().rev().take(2).map(|name| name.to_string_lossy()).collect();
    names.reverse();
    names.join("/")
}
