use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use holdfast_e2e::Host;

/// Drives a running Holdfast over HTTP and says what it does not do as it should.
#[derive(Parser)]
#[command(name = "holdfast-e2e")]
struct Args {
    /// Where the host is, such as http://127.0.0.1:8080
    #[arg(long, value_name = "BASE")]
    url: String,
    #[arg(long)]
    key: String,
    /// How many times faster than real time the host's schedule runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    speed: u32,
    /// Only the scenarios whose name contains this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let host = Host::new(&args.url, &args.key, args.speed).await?;
    let report = holdfast_e2e::run(&host, args.only.as_deref()).await;
    // A name that chose nothing is a mistake and no success.
    let good = report.failed.is_empty() && !report.passed.is_empty();
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
