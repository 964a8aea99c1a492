use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser};
use holdfast_e2e::cloud::{Cloud, QueueUrls, Queues};
use holdfast_e2e::{Host, Receiver, Timing};

/// Drives a running Holdfast over HTTP and says what it does not do as it should.
#[derive(Parser)]
#[command(name = "holdfast-e2e")]
struct Arguments {
    /// Where the host is, such as http://127.0.0.1:8080
    #[arg(long, value_name = "BASE")]
    url: String,
    /// An operator's key, with which the suite makes a tenant for itself.
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
    #[command(flatten)]
    aws: Option<Aws>,
}

/// For a host on an AWS emulator: all of these, or none.
#[derive(Args)]
#[group(requires_all = ["aws_endpoint", "first_queue", "retry_queue", "dead_letter_queue", "emulator", "function", "holdfast"])]
struct Aws {
    /// Where the emulator is.
    #[arg(long, value_name = "URL", required = false)]
    aws_endpoint: String,
    #[arg(long, value_name = "URL", required = false)]
    first_queue: String,
    #[arg(long, value_name = "URL", required = false)]
    retry_queue: String,
    #[arg(long, value_name = "URL", required = false)]
    dead_letter_queue: String,
    /// The emulator's process.
    #[arg(long, value_name = "PID", required = false)]
    emulator: i32,
    /// The program of a function that delivers.
    #[arg(long, value_name = "FILE", required = false)]
    function: PathBuf,
    /// The `holdfast` command.
    #[arg(long, value_name = "FILE", required = false)]
    holdfast: PathBuf,
}

impl Aws {
    async fn cloud(self) -> Cloud {
        let urls = QueueUrls {
            first: self.first_queue,
            retry: self.retry_queue,
            dead_letters: self.dead_letter_queue,
        };
        Cloud {
            queues: Queues::new(&self.aws_endpoint, urls).await,
            endpoint: self.aws_endpoint,
            emulator: self.emulator,
            function: self.function,
            command: self.holdfast,
        }
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Arguments::parse();
    let mut host = Host::with(&args.url, &args.key, args.speed, Receiver::start().await?)?;
    if let Some(name) = &args.host_header {
        host = host.named(name)?;
    }
    let only = args.only.as_deref();
    let report = match args.aws {
        Some(aws) => {
            let host = host.keeping_time(Timing::on_aws(args.speed));
            holdfast_e2e::run_on_aws(&host, &aws.cloud().await, only).await
        }
        None => holdfast_e2e::run(&host, only).await,
    };
    // A name that chose nothing is a mistake and no success.
    let good = report.failed.is_empty() && !report.passed.is_empty();
    let verdict = if good { "ok" } else { "FAILED" };
    // In cargo's words, so that whoever adds up the tests of a run counts these too.
    println!(
        "test result: {verdict}. {} passed; {} failed; 0 ignored",
        report.passed.len(),
        report.failed.len()
    );
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
