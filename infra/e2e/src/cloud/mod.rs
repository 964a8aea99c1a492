//! Scenarios that make sense on AWS only. They look behind the API: at the queues, at the functions' processes and logs, and at
//! the dead letters.

mod killed;
mod logs;
mod poison;
mod probes;
mod processes;
mod queues;
mod refused;
mod way_back;

use std::path::PathBuf;
use std::pin::Pin;

use anyhow::Result;

pub use self::queues::{QueueUrls, Queues};
use crate::scene::Scene;

/// What is behind the API.
pub struct Cloud {
    pub endpoint: String,
    pub queues: Queues,
    /// The process of the emulator; those of the functions are its children.
    pub emulator: i32,
    /// The program of a function that delivers.
    pub function: PathBuf,
    /// The `holdfast` command.
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

/// One after the other, because they share the queues, and what is killed may repeat the attempts of others.
#[must_use]
pub fn all() -> Vec<Scenario> {
    scenarios![refused, poison, way_back, probes, killed]
}
