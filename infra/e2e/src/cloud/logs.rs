//! What the functions logged.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Cloud;
use crate::scene::Scene;

/// Whether some function logged a line that has all of these words in it.
pub(super) async fn has_line(scene: &Scene<'_>, cloud: &Cloud, words: &[&str]) -> Result<bool> {
    let groups = ask(scene, cloud, "DescribeLogGroups", json!({ "logGroupNamePrefix": "/" })).await?;
    for group in groups["logGroups"].as_array().into_iter().flatten() {
        let mut cursor = Value::Null;
        loop {
            let mut request = json!({ "logGroupName": group["logGroupName"] });
            if !cursor.is_null() {
                request["nextToken"] = cursor;
            }
            let page = ask(scene, cloud, "FilterLogEvents", request).await?;
            for event in page["events"].as_array().into_iter().flatten() {
                let line = event["message"].as_str().unwrap_or_default();
                if words.iter().all(|word| line.contains(word)) {
                    return Ok(true);
                }
            }
            cursor = page["nextToken"].clone();
            if cursor.is_null() {
                break;
            }
        }
    }
    Ok(false)
}

async fn ask(scene: &Scene<'_>, cloud: &Cloud, action: &str, body: Value) -> Result<Value> {
    let request = scene.host.client().post(&cloud.endpoint);
    let request = request
        .header("content-type", "application/x-amz-json-1.1")
        .header("x-amz-target", format!("Logs_20140328.{action}"));
    let response = request.body(body.to_string()).send().await?;
    let (status, text) = (response.status(), response.text().await?);
    ensure!(status.is_success(), "{action}: {status} {text}");
    Ok(serde_json::from_str(&text)?)
}
