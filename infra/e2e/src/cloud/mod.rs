//! Scenarios for AWS only. They use more than the API: the queues, the functions' processes and logs, and the dead letters.

mod bad_settings;
mod chains_end;
mod killed;
mod logs;
mod poison;
mod probes;
mod processes;
mod queues;
mod requeue;
mod slow_urls;

use std::path::PathBuf;
use std::pin::Pin;

use anyhow::Result;

pub use self::queues::{QueueUrls, Queues};
use crate::scene::Scene;

/// What the AWS scenarios use besides the API.
pub struct Cloud {
    pub endpoint: String,
    pub queues: Queues,
    /// The process id of the emulator. The functions' processes are its children.
    pub emulator: i32,
    /// The program of the deliver function.
    pub function: PathBuf,
    /// The `holdfast` program.
    pub command: PathBuf,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub struct Scenario {
    pub name: &'static str,
    pub run: for<'a> fn(Scene<'a>, &'a Cloud) -> Running<'a>,
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        vec![$(Scenario { name: stringify!($name), run: |scene, cloud| Box::pin($name::run(scene, cloud)) }),*]
    };
}

/// Run one after the other, because they share the queues, and killed functions may repeat attempts of other scenarios.
#[must_use]
pub fn all() -> Vec<Scenario> {
    // What the others leave behind ends in the last one.
    scenarios![bad_settings, poison, requeue, slow_urls, probes, killed, chains_end]
}
