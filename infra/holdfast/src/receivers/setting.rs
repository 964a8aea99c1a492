use holdfast_api::Problem;
use serde::Serialize;
use serde_json::{Map, Value};

use super::bad_request;
use super::reply::{FINAL_STATUSES, Reply};

/// How a receiver that can be switched responds. `PUT` takes `{"answer": 503}` or `{"answer": "hang"}`; absent fields have their
/// defaults, so `{}` resets a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Setting {
    /// A status from 200 to 599, or `"hang"`; 200 by default.
    pub(super) answer: Reply,
    /// The `retry-after` of that response, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<u32>,
    /// How many requests still get a 500 before `answer`.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fail_next: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Default for Setting {
    fn default() -> Setting {
        Setting::always(Reply::Status(200))
    }
}

impl Setting {
    pub(super) fn always(answer: Reply) -> Setting {
        Setting { answer, retry_after: None, fail_next: 0 }
    }

    pub(super) fn parse(body: &[u8]) -> Result<Setting, Problem> {
        let fields: Map<String, Value> =
            serde_json::from_slice(body).map_err(|e| bad_request(format!("body: not a JSON object: {e}")))?;
        let mut setting = Setting::default();
        for (name, value) in &fields {
            match name.as_str() {
                "answer" => setting.answer = parse_answer(value)?,
                "retry_after" => setting.retry_after = Some(parse_count(name, value)?),
                "fail_next" => setting.fail_next = parse_count(name, value)?,
                _ => {
                    return Err(bad_request(format!(
                        "{name}: unknown field; the fields are answer, retry_after and fail_next"
                    )));
                }
            }
        }
        Ok(setting)
    }

    /// The next response and its `retry-after`.
    pub(super) fn next(&mut self) -> (Reply, Option<u32>) {
        if self.fail_next > 0 {
            self.fail_next -= 1;
            return (Reply::Status(500), None);
        }
        (self.answer, self.retry_after)
    }
}

fn parse_answer(value: &Value) -> Result<Reply, Problem> {
    if value == "hang" {
        return Ok(Reply::Hang);
    }
    let status = value.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| FINAL_STATUSES.contains(n));
    status
        .map(Reply::Status)
        .ok_or_else(|| bad_request("answer: must be a status from 200 to 599, or \"hang\""))
}

fn parse_count(name: &str, value: &Value) -> Result<u32, Problem> {
    value
        .as_u64()
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| bad_request(format!("{name}: must be a whole number, zero or more")))
}
