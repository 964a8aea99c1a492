use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use holdfast_e2e::strict_aws::faults::Shares;
use holdfast_e2e::strict_aws::throttle::Limits;
use holdfast_e2e::strict_aws::{Options, Proxy, Report};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// A proxy before an AWS emulator that is as strict as AWS. Functions reach it at http://ADDRESS/NAME. It runs until it is terminated,
/// then prints what it did, and fails if that was not what it was started for.
#[derive(Parser)]
#[command(name = "holdfast-strict-aws")]
struct Arguments {
    /// The URL of the emulator.
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// Where to write the port that it listens on.
    #[arg(long, value_name = "FILE")]
    port_file: PathBuf,
    /// Where to write, at the end, the IAM actions of each function, as JSON.
    #[arg(long, value_name = "FILE")]
    actions_file: Option<PathBuf>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The limits of a partition are those of AWS divided by this.
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    limits_divided_by: f64,
    /// Too few calls are made for every kind of fault to happen: only what AWS would have refused is a failure.
    #[arg(long)]
    partial: bool,
    /// The share of calls that fail without an effect, such as 0.01.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    failed: f64,
    /// The share of calls that take effect and are not answered.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    lost: f64,
    /// The share of calls that are answered late.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    late: f64,
    /// The share of messages that are sent twice.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    duplicated: f64,
    /// The share of messages that become visible later than asked.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    delayed: f64,
    /// The share of entries of a batch that fail, although the request succeeds.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    entries: f64,
}

impl Arguments {
    /// What must have happened at the end.
    fn expected(&self) -> Vec<&'static str> {
        if self.partial {
            return Vec::new();
        }
        let shares = [
            (self.failed, "failed without effect"),
            (self.lost, "answer lost after the effect"),
            (self.late, "answered late"),
            (self.duplicated, "message sent twice"),
            (self.delayed, "message delayed"),
            (self.entries, "failed entry of a batch"),
        ];
        let mut expected: Vec<&str> =
            shares.iter().filter(|(share, _)| *share > 0.0).map(|(_, kind)| *kind).collect();
        if self.limits_divided_by > 1.0 {
            // Whether single reads meet a hot partition is chance.
            expected.push("throttled transaction");
        }
        expected
    }

    fn options(&self) -> Options {
        Options {
            upstream: self.upstream.clone(),
            shares: Shares {
                failed: self.failed,
                lost: self.lost,
                late: self.late,
                duplicated: self.duplicated,
                delayed: self.delayed,
                entries: self.entries,
            },
            limits: Limits::scaled(self.limits_divided_by),
            seed: self.seed,
        }
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Arguments::parse();
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    let proxy = Proxy::new(args.options(), Report::new(args.expected()))?;
    let serving = tokio::spawn(proxy.clone().serve(listener));
    // Renamed, so that a reader never sees half of it.
    let half = args.port_file.with_extension("half");
    std::fs::write(&half, port.to_string()).context("the port cannot be written")?;
    std::fs::rename(&half, &args.port_file)?;
    terminated.recv().await;
    serving.abort();

    let report = proxy.report();
    print!("{}", report.summary());
    if let Some(file) = &args.actions_file {
        std::fs::write(file, format!("{:#}\n", report.actions()))?;
    }
    let problems = report.problems();
    for problem in &problems {
        println!("FAILED  {problem}");
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
