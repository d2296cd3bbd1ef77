//! What a build pulls in.

use std::process::Command;

use serde_json::Value;

/// What cargo prints, without the network if that is enough.
fn cargo(arguments: &[&str]) -> String {
    let ask = |more: &[&str]| {
        let manifest = turnstream_tests::root().join("Cargo.toml");
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).arg("--manifest-path").arg(manifest).args(more);
        command.output().expect("cargo runs: it runs this test")
    };
    let mut output = ask(&["--offline"]);
    if !output.status.success() {
        output = ask(&[]);
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The packages that the facade reaches with these features.
fn packages(features: &str, more: &[&str]) -> Vec<String> {
    let tree = ["tree", "-p", "turnstream", "-e", "normal,build", "--prefix", "none", "--format", "{p}"];
    let features = ["--no-default-features", "--features", features];
    let tree = cargo(&[&tree[..], &features[..], more].concat());
    let mut names: Vec<String> =
        tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn case_142_tls_features() {
    const RUSTLS: [&str; 2] = ["rustls", "tokio-rustls"];
    const NATIVE: [&str; 3] = ["native-tls", "tokio-native-tls", "openssl-sys"];
    let has = |packages: &[String], name: &str| packages.iter().any(|package| package == name);
    let musl = ["--target", "x86_64-unknown-linux-musl"];
    for more in [&[][..], &musl[..]] {
        let packages = packages("client,rustls", more);
        assert!(RUSTLS.iter().all(|name| has(&packages, name)), "{packages:?}");
        assert!(!NATIVE.iter().any(|name| has(&packages, name)), "{packages:?}");
    }
    let native = packages("client,native-tls", &["--target", "x86_64-unknown-linux-gnu"]);
    assert!(NATIVE.iter().all(|name| has(&native, name)), "{native:?}");
    assert!(!RUSTLS.iter().any(|name| has(&native, name)), "{native:?}");
    let none = packages("client", &[]);
    assert!(![&RUSTLS[..], &NATIVE[..]].concat().iter().any(|name| has(&none, name)), "{none:?}");
    let default = packages("default", &[]);
    assert!(has(&default, "rustls") && !has(&default, "openssl-sys"), "{default:?}");
}

#[test]
fn case_142_tls_features_of_reqwest_are_never_the_default_ones() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let uses: Vec<(&str, &Value)> = packages
        .iter()
        .flat_map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap();
            dependencies.iter().map(|dependency| (package["name"].as_str().unwrap(), dependency))
        })
        .filter(|(_, dependency)| dependency["name"] == "reqwest")
        .collect();
    assert!(!uses.is_empty());
    for (package, dependency) in uses {
        assert_eq!(dependency["uses_default_features"], false, "{package}");
    }
}
