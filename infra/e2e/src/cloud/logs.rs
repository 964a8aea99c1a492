//! The functions' logs.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Cloud;
use crate::scene::Scene;

/// Whether a function has logged a line with all of these words since then, in milliseconds. `None` if the logs could not be read now. The
/// emulator shows the first 10,000 lines and no more.
pub(super) async fn has_line(
    scene: &Scene<'_>,
    cloud: &Cloud,
    since_ms: u64,
    words: &[&str],
) -> Result<Option<bool>> {
    let groups = json!({ "logGroupNamePrefix": "/" });
    let Some(groups) = ask(scene, cloud, "DescribeLogGroups", groups).await? else { return Ok(None) };
    for group in groups["logGroups"].as_array().into_iter().flatten() {
        let mut cursor = Value::Null;
        loop {
            let mut request = json!({ "logGroupName": group["logGroupName"], "startTime": since_ms });
            if !cursor.is_null() {
                request["nextToken"] = cursor;
            }
            let Some(page) = ask(scene, cloud, "FilterLogEvents", request).await? else { return Ok(None) };
            for event in page["events"].as_array().into_iter().flatten() {
                let line = event["message"].as_str().unwrap_or_default();
                if words.iter().all(|word| line.contains(word)) {
                    return Ok(Some(true));
                }
            }
            cursor = page["nextToken"].clone();
            if cursor.is_null() {
                break;
            }
        }
    }
    Ok(Some(false))
}

/// `None` if the emulator failed because a function was writing to the log at that moment.
async fn ask(scene: &Scene<'_>, cloud: &Cloud, action: &str, body: Value) -> Result<Option<Value>> {
    let request = scene.host.client().post(&cloud.endpoint);
    let request = request
        .header("content-type", "application/x-amz-json-1.1")
        .header("x-amz-target", format!("Logs_20140328.{action}"));
    let response = request.body(body.to_string()).send().await?;
    let (status, text) = (response.status(), response.text().await?);
    if status.as_u16() == 500 && text.contains("changed size during iteration") {
        return Ok(None);
    }
    ensure!(status.is_success(), "{action}: {status} {text}");
    Ok(Some(serde_json::from_str(&text)?))
}
