//! The command line as a client of a running Holdfast, on this machine or on AWS.

mod api;
mod attempts;
mod audit;
mod connection;
mod deliveries;
mod events;
mod explain;
mod keys;
mod list_events;
mod listen;
mod output;
mod profile;
mod replay;
mod schedule;
mod subscriptions;
mod urls;
mod when;

use anyhow::Result;
use clap::builder::RangedU64ValueParser;
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;

use api::Api;
use connection::ConnectionArgs;
use output::Output;

#[derive(Subcommand)]
pub(crate) enum ClientCommand {
    /// Post an event.
    Send(Connected<events::Send>),
    /// Post a sample event, to try out subscriptions and filters.
    Trigger(Connected<events::Trigger>),
    /// List events, or show one with its deliveries.
    Events(Connected<list_events::Events>),
    /// List, create, change and test subscriptions.
    Subscriptions(Connected<subscriptions::Subscriptions>),
    /// List URLs with their health, and enable, disable or freeze one.
    Urls(Connected<urls::Urls>),
    /// List deliveries, or show one with its attempts.
    Deliveries(Connected<deliveries::Deliveries>),
    /// Say why an event has, or has not, arrived at a subscription.
    Explain(Connected<explain::Explain>),
    /// Deliver again: one delivery, or the deliveries of a URL.
    Replay(Connected<replay::Replay>),
    /// List, create and delete keys. Needs an operator key.
    Keys(Connected<keys::Keys>),
    /// List what was changed, when and by which key.
    Audit(Connected<audit::Audit>),
    /// Follow attempts as they are made.
    Tail(Connected<attempts::Tail>),
    /// Subscribe this machine, verify and print what arrives, and pass it on to a local server. Ends with Ctrl-C.
    Listen(Connected<listen::Listen>),
    /// Print when retries are due.
    Schedule(schedule::Schedule),
    /// Print a script that completes commands and flags in a shell.
    Completions { shell: Shell },
}

/// A command that calls the API.
#[derive(Args)]
pub(crate) struct Connected<T: Args> {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    command: T,
}

impl<T: Args> Connected<T> {
    /// The command, with what it needs to run.
    fn open(self) -> Result<(T, Api, Output)> {
        let output = Output::new(self.connection.json);
        Ok((self.command, self.connection.open()?, output))
    }
}

pub(crate) async fn run(command: ClientCommand) -> Result<()> {
    match command {
        ClientCommand::Send(connected) => {
            let (command, api, output) = connected.open()?;
            events::send(command, &api, &output).await
        }
        ClientCommand::Trigger(connected) => {
            let (command, api, output) = connected.open()?;
            events::trigger(command, &api, &output).await
        }
        ClientCommand::Events(connected) => {
            let (command, api, output) = connected.open()?;
            list_events::run(command, &api, &output).await
        }
        ClientCommand::Subscriptions(connected) => {
            let (command, api, output) = connected.open()?;
            subscriptions::run(command, &api, &output).await
        }
        ClientCommand::Urls(connected) => {
            let (command, api, output) = connected.open()?;
            urls::run(command, &api, &output).await
        }
        ClientCommand::Deliveries(connected) => {
            let (command, api, output) = connected.open()?;
            deliveries::run(command, &api, &output).await
        }
        ClientCommand::Explain(connected) => {
            let (command, api, output) = connected.open()?;
            explain::run(&command, &api, &output).await
        }
        ClientCommand::Replay(connected) => {
            let (command, api, output) = connected.open()?;
            replay::run(command, &api, &output).await
        }
        ClientCommand::Keys(connected) => {
            let (command, api, output) = connected.open()?;
            keys::run(command, &api, &output).await
        }
        ClientCommand::Audit(connected) => {
            let (command, api, output) = connected.open()?;
            audit::run(command, &api, &output).await
        }
        ClientCommand::Tail(connected) => {
            let (command, api, output) = connected.open()?;
            attempts::tail(&command, &api, &output).await
        }
        ClientCommand::Listen(connected) => {
            let (command, api, output) = connected.open()?;
            listen::run(command, api, output).await
        }
        ClientCommand::Schedule(command) => schedule::run(&command),
        ClientCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::args::Cli::command(), "holdfast", &mut script);
            output::print_text(&String::from_utf8_lossy(&script))
        }
    }
}

/// How many items a list may show: each page of the API has up to 100.
fn limit() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=100_000)
}
