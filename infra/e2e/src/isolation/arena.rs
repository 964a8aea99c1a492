//! One server with a victim and an attacker, and what was found out on it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::server::{Server, Settings};
use super::tally::Tally;
use super::tenant::Tenant;
use super::victim::{Sample, Traffic, URLS, Victim};
use crate::waiting::until;

/// How large an attack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// For the test command: a debug build on two cores.
    Short,
    /// For the benchmark: a release build.
    Full,
}

impl Size {
    /// One of two numbers.
    #[must_use]
    pub fn pick<T>(self, short: T, full: T) -> T {
        match self {
            Size::Short => short,
            Size::Full => full,
        }
    }

    /// How many events the victim posts without the attacker.
    fn events_alone(self) -> usize {
        self.pick(25, 500)
    }

    /// How many events the victim posts beside the attacker.
    fn events_beside(self) -> usize {
        self.pick(150, 1_000)
    }
}

/// The pump of a queue hands out at most this many messages of one tenant in its turn.
const TURN: u64 = 32;

/// How many attempts of the attacker may start or end from the victim's 202 to its arrival.
///
/// Tenants take turns, and so do the URLs of a tenant: before it is an event's turn, each attacker has one turn, or one for each URL of
/// the victim if the others are busy too. Attempts that had their turn before may start later, as many as there are slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) median: u64,
    pub(super) max: u64,
}

impl Bound {
    pub(super) fn of(slots: usize, attackers: usize) -> Bound {
        Bound { median: TURN * attackers as u64, max: TURN * (URLS * attackers) as u64 + slots as u64 }
    }
}

pub(super) struct Arena {
    pub(super) size: Size,
    pub(super) server: Server,
    pub(super) tally: Tally,
    pub(super) victim: Victim,
    pub(super) attacker: Tenant,
    /// How many tenants attack at the same time.
    pub(super) attackers: usize,
    pub(super) alone: Vec<Sample>,
    pub(super) beside: Vec<Sample>,
    /// What must not happen and did.
    pub(super) faults: Vec<String>,
    /// What else was counted, in words.
    pub(super) counts: Vec<String>,
    peak_memory_mb: u64,
}

impl Arena {
    /// `files`: the soft and the hard limit on open files.
    pub(super) async fn new(binary: &Path, size: Size, files: Option<(u32, u32)>) -> Result<Arena> {
        // A small number of slots makes the bounds tight; the benchmark uses the default.
        let settings = Settings { binary: binary.to_owned(), slots: size.pick(256, 1_024), files };
        let server = Server::start(settings).await?;
        let tally = Tally::default();
        let victim = Victim::new(Tenant::new(&server, "victim").await?, tally.clone()).await?;
        let attacker = Tenant::new(&server, "attacker").await?;
        Ok(Arena {
            size,
            server,
            tally,
            victim,
            attacker,
            attackers: 1,
            alone: Vec::new(),
            beside: Vec::new(),
            faults: Vec::new(),
            counts: Vec::new(),
            peak_memory_mb: 0,
        })
    }

    /// More attackers, who replace the one that there is from the beginning.
    pub(super) async fn attackers(&mut self, count: usize) -> Result<Vec<Tenant>> {
        self.attackers = count;
        Tenant::several(&self.server, count).await
    }

    /// The victim's traffic without the attacker.
    pub(super) async fn alone(&mut self) -> Result<()> {
        let traffic = self.victim.traffic(self.size.events_alone()).await?;
        let samples = self.keep_faults("alone", traffic);
        self.alone.extend(samples);
        Ok(())
    }

    /// The victim's traffic beside the attack, which is dropped when all of the victim's events have arrived.
    pub(super) async fn beside(&mut self, attack: impl Future<Output = Result<()>>) -> Result<()> {
        let traffic = {
            let traffic = self.victim.traffic(self.size.events_beside());
            tokio::pin!(traffic, attack);
            tokio::select! {
                traffic = &mut traffic => traffic?,
                attacked = &mut attack => {
                    attacked.context("the attack")?;
                    traffic.await?
                }
            }
        };
        self.keep_beside(traffic);
        Ok(())
    }

    /// The same, but the attack goes on to its end.
    pub(super) async fn beside_all_of(&mut self, attack: impl Future<Output = Result<()>>) -> Result<()> {
        let (traffic, attacked) = tokio::join!(self.victim.traffic(self.size.events_beside()), attack);
        attacked.context("the attack")?;
        self.keep_beside(traffic?);
        Ok(())
    }

    fn keep_beside(&mut self, traffic: Traffic) {
        let samples = self.keep_faults("beside the attacker", traffic);
        self.beside.extend(samples);
    }

    fn keep_faults(&mut self, when: &str, traffic: Traffic) -> Vec<Sample> {
        self.faults.extend(traffic.faults.into_iter().map(|fault| format!("{when}: {fault}")));
        traffic.samples
    }

    /// Kills the server and starts it again on its data.
    pub(super) async fn restart(&mut self) -> Result<()> {
        self.peak_memory_mb = self.peak_memory_mb()?;
        self.check_shortages().await?;
        self.server.restart().await?;
        self.victim.tenant.moved(&self.server);
        self.attacker.moved(&self.server);
        Ok(())
    }

    /// No attack leaves the server short of anything: otherwise attempts of the victim might not be made either.
    pub(super) async fn check_shortages(&mut self) -> Result<()> {
        let metrics = self.victim.tenant.get_text("/metrics").await?;
        for line in metrics.lines().filter(|line| line.starts_with("holdfast_attempts_not_made_total{")) {
            self.expect(line.ends_with(" 0"), || format!("attempts could not be made: {line}"));
        }
        Ok(())
    }

    /// Of all processes of this server so far.
    pub(super) fn peak_memory_mb(&self) -> Result<u64> {
        Ok(self.peak_memory_mb.max(self.server.peak_memory_mb().context("the server has ended")?))
    }

    /// Waits until this many attempts of the attacker have started: from then on the attack has an effect.
    pub(super) async fn started(&self, count: u64) -> Result<()> {
        until("the attacker's attempts start", Duration::from_secs(60), async || {
            Ok((self.tally.mark().started >= count).then_some(()))
        })
        .await
    }

    pub(super) fn expect(&mut self, ok: bool, otherwise: impl FnOnce() -> String) {
        if !ok {
            self.faults.push(otherwise());
        }
    }

    pub(super) fn count(&mut self, what: String) {
        self.counts.push(what);
    }
}
