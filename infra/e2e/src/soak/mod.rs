//! A server under mixed load that is killed, stopped and kept from writing, with receivers that misbehave and people who interfere. Then
//! there is calm, and everything that was accepted is compared with everything that was received and with what the API shows.
//!
//! Everything that is random comes from the seed. Two runs with one seed make the same choices, but not at the same moments: the server
//! is a process of its own.

mod calm;
mod cast;
mod disk;
mod ledger;
mod payload;
mod people;
mod posters;
mod receivers;
mod reconcile;
mod report;
mod server;
mod shown;
mod trouble;
mod world;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::Instant;

pub use disk::Disk;
pub use report::Report;

use world::World;

/// What a run does.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// How long there is trouble. The calm and the comparison come after it.
    pub trouble: Duration,
    /// How many times faster than real time the server's schedule runs.
    pub speed: u32,
    /// How many times slower than at full load the producers post.
    pub ease: u32,
    /// The longest time from one interruption to the next.
    pub max_pause_ms: u64,
    pub disk: Disk,
    /// Whether to print progress for people.
    pub verbose: bool,
}

impl Plan {
    /// For the test command: 52 hours take 52 seconds.
    #[must_use]
    pub fn short(seed: u64) -> Plan {
        let trouble = Duration::from_secs(9);
        Plan {
            seed,
            trouble,
            speed: 3_600,
            ease: 3,
            max_pause_ms: 2_500,
            disk: Disk::Limited,
            verbose: false,
        }
    }
}

/// Runs `binary` as the plan says. An error means that it could not be run to its end; what was promised and did not hold is in the report.
pub async fn run(binary: &Path, plan: &Plan) -> Result<Report> {
    let world = World::new(binary, plan).await?;
    let report = drive(&world).await;
    let report =
        report.with_context(|| format!("seed {}; the server's log: {}", plan.seed, world.server.log()))?;
    if !report.faults.is_empty() {
        world.keep_data();
    }
    Ok(report)
}

async fn drive(world: &World) -> Result<Report> {
    let until = Instant::now() + world.plan.trouble;
    world.say("load and trouble begin");
    // A server that does not start again ends the run: producers would wait for it without end.
    tokio::try_join!(
        trouble::run(world, until),
        people::run(world, until),
        async {
            posters::run(world, until).await;
            anyhow::Ok(())
        },
        async {
            world.watch(until).await;
            anyhow::Ok(())
        },
    )?;
    world.say("calm: receivers accept everything, and no signal is sent any more");
    calm::settle(world).await?;
    world.say("comparing what was accepted, received and shown");
    let shown = shown::read(world).await?;
    reconcile::check(world, &shown);
    Ok(Report::of(world, &shown))
}

/// The `holdfast` binary beside this one.
pub fn beside_this_binary() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("holdfast"))
}
