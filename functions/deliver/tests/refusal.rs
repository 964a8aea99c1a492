//! The function itself, started with an invalid configuration.
#![allow(clippy::unwrap_used, reason = "in a test, what fails panics")]

use std::process::Command;

#[test]
fn does_not_start_and_names_every_fault() {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast-deliver"))
        .env_clear()
        .env("HOLDFAST_TABLE", "holdfast-table")
        .env("HOLDFAST_TIME_SCALE", "60")
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1.evil.com")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.lines().all(|line| line.starts_with("holdfast-deliver: ")), "{printed}");
    for fault in ["HOLDFAST_TRIGGER is not set", "HOLDFAST_TIME_SCALE is 60, but must be 1"] {
        assert_eq!(printed.lines().filter(|line| line.contains(fault)).count(), 1, "{printed}");
    }
    assert!(!printed.contains("HOLDFAST_TABLE"), "{printed}");
    assert!(output.stdout.is_empty());
}
