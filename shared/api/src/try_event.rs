//! `POST /v1/subscriptions/test`

use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{NewEvent, TriedEvent, TriedSubscription};
use holdfast_core::rules::matching::Selection;
use serde::Serialize;

use crate::Problem;
use crate::auth::Admin;
use crate::body::RequestBody;
use crate::events::parse_sample;
use crate::explain::RefusalJson;
use crate::response;

/// Each subscription with filters looks through the sample.
const MAX_SAMPLE_BYTES: usize = 65_536;

#[derive(Serialize)]
struct TriedJson<'a> {
    items: Vec<ItemJson<'a>>,
    /// How many of them match.
    matched: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
}

#[derive(Serialize)]
struct ItemJson<'a> {
    subscription_id: &'a str,
    url_id: &'a str,
    url: &'a str,
    matches: bool,
    reason: Option<&'static str>,
    refused_by: Option<RefusalJson<'a>>,
}

impl<'a> ItemJson<'a> {
    fn of(tried: &'a TriedSubscription) -> ItemJson<'a> {
        let (reason, refused_by) = match &tried.selection {
            Selection::Matches => (None, None),
            Selection::Inactive => (Some("inactive"), None),
            Selection::OtherType => (Some("type"), None),
            Selection::Refused(refusal) => (Some("filter"), Some(RefusalJson::of(refusal))),
        };
        ItemJson {
            subscription_id: tried.id.as_str(),
            url_id: tried.url_id.as_str(),
            url: &tried.url,
            matches: reason.is_none(),
            reason,
            refused_by,
        }
    }
}

pub(crate) async fn test(admin: Admin, body: RequestBody) -> Result<Response, Problem> {
    let (event, _held) = body.parse(parse).await?;
    let TriedEvent { mut items, more } = admin.engine.try_event(&admin.tenant, &event).await?;
    // Those that match first, and then those that a filter keeps from it.
    items.sort_by_key(|tried| match tried.selection {
        Selection::Matches => 0,
        Selection::Refused(_) => 1,
        Selection::Inactive => 2,
        Selection::OtherType => 3,
    });
    let matched = items.iter().filter(|tried| tried.selection == Selection::Matches).count();
    Ok(response::ok(&TriedJson { items: items.iter().map(ItemJson::of).collect(), matched, partial: more }))
}

fn parse(body: &[u8]) -> Result<NewEvent, Problem> {
    if body.len() > MAX_SAMPLE_BYTES {
        let detail = format!("The sample is larger than {MAX_SAMPLE_BYTES} bytes; use a smaller one.");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    parse_sample(body)
}
