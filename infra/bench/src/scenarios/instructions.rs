//! How many instructions an event takes in accept and in deliver, on one thread and with ports in memory: a number that does not depend on how
//! busy the machine is. It is compared with the recorded one for the same compiler and processor.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Bench;
use crate::report::Figure;
use crate::report::Target::AtMost;

/// By compiler and target, then by what was counted.
type Recorded = BTreeMap<String, BTreeMap<String, u64>>;

const RECORDED: &str = include_str!("../../instructions.json");
const FEW: u64 = 200;
const MANY: u64 = 1_200;
/// So much more than was recorded is allowed.
const TOLERANCE: f64 = 1.1;

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let program = bench.holdfast.with_file_name("holdfast-bench-events");
    ensure!(
        program.is_file(),
        "{} does not exist; build it: cargo build --release -p holdfast-bench",
        program.display()
    );
    let accept = per_event(&program, "accept")?;
    let deliver = per_event(&program, "deliver")? - accept;
    let recorded: Recorded = serde_json::from_str(RECORDED)?;
    let compiler = compiler()?;
    let mut figures = Vec::new();
    for (name, counted) in [("accept", accept), ("deliver", deliver)] {
        figures.push(Figure::new(format!("{name}, instructions for each event"), counted as f64, ""));
        if let Some(recorded) = recorded.get(&compiler).and_then(|all| all.get(name)) {
            let ratio = counted as f64 / *recorded as f64;
            figures.push(
                Figure::ratio(format!("{name}, of the recorded number"), ratio).must_meet(AtMost(TOLERANCE)),
            );
        } else {
            eprintln!(
                "nothing is recorded for {name} with {compiler}; add {counted} to infra/bench/instructions.json"
            );
        }
    }
    Ok(figures)
}

/// The difference between many and few, so that the start does not count.
fn per_event(program: &Path, what: &str) -> Result<u64> {
    let (few, many) = (instructions(program, what, FEW)?, instructions(program, what, MANY)?);
    Ok((many - few) / (MANY - FEW))
}

fn instructions(program: &Path, what: &str, count: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = command.args([what, &count.to_string()]).output().context(
        "valgrind cannot be run; install it (apt-get install valgrind), or leave this scenario out with --only",
    )?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {text}");
    let line = text.lines().find_map(|line| line.split_once("Collected :")).context("no count")?;
    Ok(line.1.trim().parse()?)
}

/// As `rustc --version` prints it, without the date of its source, and the target.
fn compiler() -> Result<String> {
    let output =
        Command::new("rustc").args(["--version", "--verbose"]).output().context("rustc cannot be run")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (release, host) = (value("release:").context("no release")?, value("host:").context("no host")?);
    Ok(format!("{release} {host}"))
}
