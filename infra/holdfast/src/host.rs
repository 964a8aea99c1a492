//! Wires everything together on one machine, and stops it in order.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_api::{App, Keys};
use holdfast_core::engine::{DeliveryLog, Engine, Ports, Settings as EngineSettings};
use holdfast_core::ports::{Clock, QueueName};
use holdfast_egress::{EgressConfig, HttpSender};
use holdfast_embedded::{Database, Embedded, Options};
use holdfast_host::OsEntropy;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::key::HostKey;
use crate::pump::Pump;
use crate::receivers::{self, Receivers};
use crate::server::{self, Connections, Deadlines};
use crate::settings::{Mode, Settings};
use crate::status::{self, Status};
use crate::{clock, files, greeting, periodic};

/// How long the stop waits for attempts in flight. In the last half second of it, new events are not attempted.
const LAST_ATTEMPTS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long requests to the API may take when everything else has stopped.
const LAST_REQUESTS_TIMEOUT: Duration = Duration::from_millis(200);

pub(crate) async fn run(settings: Settings) -> Result<()> {
    settings.log();
    let bounds = files::bound_connections(files::raise_limit()?, &settings)?;
    tracing::info!(connections = bounds.connections, per_peer = bounds.per_peer, "API connections");
    // Before the server can be seen to run: from here on, a signal stops it in order.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Before anything is written, so that a second server on the same port does not disturb the first.
    let listener = server::listen(settings.listen).with_context(|| {
        format!("cannot listen on {}; choose another address with --listen", settings.listen)
    })?;
    let address = listener.local_addr()?;
    let database = Database::open(&settings.data)?;
    let clock = clock::load(&database, settings.speed)?;
    ensure!(
        settings.mode == Mode::Development || clock.anchor().is_real(),
        "the schedule clock of {} was accelerated by `holdfast dev --speed` and is not real time; choose another folder with --data",
        settings.data.display()
    );
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let key = HostKey::load_or_create(settings.mode, &settings.data, &OsEntropy)?;
    let options = Options {
        visibility: settings.visibility(),
        per_group_limit: settings.url_concurrency,
        first_concurrency: settings.first_concurrency,
        retry_concurrency: settings.retry_concurrency,
        // The log of all deliveries has their bodies too.
        keep_bodies: (settings.engine.delivery_log == DeliveryLog::All)
            .then(|| settings.engine.body_lifetime()),
        ..Options::default()
    };
    let embedded = Arc::new(Embedded::new(database, Arc::clone(&clock), options)?);
    let engine = Arc::new(engine(&settings, &embedded, &clock)?);
    let app = App::new(Arc::clone(&engine), Keys::new(vec![key.built_in()]));
    let connections = Arc::new(Connections::new(bounds));
    let own_tenants = key.built_in().home.into_iter().collect();
    let status = Status::new(&engine, &embedded, &connections, &clock, own_tenants);
    let mut router = holdfast_api::router(Arc::new(app)).merge(status::router(Arc::clone(&status)));
    if settings.mode == Mode::Development {
        router = router.merge(receivers::router(Arc::new(Receivers::new(Arc::clone(&clock)))));
    }

    let (stop_work, work_stopped) = watch::channel(false);
    let mut work = start_work(&settings, &engine, &embedded, &clock, &work_stopped);
    watch_work(&mut work, &settings, &engine, &status, &work_stopped);
    let (stop_serving, serving_stopped) = watch::channel(false);
    let server = server::serve(listener, router, connections, Deadlines::DEFAULT, serving_stopped)
        .context("cannot start the thread that accepts connections")?;
    let server = tokio::spawn(server);
    let greeting = match settings.mode {
        Mode::Development => greeting::development(address, key.text(), settings.speed),
        Mode::Strict => greeting::strict(address, key.path()),
    };
    // Not `println!`, which would end the server when the reader of its output has gone.
    let _ = writeln!(std::io::stdout(), "{greeting}");

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping: finishing the attempts in flight");
    // The API keeps running meanwhile, because the built-in receivers respond to attempts in flight.
    let _ = stop_work.send(true);
    finish(work, settings.engine.http_timeout.min(LAST_ATTEMPTS_TIMEOUT)).await;
    let _ = stop_serving.send(true);
    let _ = tokio::time::timeout(LAST_REQUESTS_TIMEOUT, server).await;
    engine.flush_activity(true).await;
    tokio::task::spawn_blocking(move || embedded.close()).await?;
    Ok(())
}

async fn finish(mut work: JoinSet<()>, within: Duration) {
    let finished = tokio::time::timeout(within, async { while work.join_next().await.is_some() {} });
    if finished.await.is_err() {
        tracing::warn!("some attempts did not end in time; they are repeated at the next start");
        work.abort_all();
    }
}

fn engine(settings: &Settings, embedded: &Embedded, clock: &Arc<dyn Clock>) -> Result<Engine> {
    let egress = EgressConfig {
        timeout: settings.engine.http_timeout,
        // As many as both pumps may use at a time: with fewer, connections would be closed and opened all the time.
        pool_max_idle_per_host: settings.url_concurrency * 2,
        // The files that are reserved for them.
        pool_max_idle: settings.first_concurrency + settings.retry_concurrency,
        guard: settings.egress_policy.guard.clone(),
        proxy: settings.egress_policy.proxy.clone(),
        ..EgressConfig::default()
    };
    let ports = Ports {
        store: Arc::clone(&embedded.store) as _,
        queue: Arc::clone(&embedded.queue) as _,
        backlog: Arc::clone(&embedded.backlog) as _,
        sender: Arc::new(HttpSender::new(egress, Arc::clone(clock))?),
        clock: Arc::clone(clock),
        entropy: Arc::new(OsEntropy),
    };
    // The data folder belongs to one process at a time.
    let only_process_since_real = Some(clock.now_real());
    Ok(Engine::new(ports, EngineSettings { only_process_since_real, ..settings.engine.clone() }))
}

/// The two pumps, the purge, the activity counts and the check for damage.
fn start_work(
    settings: &Settings,
    engine: &Arc<Engine>,
    embedded: &Arc<Embedded>,
    clock: &Arc<dyn Clock>,
    stop: &watch::Receiver<bool>,
) -> JoinSet<()> {
    let mut work = JoinSet::new();
    let pools =
        [(QueueName::First, settings.first_concurrency), (QueueName::Retry, settings.retry_concurrency)];
    for (name, concurrency) in pools {
        let pump = Pump { engine: Arc::clone(engine), queue: Arc::clone(&embedded.queue), name, concurrency };
        work.spawn(pump.run(stop.clone()));
    }
    work.spawn(periodic::purge(Arc::clone(embedded), Arc::clone(clock), stop.clone()));
    work.spawn(periodic::flush_activity(Arc::clone(engine), stop.clone()));
    work.spawn(periodic::check(Arc::clone(embedded), stop.clone()));
    work
}

/// The sweep, and the counts that the status shows.
fn watch_work(
    work: &mut JoinSet<()>,
    settings: &Settings,
    engine: &Arc<Engine>,
    status: &Arc<Status>,
    stop: &watch::Receiver<bool>,
) {
    work.spawn(periodic::sweep(Arc::clone(engine), Arc::clone(status), settings.speed, stop.clone()));
    work.spawn(periodic::count_states(Arc::clone(status), stop.clone()));
    work.spawn(periodic::collect_counters(Arc::clone(status), stop.clone()));
}
