//! The layers, asked of cargo: core and the wires do no IO and reach nothing that does.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "all of it is tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde::Deserialize;

/// The packages that do no IO, and know no clock, task or random number.
const PURE: [&str; 8] = [
    "turnstream-core",
    "turnstream-anthropic",
    "turnstream-cohere",
    "turnstream-bedrock",
    "turnstream-gemini",
    "turnstream-ollama",
    "turnstream-openai-chat",
    "turnstream-openai-responses",
];

/// What they may not reach, by whatever way.
const IMPURE: [&str; 11] = [
    "async-std",
    "fastrand",
    "getrandom",
    "hyper",
    "mio",
    "rand",
    "rand_core",
    "reqwest",
    "socket2",
    "tokio",
    "turnstream-http",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `None` is a normal dependency.
    kind: Option<String>,
}

#[test]
fn core_and_wires_reach_no_io() {
    let reached = reached();
    for package in PURE {
        let reached = reached.get(package).unwrap_or_else(|| panic!("there is no package {package}"));
        let impure: Vec<&str> = IMPURE.into_iter().filter(|name| reached.contains(*name)).collect();
        assert!(impure.is_empty(), "{package} reaches {impure:?}");
    }
}

#[test]
fn the_wires_know_only_core_among_our_packages_and_bedrock_the_wire_that_it_carries() {
    let reached = reached();
    for package in PURE {
        let ours: Vec<&String> =
            reached[package].iter().filter(|name| name.starts_with("turnstream")).collect();
        let want: &[&str] = match package {
            "turnstream-core" => &[],
            // Anthropic's models answer there in their own wire's words, inside messages.
            "turnstream-bedrock" => &["turnstream-anthropic", "turnstream-core"],
            _ => &["turnstream-core"],
        };
        assert_eq!(ours, want, "{package}");
    }
}

#[test]
fn the_tools_reach_no_transport() {
    let reached = reached();
    for name in ["hyper", "reqwest", "turnstream-http"] {
        assert!(!reached["turnstream-tools"].contains(name), "turnstream-tools reaches {name}");
    }
}

/// By package of ours: the names of all that its normal dependencies reach.
fn reached() -> BTreeMap<String, BTreeSet<String>> {
    let Metadata { packages, resolve } = metadata();
    let names: BTreeMap<&str, &str> =
        packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
    let nodes: BTreeMap<&str, &Node> = resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let reach = |start: &str| {
        let (mut reached, mut left) = (BTreeSet::new(), vec![start.to_owned()]);
        while let Some(id) = left.pop() {
            for dependency in &nodes[id.as_str()].deps {
                let is_normal = dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
                if is_normal && reached.insert(names[dependency.pkg.as_str()].to_owned()) {
                    left.push(dependency.pkg.clone());
                }
            }
        }
        reached
    };
    let ours = packages.iter().filter(|package| package.name.starts_with("turnstream"));
    ours.map(|package| (package.name.clone(), reach(&package.id))).collect()
}

/// What cargo knows, without the network if that is enough.
fn metadata() -> Metadata {
    let ask = |more: &[&str]| {
        let manifest = turnstream_tests::root().join("Cargo.toml");
        let mut command = Command::new(env!("CARGO"));
        command.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(manifest).args(more);
        command.output().expect("cargo runs: it runs this test")
    };
    let mut output = ask(&["--offline"]);
    if !output.status.success() {
        output = ask(&[]);
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo's metadata has the form that it documents")
}
