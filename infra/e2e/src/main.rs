#[cfg(feature = "aws")]
mod aws;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use holdfast_e2e::{Host, Receiver, Report};

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
    let mut host = Host::with(&args.url, &args.key, args.speed, Receiver::start().await?)?;
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
async fn run(host: Host, args: Arguments) -> Report {
    match args.aws {
        Some(aws) => {
            let host = host.with_timing(holdfast_e2e::Timing::on_aws(args.speed));
            holdfast_e2e::run_on_aws(&host, &aws.cloud().await, args.only.as_deref()).await
        }
        None => holdfast_e2e::run(&host, args.only.as_deref()).await,
    }
}

#[cfg(not(feature = "aws"))]
async fn run(host: Host, args: Arguments) -> Report {
    holdfast_e2e::run(&host, args.only.as_deref()).await
}
