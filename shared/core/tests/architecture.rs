//! Architecture Invariant: functions, infra → api, aws, embedded, egress, sim → host → core → nothing of ours; and core has no
//! clock, no randomness, no runtime and no I/O. Tests build only what they need, and everything builds with the minimum Rust version.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the workspace has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn core_depends_on_nothing_that_reaches_out() {
    let tree =
        cargo(&["tree", "--locked", "-p", "holdfast-core", "-e", "normal", "--prefix", "none", "-f", "{p}"]);
    let crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"serde"), "the tree was read");
    let reaches_out = |name: &&&str| {
        let families = ["aws-", "tokio", "hyper", "reqwest", "axum", "rusqlite", "rand", "lambda_"];
        families.iter().any(|f| name.starts_with(f))
            || ["getrandom", "mio", "socket2", "chrono", "async-std"].contains(*name)
    };
    let found: Vec<_> = crates.iter().filter(reaches_out).collect();
    assert!(found.is_empty(), "holdfast-core depends on {found:?}");
}

#[test]
fn core_does_no_io_and_reads_no_clock() {
    let forbidden =
        ["std::fs", "std::net", "std::env", "std::process", "thread::spawn", "SystemTime", "Instant::now"];
    let mut files = 0;
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut |path, text| {
        files += 1;
        if path.ends_with("test_vectors.rs") {
            return;
        }
        for word in forbidden {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    });
    assert!(files > 20, "the sources were read");
}

/// The layers of the core. Each may use only itself and those before it.
const CORE_LAYERS: [&str; 6] = ["time", "ids", "rules", "records", "ports", "engine"];

#[test]
fn layers_of_the_core_point_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = [false; CORE_LAYERS.len()];
    visit(&src, &mut |path, text| {
        let top = path.strip_prefix(&src).unwrap().components().next().unwrap();
        let name = Path::new(top.as_os_str()).file_stem().unwrap().to_str().unwrap();
        if name == "lib" {
            return;
        }
        let layer = CORE_LAYERS.iter().position(|layer| *layer == name);
        let layer = layer.unwrap_or_else(|| panic!("{} is in no layer", path.display()));
        seen[layer] = true;
        assert!(!text.contains("crate::{"), "{}: name each layer in its own `use`", path.display());
        for later in &CORE_LAYERS[layer + 1..] {
            assert!(!text.contains(&format!("crate::{later}")), "{} uses {later}", path.display());
        }
    });
    assert_eq!(seen, [true; CORE_LAYERS.len()], "every layer was read");
}

fn visit(folder: &Path, look: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, look);
        } else {
            look(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// 0: core; 1: what every host takes from its machine; 2: the adapters; 3: what is deployed or run.
fn layer(manifest: &str) -> Option<u8> {
    let parts: Vec<&str> =
        Path::new(manifest).components().rev().filter_map(|c| c.as_os_str().to_str()).collect();
    match (parts.get(2).copied(), parts.get(1).copied()) {
        (Some("shared"), Some("core")) => Some(0),
        (Some("shared"), Some("host")) => Some(1),
        (Some("shared"), _) => Some(2),
        (Some("functions" | "infra"), _) => Some(3),
        _ => None,
    }
}

#[test]
fn dependencies_point_inwards() {
    let metadata: serde_json::Value =
        serde_json::from_str(&cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"]))
            .unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let layers: BTreeMap<&str, u8> = packages
        .iter()
        .map(|p| {
            let name = p["name"].as_str().unwrap();
            (
                name,
                layer(p["manifest_path"].as_str().unwrap()).unwrap_or_else(|| panic!("{name} has no place")),
            )
        })
        .collect();
    assert!(layers.len() >= 6, "the packages were read");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            // Tests may use anything: the contract suite and the simulation are made for it.
            let of_tests = dependency["kind"].as_str() == Some("dev");
            if let Some(theirs) = layers.get(dependency["name"].as_str().unwrap()).filter(|_| !of_tests) {
                assert!(layers[name] > *theirs, "{name} must not depend on {}", dependency["name"]);
            }
        }
    }
}

/// The names of the packages that `cargo tree` lists for these arguments, with their dev- and build-dependencies.
fn test_dependencies(packages: &[&str]) -> Vec<String> {
    let mut args =
        vec!["tree", "--locked", "--edges", "normal,dev,build", "--prefix", "none", "--format", "{p}"];
    args.extend(packages);
    cargo(&args).lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn is_of_aws(name: &String) -> bool {
    name.starts_with("aws-") || name == "holdfast-aws"
}

/// The SDK takes minutes to compile. Its crates are for the AWS adapters, the functions and the feature `aws` alone.
#[test]
fn tests_on_one_machine_build_no_aws_sdk() {
    let adapters = test_dependencies(&["-p", "holdfast-aws"]);
    assert!(adapters.iter().any(is_of_aws), "the AWS crates have other names now");
    for package in ["holdfast-core", "holdfast"] {
        let dependencies = test_dependencies(&["-p", package]);
        assert!(dependencies.iter().any(|name| name == "serde"), "the tree of {package} was read");
        let found: Vec<_> = dependencies.iter().filter(|name| is_of_aws(name)).collect();
        assert!(found.is_empty(), "cargo test -p {package} builds {found:?}");
    }
}

/// `infra/test quick` runs the workspace without the packages that it excludes, and those without the feature `aws`.
#[test]
fn the_quick_tests_build_no_aws_sdk() {
    let script = std::fs::read_to_string(root().join("infra/test")).unwrap();
    let line = script.lines().find_map(|line| line.strip_prefix("without_aws=(")?.strip_suffix(')')).unwrap();
    let dependencies = test_dependencies(&line.split(' ').collect::<Vec<_>>());
    assert!(dependencies.iter().any(|name| name == "holdfast-embedded"), "the tree was read");
    let found: Vec<_> = dependencies.iter().filter(|name| is_of_aws(name)).collect();
    assert!(found.is_empty(), "infra/test quick builds {found:?}");
}

/// Compares as versions are compared: `1.88` is `1.88.0`, and older than `1.100`.
fn version(text: &str) -> [u32; 3] {
    let mut parts = text.split('.').map(|part| part.parse().unwrap());
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[test]
fn the_minimum_rust_version_is_enough_for_every_dependency() {
    let metadata: serde_json::Value =
        serde_json::from_str(&cargo(&["metadata", "--locked", "--all-features", "--format-version", "1"]))
            .unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let minimum = version(env!("CARGO_PKG_RUST_VERSION"));
    let needed: Vec<(String, [u32; 3])> = packages
        .iter()
        .filter_map(|p| {
            Some((format!("{} {}", p["name"], p["version"]), version(p["rust_version"].as_str()?)))
        })
        .collect();
    assert!(needed.len() > 100, "the dependencies were read");
    let newer: Vec<_> = needed.iter().filter(|(_, needs)| *needs > minimum).collect();
    assert!(newer.is_empty(), "rust-version in Cargo.toml is {minimum:?}, but these need more: {newer:?}");
}

#[test]
fn the_workflow_checks_the_minimum_rust_version() {
    let workflow = std::fs::read_to_string(root().join(".github/workflows/ci.yml")).unwrap();
    let toolchains: Vec<&str> =
        workflow.lines().filter_map(|line| line.trim().strip_prefix("RUSTUP_TOOLCHAIN: ")).collect();
    assert_eq!(toolchains, [format!("{:?}", env!("CARGO_PKG_RUST_VERSION"))]);
}

/// `cargo run` builds no AWS SDK, so a release has to ask for the commands that need it.
#[test]
fn release_builds_have_the_aws_commands_and_the_start_command_does_not_build_them() {
    const BUILD: &str = "cargo build --release --locked -p holdfast --features aws";
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let commands = |text: &str| -> Vec<String> {
        let commands = text.lines().map(|line| line.trim().trim_start_matches("run: ").to_owned());
        commands.filter(|command| command.starts_with("cargo ")).collect()
    };
    assert_eq!(commands(&read(".github/workflows/release.yml")), [BUILD]);
    assert_eq!(commands(&read(".github/RELEASING.md")), [BUILD]);
    let start = commands(&read("README.md"));
    assert_eq!(start.first().map(String::as_str), Some("cargo run"));
    assert!(start.iter().all(|command| !command.contains("--features")), "{start:?}");
    // `tests_on_one_machine_build_no_aws_sdk` checks what that builds; here, that the feature brings what was left out.
    let with_feature = test_dependencies(&["-p", "holdfast", "--features", "aws"]);
    assert!(with_feature.iter().any(is_of_aws));
}
