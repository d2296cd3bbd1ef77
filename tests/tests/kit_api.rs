//! What the testing kit's public interface may name.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "all of it is tests")]

use std::{fs, path::Path};

use turnstream_tests::{entries, root};

#[test]
fn only_one_module_of_the_kit_names_wiremock_and_it_is_behind_its_feature() {
    let source = root().join("crates/turnstream-testing/src");
    let named = names_wiremock(&source);
    assert_eq!(named, ["lib.rs", "wiremock.rs"]);
    // The crate's root only declares the module, behind the feature.
    let lines: Vec<String> = code(&source.join("lib.rs"));
    let at = lines.iter().position(|line| line.contains("wiremock")).unwrap();
    assert_eq!(lines[at..at + 2], ["#[cfg(feature = \"wiremock\")]", "pub mod wiremock;"]);
    assert!(!lines[at + 2..].iter().any(|line| line.contains("wiremock")));
    let manifest = fs::read_to_string(root().join("crates/turnstream-testing/Cargo.toml")).unwrap();
    assert!(manifest.contains("wiremock = { workspace = true, optional = true }"));
}

/// The files below a folder whose code names wiremock.
fn names_wiremock(folder: &Path) -> Vec<String> {
    let mut named = Vec::new();
    for path in entries(folder).unwrap() {
        if path.is_dir() {
            named.extend(names_wiremock(&path));
        } else if code(&path).iter().any(|line| line.contains("wiremock")) {
            named.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    named
}

/// The lines of a file without its comments.
fn code(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.map(str::to_owned).collect()
}
