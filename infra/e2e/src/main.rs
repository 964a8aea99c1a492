use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use holdfast_e2e::{Host, Receiver};

/// Drives a running Holdfast over HTTP and says what it does not do as it should.
#[derive(Parser)]
#[command(name = "holdfast-e2e")]
struct Args {
    /// Where the host is, such as http://127.0.0.1:8080
    #[arg(long, value_name = "BASE")]
    url: String,
    #[arg(long)]
    key: String,
    /// The host header, where it is not the host of the address.
    #[arg(long, value_name = "NAME")]
    host_header: Option<String>,
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
    let mut host = Host::with(&args.url, &args.key, args.speed, Receiver::start().await?)?;
    if let Some(name) = &args.host_header {
        host = host.named(name)?;
    }
    let report = holdfast_e2e::run(&host, args.only.as_deref()).await;
    // A name that chose nothing is a mistake and no success.
    let good = report.failed.is_empty() && !report.passed.is_empty();
    // As cargo says it, so that whoever adds up the tests of a run counts these too.
    let (verdict, passed, failed) =
        (if good { "ok" } else { "FAILED" }, report.passed.len(), report.failed.len());
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
