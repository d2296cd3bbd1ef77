//! `docs/testing.md` shows the files beside this one, which are compiled and run: word for word, and short.

use std::{fs, path::Path};

/// An example of a guide for people in a hurry has no more lines.
const LINES: usize = 40;

#[test]
fn every_example_of_the_guide_is_a_test_that_runs() {
    let guide = fs::read_to_string("../../docs/testing.md").unwrap();
    let examples = ["guide_script", "guide_wiremock", "guide_scripted_model", "guide_replay"];
    let shown: Vec<&str> =
        guide.split("\n```rust\n").skip(1).map(|rest| rest.split("\n```\n").next().unwrap()).collect();
    assert_eq!(shown.len(), examples.len());
    for (example, shown) in examples.into_iter().zip(shown) {
        let file = fs::read_to_string(Path::new("tests").join(example).with_extension("rs")).unwrap();
        assert_eq!(file.trim_end(), shown, "docs/testing.md does not show tests/{example}.rs");
        assert!(file.lines().count() < LINES, "tests/{example}.rs has {} lines", file.lines().count());
    }
}
