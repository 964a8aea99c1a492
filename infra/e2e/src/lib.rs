//! The black-box suite: takes a base URL and an operator key, creates a tenant, and drives any host over HTTP.
//!
//! Every scenario has its own event types and its own paths at a receiver in this process, so that scenarios can run concurrently,
//! and on a host that already has data.

pub mod clock;
#[cfg(feature = "aws")]
pub mod cloud;
pub mod host;
pub mod isolation;
pub mod key;
pub mod receiver;
pub mod scenarios;
pub mod scene;
pub mod soak;
#[cfg(feature = "aws")]
pub mod strict_aws;
pub mod timing;
pub mod views;
pub mod waiting;

use std::time::Duration;

use anyhow::Result;
use futures_util::StreamExt;
use tokio::time::Instant;

#[cfg(feature = "aws")]
pub use cloud::Cloud;
pub use host::{Answer, Host};
pub use key::Key;
pub use receiver::{Arrival, Receiver, Reply};
pub use scene::Scene;
pub use timing::Timing;

/// How many scenarios run at the same time. Some measure real time, so the machine must not be overloaded.
const CONCURRENCY: usize = 3;

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub passed: Vec<&'static str>,
    /// With the error chain.
    pub failed: Vec<(&'static str, String)>,
}

/// Runs the scenarios, or only those whose name contains `only`, and prints a line for each as it ends.
pub async fn run(host: &Host, only: Option<&str>) -> Report {
    match host.in_own_tenant().await {
        Ok(host) => run_common(&host, only).await,
        Err(error) => Report::not_started(&error),
    }
}

async fn run_common(host: &Host, only: Option<&str>) -> Report {
    let selected = scenarios::all().into_iter().filter(|scenario| is_selected(scenario.name, only));
    let runs = selected.map(|scenario| async move {
        let started = Instant::now();
        let result = (scenario.run)(Scene::new(host, scenario.name)).await;
        (scenario.name, result, started.elapsed())
    });
    let mut ended = futures_util::stream::iter(runs).buffer_unordered(CONCURRENCY);
    let mut report = Report::default();
    while let Some((name, result, took)) = ended.next().await {
        report.add(name, result, took);
    }
    report
}

/// Runs the same scenarios, then those for AWS, one at a time.
#[cfg(feature = "aws")]
pub async fn run_on_aws(host: &Host, cloud: &Cloud, only: Option<&str>) -> Report {
    let host = match host.in_own_tenant().await {
        Ok(host) => host,
        Err(error) => return Report::not_started(&error),
    };
    let mut report = run_common(&host, only).await;
    for scenario in cloud::all().into_iter().filter(|scenario| is_selected(scenario.name, only)) {
        let started = Instant::now();
        let result = (scenario.run)(Scene::new(&host, scenario.name), cloud).await;
        report.add(scenario.name, result, started.elapsed());
    }
    report
}

fn is_selected(name: &str, only: Option<&str>) -> bool {
    only.is_none_or(|part| name.contains(part))
}

impl Report {
    fn not_started(error: &anyhow::Error) -> Report {
        println!("FAILED  no tenant could be created: {error:#}");
        Report { passed: Vec::new(), failed: vec![("own tenant", format!("{error:#}"))] }
    }

    fn add(&mut self, name: &'static str, result: Result<()>, took: Duration) {
        let seconds = took.as_secs_f64();
        match result {
            Ok(()) => {
                println!("ok      {name} ({seconds:.1} s)");
                self.passed.push(name);
            }
            Err(error) => {
                println!("FAILED  {name} ({seconds:.1} s): {error:#}");
                self.failed.push((name, format!("{error:#}")));
            }
        }
    }
}
