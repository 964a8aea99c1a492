use std::path::PathBuf;

use clap::Args;
use holdfast_e2e::cloud::{Cloud, QueueUrls, Queues};

/// For a host on an AWS emulator: give all of these, or none.
#[derive(Args)]
#[group(requires_all = ["aws_endpoint", "first_queue", "slow_queue", "retry_queue", "dead_letter_queue", "emulator", "function", "holdfast"])]
pub(crate) struct Aws {
    /// The URL of the emulator.
    #[arg(long, value_name = "URL", required = false)]
    aws_endpoint: String,
    #[arg(long, value_name = "URL", required = false)]
    first_queue: String,
    #[arg(long, value_name = "URL", required = false)]
    slow_queue: String,
    #[arg(long, value_name = "URL", required = false)]
    retry_queue: String,
    #[arg(long, value_name = "URL", required = false)]
    dead_letter_queue: String,
    /// The process id of the emulator.
    #[arg(long, value_name = "PID", required = false)]
    emulator: i32,
    /// The program of the deliver function.
    #[arg(long, value_name = "FILE", required = false)]
    function: PathBuf,
    /// The `holdfast` program.
    #[arg(long, value_name = "FILE", required = false)]
    holdfast: PathBuf,
}

impl Aws {
    pub(crate) async fn cloud(self) -> Cloud {
        let urls = QueueUrls {
            first: self.first_queue,
            slow: self.slow_queue,
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
