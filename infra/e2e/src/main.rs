#[cfg(feature = "aws")]
mod aws;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use holdfast_e2e::host::client;
use holdfast_e2e::{Host, Receiver, Report, Timing};

/// Runs the black-box suite against a running Holdfast.
#[derive(Parser)]
#[command(name = "holdfast-e2e")]
struct Arguments {
    /// The URL of the host, such as http://127.0.0.1:8080
    #[arg(long, value_name = "BASE")]
    url: String,
    /// An operator key, with which the suite creates its tenant.
    #[arg(long)]
    key: String,
    /// The host header, if it differs from the host of the URL.
    #[arg(long, value_name = "NAME")]
    host_header: Option<String>,
    /// How many times faster than real time the host's schedule clock runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    speed: u32,
    /// A receiver that the host can reach, if it cannot reach this process: the URL of the stack infra/stacks/receiver.yaml.
    #[arg(long, value_name = "URL", requires = "receiver_key")]
    receiver: Option<String>,
    /// The key of that stack.
    #[arg(long, value_name = "KEY", requires = "receiver")]
    receiver_key: Option<String>,
    /// The host is on AWS: it is as punctual as functions and queues are.
    #[arg(long)]
    on_aws: bool,
    /// Calls of the host to its dependencies fail on purpose: requests are repeated, and counts are lower bounds.
    #[arg(long)]
    faults: bool,
    /// Run only the scenarios whose name contains this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    #[cfg(feature = "aws")]
    #[command(flatten)]
    aws: Option<aws::Aws>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Arguments::parse();
    let receiver = match (&args.receiver, &args.receiver_key) {
        (Some(url), Some(key)) => Receiver::at(url, key, &client()?),
        _ => Receiver::start().await?,
    };
    let mut host = Host::with(&args.url, &args.key, args.speed, receiver)?;
    if args.on_aws {
        host = host.with_timing(Timing::on_aws(args.speed));
    }
    if let Some(name) = &args.host_header {
        host = host.named(name)?;
    }
    let report = run(host, args).await;
    // A name that selects no scenario is a mistake, not a success.
    let ok = report.failed.is_empty() && !report.passed.is_empty();
    let verdict = if ok { "ok" } else { "FAILED" };
    // In cargo's format, so that scripts that count tests count these too.
    println!(
        "test result: {verdict}. {} passed; {} failed; 0 ignored",
        report.passed.len(),
        report.failed.len()
    );
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(feature = "aws")]
async fn run(host: Host, mut args: Arguments) -> Report {
    match args.aws.take() {
        Some(aws) => {
            let host = host.with_timing(Timing::on_aws(args.speed));
            let host = if args.faults { host.under_faults() } else { host };
            holdfast_e2e::run_on_aws(&host, &aws.cloud().await, args.only.as_deref()).await
        }
        None => run_common(host, &args).await,
    }
}

#[cfg(not(feature = "aws"))]
async fn run(host: Host, args: Arguments) -> Report {
    run_common(host, &args).await
}

async fn run_common(host: Host, args: &Arguments) -> Report {
    let host = if args.faults { host.under_faults() } else { host };
    holdfast_e2e::run(&host, args.only.as_deref()).await
}
