//! The black-box suite: takes a base URL and an operator's key, and drives any host over HTTP, in a tenant that it makes for itself.
//!
//! Every scenario brings its own event types and its own paths at a receiver inside this process, so that all of them run at
//! the same time, and on a host that already has data.

pub mod clock;
#[cfg(feature = "aws")]
pub mod cloud;
pub mod host;
pub mod key;
pub mod receiver;
pub mod scenarios;
pub mod scene;
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

/// So many scenarios run at the same time. Some of them measure real time, so the machine must not be buried in work.
const AT_ONCE: usize = 3;

/// What came of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub passed: Vec<&'static str>,
    /// With the whole chain of what went wrong.
    pub failed: Vec<(&'static str, String)>,
}

/// Runs the scenarios, or only those whose name contains `only`, and prints a line for each as it ends.
pub async fn run(host: &Host, only: Option<&str>) -> Report {
    match host.in_own_tenant().await {
        Ok(host) => run_everywhere(&host, only).await,
        Err(error) => Report::not_begun(&error),
    }
}

async fn run_everywhere(host: &Host, only: Option<&str>) -> Report {
    let chosen = scenarios::all().into_iter().filter(|scenario| is_chosen(scenario.name, only));
    let runs = chosen.map(|scenario| async move {
        let began = Instant::now();
        let result = (scenario.run)(Scene::new(host, scenario.name)).await;
        (scenario.name, result, began.elapsed())
    });
    let mut ended = futures_util::stream::iter(runs).buffer_unordered(AT_ONCE);
    let mut report = Report::default();
    while let Some((name, result, took)) = ended.next().await {
        report.add(name, result, took);
    }
    report
}

/// The same, and then those for AWS, one at a time.
#[cfg(feature = "aws")]
pub async fn run_on_aws(host: &Host, cloud: &Cloud, only: Option<&str>) -> Report {
    let host = match host.in_own_tenant().await {
        Ok(host) => host,
        Err(error) => return Report::not_begun(&error),
    };
    let mut report = run_everywhere(&host, only).await;
    for scenario in cloud::all().into_iter().filter(|scenario| is_chosen(scenario.name, only)) {
        let began = Instant::now();
        let result = (scenario.run)(Scene::new(&host, scenario.name), cloud).await;
        report.add(scenario.name, result, began.elapsed());
    }
    report
}

fn is_chosen(name: &str, only: Option<&str>) -> bool {
    only.is_none_or(|part| name.contains(part))
}

impl Report {
    fn not_begun(error: &anyhow::Error) -> Report {
        println!("FAILED  no tenant could be made: {error:#}");
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
