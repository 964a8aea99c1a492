//! From exec to the first poll of the Runtime API, and to the answer to the first event, compared with a bare function.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Bench;
use crate::lambda::Lambda;
use crate::measure::{median, memory, now};
use crate::report::Figure;
use crate::report::Target::AtMost;

const STARTS: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(30);
const BARE: &str = "holdfast-bench-bare";

/// A post with a key that is looked up in the store, and a batch of first attempts whose subscriptions are looked up.
const EVENTS: [(&str, &str); 4] = [
    (BARE, include_str!("../../../../functions/ingest/events/post.json")),
    ("holdfast-ingest", include_str!("../../../../functions/ingest/events/post.json")),
    ("holdfast-admin", include_str!("../../../../functions/ingest/events/post.json")),
    ("holdfast-deliver", include_str!("../../../../functions/deliver/events/first.json")),
];

const ENVIRONMENT: [(&str, &str); 21] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_REGION", "us-east-1"),
    ("AWS_LAMBDA_FUNCTION_NAME", "bench"),
    ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
    ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
    ("HOLDFAST_TABLE", "bench"),
    ("HOLDFAST_STACK", "bench"),
    ("HOLDFAST_TRIGGER", "first"),
    ("HOLDFAST_OPERATOR_SECRET", "bench"),
    ("HOLDFAST_HTTP_TIMEOUT_MS", "5000"),
    ("HOLDFAST_FUNCTION_TIMEOUT_S", "30"),
    ("HOLDFAST_KEEP_DAYS", "14"),
    ("HOLDFAST_SECRET_OVERLAP_HOURS", "24"),
    ("HOLDFAST_RELEASE_CEILING", "2560"),
    ("HOLDFAST_DELIVERY_LOG", "all"),
    ("HOLDFAST_HTTP_TARGETS", "refuse"),
    ("HOLDFAST_ALLOWED_TARGETS", ""),
    ("HOLDFAST_DENIED_TARGETS", ""),
    ("HOLDFAST_VISIBILITY_S", "180"),
    ("HOLDFAST_TIME_SCALE", "1"),
];
const QUEUES: [&str; 4] = ["FIRST_QUEUE", "SLOW_QUEUE", "RETRY_QUEUE", "DEAD_LETTER_QUEUE"];

/// Of one function, one value for each start.
#[derive(Default)]
struct Starts {
    poll_ms: Vec<f64>,
    answer_ms: Vec<f64>,
    memory_mb: Vec<f64>,
}

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let Some(folder) = &bench.functions else {
        eprintln!("no cold starts: name the folder of the functions' programs with --functions");
        return Ok(Vec::new());
    };
    let mut all: Vec<Starts> = EVENTS.iter().map(|_| Starts::default()).collect();
    // In turn, so that all of them have the same machine.
    for _ in 0..STARTS {
        for ((name, event), starts) in EVENTS.iter().zip(&mut all) {
            start(&folder.join(name), event, starts).await.with_context(|| format!("{name} failed"))?;
        }
    }
    let mut figures = Vec::new();
    let bare = &all[0];
    for ((name, _), starts) in EVENTS.iter().zip(&all) {
        let (poll, answer) = (median(&starts.poll_ms), median(&starts.answer_ms));
        if *name != BARE {
            let polled = poll / median(&bare.poll_ms);
            let answered = answer / median(&bare.answer_ms);
            figures.push(Figure::ratio(format!("{name}, first poll of bare"), polled).target(AtMost(2.0)));
            figures
                .push(Figure::ratio(format!("{name}, first answer of bare"), answered).target(AtMost(1.5)));
        }
        figures.push(Figure::new(format!("{name}, first poll"), poll, "ms"));
        figures.push(Figure::new(format!("{name}, first answer"), answer, "ms"));
        figures.push(Figure::new(format!("{name}, memory"), median(&starts.memory_mb), "MB"));
        figures.push(Figure::new(format!("{name}, program"), size_mb(&folder.join(name))?, "MB"));
    }
    Ok(figures)
}

fn size_mb(program: &Path) -> Result<f64> {
    Ok(fs::metadata(program)?.len() as f64 / f64::from(1 << 20))
}

async fn start(program: &PathBuf, event: &str, starts: &mut Starts) -> Result<()> {
    ensure!(program.is_file(), "{} does not exist", program.display());
    let mut lambda = Lambda::start(event).await?;
    let address = lambda.address.to_string();
    let mut command = Command::new(program);
    command.env_clear().envs(ENVIRONMENT).envs(queues(&address));
    command.env("AWS_LAMBDA_RUNTIME_API", &address).env("AWS_ENDPOINT_URL", format!("http://{address}"));
    command.env("HOLDFAST_LOG_LEVEL", "error").stdin(Stdio::null()).stdout(Stdio::null());
    let began = now();
    let mut child = command.spawn()?;
    let first_event = tokio::time::timeout(TIMEOUT, lambda.first_event()).await;
    let memory = memory(child.id());
    child.kill()?;
    child.wait()?;
    let (polled, answered) = first_event.context("it did not answer an event in time")??;
    starts.poll_ms.push((polled - began).as_secs_f64() * 1_000.0);
    starts.answer_ms.push((answered - began).as_secs_f64() * 1_000.0);
    starts.memory_mb.push(memory?.peak);
    Ok(())
}

fn queues(address: &str) -> impl Iterator<Item = (String, String)> {
    QUEUES
        .iter()
        .map(move |name| (format!("HOLDFAST_{name}_URL"), format!("http://{address}/000000000000/{name}")))
}
