//! Recordings as the command serves them: which answers which request, and how fast.

use std::{
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use turnstream_testing::{ReceivedRequest, RecordedTurn, Recording};

/// How many times as fast a recording can be served: slower, nobody would see the end, and what is faster is `fast`.
const TIMES: RangeInclusive<f64> = 0.001..=1000.0;

/// Recordings, in the order of the command line.
#[derive(Debug)]
pub(crate) struct Recordings {
    entries: Vec<Entry>,
    pace: Pace,
    /// Whether each is served once only.
    once: bool,
}

#[derive(Debug)]
struct Entry {
    name: String,
    turn: RecordedTurn,
    is_served: bool,
}

/// How fast a recording is served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// What its pauses are multiplied by.
    factor: f64,
}

impl Recordings {
    /// Reads recordings; of a folder, all that are in it, however deep.
    pub(crate) fn load(paths: &[PathBuf], pace: Pace, once: bool) -> Result<Self> {
        let mut entries = Vec::new();
        for path in paths {
            let files = if path.is_dir() { bodies(path)? } else { vec![path.clone()] };
            for file in files {
                let turn = RecordedTurn::load(&file)?;
                entries.push(Entry { name: name(&file).display().to_string(), turn, is_served: false });
            }
        }
        ensure!(!entries.is_empty(), "there is no recording to serve");
        Ok(Self { entries, pace, once })
    }

    /// The wire of the first recording.
    pub(crate) fn wire(&self) -> &str {
        self.entries.first().map_or("", |entry| &entry.turn.wire)
    }

    /// The name of the recording that answers a request, and the reply: the next one that was recorded at such
    /// a path, and after the last the first again.
    pub(crate) fn answer(&mut self, request: &ReceivedRequest) -> (Option<&str>, Recording) {
        let fits = |entry: &Entry| task(&entry.turn.request.url) == task(&request.path);
        let next = |entries: &[Entry]| entries.iter().position(|entry| !entry.is_served && fits(entry));
        let mut index = next(&self.entries);
        if index.is_none() && !self.once {
            self.entries.iter_mut().filter(|entry| fits(entry)).for_each(|entry| entry.is_served = false);
            index = next(&self.entries);
        }
        let is_known = self.entries.iter().any(fits);
        match index.and_then(|index| self.entries.get_mut(index)) {
            Some(entry) => {
                entry.is_served = true;
                (Some(&entry.name), Recording::from(&entry.turn).scaled(self.pace.factor))
            }
            None if is_known => (None, refusal("all recordings of this path have been served")),
            None => (None, refusal("no recording was made at this path")),
        }
    }
}

/// An answer that no client asks for again.
fn refusal(message: &str) -> Recording {
    let body = json!({ "error": { "type": "no_recording", "code": "no_recording", "message": message } });
    Recording::new(body.to_string()).status(410).header("content-type", "application/json")
}

impl FromStr for Pace {
    type Err = anyhow::Error;

    fn from_str(pace: &str) -> Result<Self> {
        let factor = match pace {
            "recorded" => 1.0,
            "fast" => 0.0,
            _ => {
                let times = pace.strip_prefix('x').and_then(|times| times.parse::<f64>().ok());
                match times.filter(|times| TIMES.contains(times)) {
                    Some(times) => 1.0 / times,
                    None => bail!("a pace is `recorded`, `fast`, or from `x0.001` (slower) to `x1000`"),
                }
            }
        };
        Ok(Self { factor })
    }
}

/// The bodies of the recordings in a folder and the folders in it, by name.
fn bodies(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut bodies = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        // A link is not followed: it may lead back here.
        if entry.file_type()?.is_dir() {
            bodies.extend(self::bodies(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "body") {
            bodies.push(path);
        }
    }
    bodies.sort();
    Ok(bodies)
}

/// The path without the ending of either file.
pub(crate) fn name(path: &Path) -> PathBuf {
    let is_ours = path.extension().is_some_and(|extension| extension == "body" || extension == "json");
    if is_ours { path.with_extension("") } else { path.to_owned() }
}

/// What the end of an address asks for, without the model that some wires have there.
fn task(url: &str) -> &str {
    let path = url.split('?').next().unwrap_or_default();
    path.rsplit(['/', ':']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_word_or_a_number_of_times() {
        let factor = |pace: &str| pace.parse::<Pace>().ok().map(|pace| pace.factor);
        assert_eq!(
            ["recorded", "fast", "x2", "x0.5", "x1000", "x0.001"].map(factor),
            [Some(1.0), Some(0.0), Some(0.5), Some(2.0), Some(0.001), Some(1000.0)]
        );
        assert_eq!(
            ["", "x", "x0", "x-1", "xinf", "xNaN", "x1e-300", "x1e300", "x0.0009", "x1001", "2", "slow"]
                .map(factor),
            [None; 12]
        );
    }

    #[test]
    fn a_path_asks_for_the_same_under_any_prefix() {
        assert_eq!(task("https://h/v1/chat/completions?api-version=1"), task("/chat/completions"));
        assert_eq!(task("https://h/v1beta/models/m:streamGenerateContent?alt=sse"), "streamGenerateContent");
    }
}
