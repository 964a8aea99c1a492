//! Everything that a run consists of.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::cast::{self, Role, TENANTS};
use super::ledger::Ledger;
use super::receivers::Receivers;
use super::server::Server;
use super::trouble::Interruption;
use super::{Disk, Plan};
use crate::host::Host;
use crate::key::Key;
use crate::receiver::Receiver;
use crate::views::text;

/// How often progress is printed.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);
/// How often the counters of the server are read, which a kill clears.
const METRICS_INTERVAL: Duration = Duration::from_millis(250);
/// How many faults are described.
const MAX_FAULTS: usize = 60;

/// A subscription as the server knows it.
#[derive(Clone, Debug)]
pub(super) struct Subscribed {
    pub(super) id: String,
    /// Of its first URL.
    pub(super) url_id: String,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) started: Instant,
    pub(super) server: Server,
    pub(super) receivers: Receivers,
    pub(super) cast: Arc<Vec<Role>>,
    /// In the order of the cast.
    pub(super) subscribed: Vec<Subscribed>,
    pub(super) ledger: Ledger,
    hosts: Vec<Host>,
    seeds: Mutex<fastrand::Rng>,
    state: Mutex<State>,
    folder: TempDir,
}

#[derive(Default)]
struct State {
    counts: BTreeMap<&'static str, u64>,
    interruptions: Vec<Interruption>,
    /// Those that were answered 202, with their tenants.
    replays: Vec<(usize, String)>,
    /// Attempts that the server did not count, because it was too busy to see how they ended: of processes that have ended, and of the
    /// present one.
    not_counted: (u64, u64),
    faults: Vec<String>,
    more_faults: usize,
}

impl World {
    pub(super) async fn new(binary: &Path, plan: &Plan) -> Result<World> {
        let mut rng = fastrand::Rng::with_seed(plan.seed);
        let cast = Arc::new(cast::assemble());
        let started = Instant::now();
        let receivers = Receivers::start(Arc::clone(&cast), rng.fork(), started).await?;
        let folder = match &plan.disk {
            Disk::Limited => tempfile::tempdir()?,
            Disk::Small(folder) => tempfile::tempdir_in(folder)?,
        };
        let server = Server::start(binary, plan.speed, folder.path().to_owned()).await?;
        let mut hosts = Vec::new();
        for tenant in 0..TENANTS {
            hosts.push(host(&server, plan.speed, &format!("tenant-{tenant}")).await?);
        }
        let mut subscribed = Vec::new();
        for (number, role) in cast.iter().enumerate() {
            let url = receivers.url(number, false);
            let (one, secret) = subscribe(&hosts[role.tenant], &url, role).await?;
            receivers.learn_secret(number, secret);
            subscribed.push(one);
        }
        Ok(World {
            plan: plan.clone(),
            started,
            server,
            receivers,
            cast,
            subscribed,
            ledger: Ledger::default(),
            hosts,
            seeds: Mutex::new(rng),
            state: Mutex::default(),
            folder,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client of a tenant, at the present address of the server.
    pub(super) fn host(&self, tenant: usize) -> Host {
        let mut host = self.hosts[tenant].clone();
        host.base = self.server.base();
        host
    }

    /// Randomness for one of the participants.
    pub(super) fn rng(&self) -> fastrand::Rng {
        self.seeds.lock().unwrap_or_else(PoisonError::into_inner).fork()
    }

    pub(super) fn count(&self, what: &'static str) {
        *self.state().counts.entry(what).or_default() += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.state().counts.clone()
    }

    /// Something that was promised did not hold.
    pub(super) fn fault(&self, fault: String) {
        let mut state = self.state();
        if state.faults.len() < MAX_FAULTS {
            state.faults.push(fault);
        } else {
            state.more_faults += 1;
        }
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let state = self.state();
        let mut faults = state.faults.clone();
        if state.more_faults > 0 {
            faults.push(format!("and {} more", state.more_faults));
        }
        faults
    }

    pub(super) fn interrupted(&self, interruption: Interruption) {
        self.state().interruptions.push(interruption);
    }

    pub(super) fn interruptions(&self) -> Vec<Interruption> {
        self.state().interruptions.clone()
    }

    pub(super) fn replay_started(&self, tenant: usize, id: String) {
        self.state().replays.push((tenant, id));
    }

    pub(super) fn replays(&self) -> Vec<(usize, String)> {
        self.state().replays.clone()
    }

    /// A new process has begun to count.
    pub(super) fn counters_were_cleared(&self) {
        let mut state = self.state();
        let (ended, running) = state.not_counted;
        state.not_counted = (ended + running, 0);
    }

    pub(super) fn not_counted(&self) -> u64 {
        let (ended, running) = self.state().not_counted;
        ended + running
    }

    pub(super) fn say(&self, what: &str) {
        if self.plan.verbose {
            println!("{:>5} s  {what}", self.started.elapsed().as_secs());
        }
    }

    /// Prints progress, and reads the counters that a kill clears.
    pub(super) async fn watch(&self, until: Instant) {
        let mut ticks = interval(METRICS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut printed_at = self.started;
        while Instant::now() < until {
            ticks.tick().await;
            self.read_counters().await;
            if printed_at.elapsed() >= PROGRESS_INTERVAL {
                printed_at = Instant::now();
                let received: u64 = self.receivers.outcomes().values().sum();
                let (posted, troubles) = (self.ledger.posted().len(), self.interruptions().len());
                self.say(&format!(
                    "{posted} events posted, {received} requests received, {troubles} interruptions"
                ));
            }
        }
    }

    /// The server may be down.
    pub(super) async fn read_counters(&self) {
        let Ok(metrics) = self.metrics().await else { return };
        let all = metrics.iter().filter(|(name, _)| name.starts_with("holdfast_attempts_not_made_total"));
        let running = all.map(|(_, value)| value).sum();
        let mut state = self.state();
        state.not_counted.1 = state.not_counted.1.max(running);
    }

    pub(super) async fn metrics(&self) -> Result<BTreeMap<String, u64>> {
        let answer = self.host(0).get("/metrics").await?;
        let lines = answer.text.lines().filter(|line| !line.starts_with('#'));
        // Values that are not whole numbers are not needed.
        let values = lines
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        Ok(values.collect())
    }

    /// The data folder and the log stay, so that a fault can be looked into.
    pub(super) fn keep_data(&self) {
        let copy = std::env::temp_dir().join(format!("holdfast-soak-{}", self.plan.seed));
        if std::fs::rename(self.folder.path(), &copy).is_ok() {
            println!("The data folder and the server's log are kept in {}.", copy.display());
        }
    }
}

async fn host(server: &Server, speed: u32, tenant: &str) -> Result<Host> {
    // Its receiver is not used.
    let mut host = Host::with(&server.base(), &server.operator_key(), speed, Receiver::start().await?)?;
    host.key = Key::create(&host, json!({ "tenant": tenant, "role": "admin" })).await?.text;
    host.tenant = tenant.to_owned();
    Ok(host)
}

/// The subscription and its secret, which is shown only once.
async fn subscribe(host: &Host, url: &str, role: &Role) -> Result<(Subscribed, String)> {
    let body = json!({ "url": url, "event_types": [role.family.pattern()] });
    let created: Value = host.post("/v1/subscriptions", body.to_string()).await?.expect(201)?;
    let field = |name| text(&created, name).map(str::to_owned).context("a subscription");
    Ok((Subscribed { id: field("id")?, url_id: field("url_id")? }, field("secret")?))
}

/// Lets time pass. The seed decides how much: it is a part of the story, and nothing is waited for.
pub(super) async fn pass(time: Duration) {
    // Always times out.
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
