//! What happens to the server: kills, stops, orderly ends and a full disk.

use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use tokio::time::Instant;

use super::disk::Fullness;
use super::receivers::Heard;
use super::world::{World, pass};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// SIGKILL and a new start on the same data.
    Kill,
    /// SIGTERM and a new start.
    Terminate,
    /// SIGSTOP, and SIGCONT later.
    Stop,
    FullDisk,
}

/// When the server could not do its work, since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interruption {
    pub(super) kind: Kind,
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// How long an attempt may take; it may be under way when an interruption begins.
const ATTEMPT: Duration = Duration::from_secs(2);
/// From the answer of a receiver until it is stored, and until everything runs again after an interruption.
const SLACK: Duration = Duration::from_secs(1);

impl Interruption {
    /// Whether the outcome of this request may have been lost.
    fn may_lose(&self, heard: &Heard) -> bool {
        let longest = if heard.status.is_some() { SLACK } else { ATTEMPT + SLACK };
        heard.at + longest >= self.from && heard.at <= self.to + SLACK
    }

    /// How many outcomes of one delivery may be lost at most: the attempt that is under way, and what is repeated while it cannot be
    /// recorded. From its third time on, a message is not attempted before something is written.
    fn max_lost(&self) -> usize {
        match self.kind {
            Kind::Kill | Kind::Terminate => 1,
            // Some of them end with a kill.
            Kind::Stop => 2,
            Kind::FullDisk => 4,
        }
    }
}

/// How many of the outcomes of these requests, all of one delivery, interruptions may have lost.
pub(super) fn lost(interruptions: &[Interruption], requests: &[Heard]) -> usize {
    let by_each = interruptions.iter().map(|one| {
        let exposed = requests.iter().filter(|heard| one.may_lose(heard)).count();
        exposed.min(one.max_lost())
    });
    by_each.sum()
}

pub(super) async fn run(world: &World, until: Instant) -> Result<()> {
    let mut rng = world.rng();
    // Each kind once in any order, so that a short run has all of them; then as the dice fall.
    let mut first = [Kind::Kill, Kind::Terminate, Kind::Stop, Kind::FullDisk];
    rng.shuffle(&mut first);
    let mut first = first.into_iter();
    loop {
        pass(Duration::from_millis(rng.u64(300..world.plan.max_pause_ms))).await;
        if Instant::now() >= until {
            return Ok(());
        }
        let from = world.started.elapsed();
        let kind = first.next().unwrap_or_else(|| match rng.u8(..10) {
            0..=4 => Kind::Kill,
            5 => Kind::Terminate,
            6..=7 => Kind::Stop,
            _ => Kind::FullDisk,
        });
        match kind {
            Kind::Kill => restart(world, Signal::KILL).await?,
            Kind::Terminate => restart(world, Signal::TERM).await?,
            Kind::Stop => stop(world, &mut rng).await?,
            Kind::FullDisk => fill_disk(world, &mut rng).await?,
        }
        world.interrupted(Interruption { kind, from, to: world.started.elapsed() });
    }
}

async fn restart(world: &World, signal: Signal) -> Result<()> {
    world.server.signal(signal)?;
    let ended_well = world.server.wait().await?;
    ensure!(ended_well || signal == Signal::KILL, "the server did not end well after {signal:?}");
    world.server.start_again().await?;
    world.counters_were_cleared();
    Ok(())
}

async fn stop(world: &World, rng: &mut fastrand::Rng) -> Result<()> {
    world.server.signal(Signal::STOP)?;
    pass(Duration::from_millis(rng.u64(100..3_000))).await;
    if rng.u8(..4) == 0 {
        return restart(world, Signal::KILL).await;
    }
    world.server.signal(Signal::CONT)
}

async fn fill_disk(world: &World, rng: &mut fastrand::Rng) -> Result<()> {
    let fullness = if rng.bool() { Fullness::NoGrowth } else { Fullness::NoWrites };
    let disk = &world.plan.disk;
    disk.fill(fullness, world.server.pid(), &world.server.data())?;
    pass(Duration::from_millis(rng.u64(200..2_500))).await;
    if rng.u8(..3) > 0 {
        return disk.empty(Some(world.server.pid()));
    }
    // It ends without having been able to write again, and finds room at its next start.
    world.server.signal(Signal::KILL)?;
    world.server.wait().await?;
    disk.empty(None)?;
    world.server.start_again().await?;
    world.counters_were_cleared();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(at_ms: u64, status: Option<u16>) -> Heard {
        Heard { at: Duration::from_millis(at_ms), status }
    }

    fn interruption(kind: Kind, from_ms: u64, to_ms: u64) -> Interruption {
        Interruption { kind, from: Duration::from_millis(from_ms), to: Duration::from_millis(to_ms) }
    }

    #[test]
    fn a_kill_explains_one_request_of_a_delivery_near_it() {
        let kill = [interruption(Kind::Kill, 10_000, 10_500)];
        // Answered long before, hanging when it came, just before it, just after it, and much later.
        let cases = [
            (8_900, Some(200), 0),
            (8_900, None, 1),
            (9_100, Some(500), 1),
            (11_400, Some(200), 1),
            (11_600, None, 0),
        ];
        for (at_ms, status, expected) in cases {
            assert_eq!(lost(&kill, &[heard(at_ms, status)]), expected, "{at_ms} {status:?}");
        }
        assert_eq!(lost(&kill, &[heard(9_500, Some(500)), heard(9_900, Some(500))]), 1);
    }

    #[test]
    fn each_interruption_explains_its_own() {
        let both = [interruption(Kind::Kill, 10_000, 10_500), interruption(Kind::FullDisk, 20_000, 22_000)];
        let requests = [heard(9_900, None), heard(20_100, None), heard(20_200, None), heard(30_000, None)];
        assert_eq!(lost(&both, &requests), 3);
    }
}
