//! A function with invalid settings does not start, and reports all faults together. One of them is a time scale anywhere but on an
//! emulator.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::Cloud;
use crate::scene::Scene;

const WITHIN: Duration = Duration::from_secs(20);

pub(super) async fn run(_: Scene<'_>, cloud: &Cloud) -> Result<()> {
    let urls = &cloud.queues.urls;
    let valid = [
        // Nothing listens there, so that a function that does start cannot do anything.
        ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:1"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("HOLDFAST_STACK", "holdfast"),
        ("HOLDFAST_TRIGGER", "first"),
        ("HOLDFAST_TABLE", "table"),
        ("HOLDFAST_FIRST_QUEUE_URL", &urls.first),
        ("HOLDFAST_SLOW_QUEUE_URL", &urls.slow),
        ("HOLDFAST_RETRY_QUEUE_URL", &urls.retry),
        ("HOLDFAST_DEAD_LETTER_QUEUE_URL", &urls.dead_letters),
        ("HOLDFAST_HTTP_TIMEOUT_MS", "5000"),
        ("HOLDFAST_FUNCTION_TIMEOUT_S", "30"),
        ("HOLDFAST_VISIBILITY_S", "180"),
        ("HOLDFAST_KEEP_DAYS", "14"),
        ("HOLDFAST_DELIVERY_LOG", "all"),
        ("HOLDFAST_HTTP_TARGETS", "refuse"),
        ("HOLDFAST_TIME_SCALE", "120"),
        ("HOLDFAST_LOG_LEVEL", "info"),
    ];
    let no_endpoint: [(&str, &str); 0] = [];
    refuses(cloud, &valid, &no_endpoint, &["HOLDFAST_TIME_SCALE"]).await?;
    let elsewhere =
        [("AWS_ENDPOINT_URL", "https://sqs.us-east-1.amazonaws.com"), ("HOLDFAST_KEEP_DAYS", "ten")];
    refuses(cloud, &valid, &elsewhere, &["HOLDFAST_TIME_SCALE", "HOLDFAST_KEEP_DAYS"]).await
}

async fn refuses(cloud: &Cloud, valid: &[(&str, &str)], more: &[(&str, &str)], named: &[&str]) -> Result<()> {
    let mut command = Command::new(&cloud.function);
    command.env_clear().envs(valid.iter().copied()).envs(more.iter().copied());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(WITHIN, command.output()).await;
    let output = ended.context("the function keeps running")?.context("the function cannot be run")?;
    let output_text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(!output.status.success(), "the function ended with success: {output_text}");
    for name in named {
        ensure!(output_text.contains(name), "{name} is not reported: {output_text}");
    }
    for (name, _) in valid.iter().filter(|(name, _)| name.starts_with("HOLDFAST_") && !named.contains(name)) {
        ensure!(!output_text.contains(name), "{name} is valid but reported: {output_text}");
    }
    Ok(())
}
