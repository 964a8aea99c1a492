//! `/v1/events`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::engine::{AcceptError, Accepted, EventView, NewEvent};
use holdfast_core::ids::Tenant;
use holdfast_core::rules::event_type;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::answer::{self, Time};
use crate::auth::{Admin, Producer};
use crate::deliveries::ShownDelivery;
use crate::fields::{Fields, items_of_body};
use crate::path::PathId;
use crate::posted::Posted;
use crate::{App, Fault, Problem};

const MAX_EVENTS: usize = 100;
const MAX_ID: usize = 256;
const MAX_SUBJECT: usize = 1_024;
/// Somebody else is accepting the same id: so often, and so far apart, is asked whether they are done. 3 s together.
const MAX_LOOKS: usize = 60;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

pub(crate) async fn accept(
    State(app): State<Arc<App>>,
    Producer { tenant, .. }: Producer,
    Posted(body): Posted,
) -> Result<Response, Problem> {
    let is_list = body.trim_ascii_start().starts_with(b"[");
    let accepted = accept_when_free(&app, &tenant, &body, is_list).await.map_err(|e| refusal(e, is_list))?;
    #[derive(Serialize)]
    struct Items {
        items: Vec<Accepted>,
    }
    match <[Accepted; 1]>::try_from(accepted) {
        Ok([one]) if !is_list => Ok(answer::json(StatusCode::ACCEPTED, &one)),
        Ok(one) => Ok(answer::json(StatusCode::ACCEPTED, &Items { items: one.into() })),
        Err(items) => Ok(answer::json(StatusCode::ACCEPTED, &Items { items })),
    }
}

enum NotAccepted {
    Refused(Problem),
    Failed(AcceptError),
}

/// The body is read again for every try, so that the usual case, one try, needs no copy of it.
async fn accept_when_free(
    app: &App,
    tenant: &Tenant,
    body: &[u8],
    is_list: bool,
) -> Result<Vec<Accepted>, NotAccepted> {
    let accept = async || {
        let events = events_of(body, is_list).map_err(NotAccepted::Refused)?;
        app.engine.accept(tenant, events).await.map_err(NotAccepted::Failed)
    };
    let mut result = accept().await;
    if !is_busy(&result) {
        return result;
    }
    let mut ticks = tokio::time::interval(BETWEEN_LOOKS);
    ticks.tick().await;
    for _ in 0..MAX_LOOKS {
        ticks.tick().await;
        result = accept().await;
        if !is_busy(&result) {
            break;
        }
    }
    result
}

fn is_busy(result: &Result<Vec<Accepted>, NotAccepted>) -> bool {
    matches!(result, Err(NotAccepted::Failed(AcceptError::Busy { .. })))
}

fn refusal(error: NotAccepted, is_list: bool) -> Problem {
    match error {
        NotAccepted::Refused(problem) => problem,
        NotAccepted::Failed(AcceptError::Unavailable(error)) => error.into(),
        NotAccepted::Failed(error @ AcceptError::Busy { .. }) => {
            Problem::try_again(format!("Not accepted yet: {error}. Try again in a moment."))
        }
        NotAccepted::Failed(AcceptError::IdTaken { index, id }) => {
            let field = if is_list { format!("[{index}].id") } else { "id".to_owned() };
            let detail =
                format!("{id:?} was used for another event within the last 24 hours; give a new one");
            Problem::faults(StatusCode::CONFLICT, vec![Fault::new(field, detail)])
        }
    }
}

fn events_of(body: &[u8], is_list: bool) -> Result<Vec<NewEvent>, Problem> {
    let mut faults = Vec::new();
    let mut events = Vec::new();
    if is_list {
        let items = items_of_body(body)?;
        if items.is_empty() || items.len() > MAX_EVENTS {
            let detail = format!("The array has {} events. Post 1 to {MAX_EVENTS} at once.", items.len());
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
        events.reserve_exact(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match Fields::of_item(item, "", index) {
                Ok(fields) => events.extend(event_of(fields, &mut faults)),
                Err(fault) => faults.push(fault),
            }
        }
    } else {
        events.extend(event_of(Fields::of_body(body)?, &mut faults));
    }
    if faults.is_empty() { Ok(events) } else { Err(Problem::invalid(faults)) }
}

/// `None` only with a fault.
fn event_of(mut fields: Fields<'_>, faults: &mut Vec<Fault>) -> Option<NewEvent> {
    let id: Option<String> = fields.optional("id", "a string");
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        let detail = format!("must have 1 to {MAX_ID} visible ASCII characters, without spaces");
        fields.fault("id", detail);
    }
    let event_type: Option<String> = fields.required("type", "a dotted name such as order.created");
    if let Some(fault) = event_type.as_deref().and_then(type_fault) {
        fields.fault("type", fault);
    }
    let subject: Option<String> = fields.optional("subject", "a string");
    if subject.as_ref().is_some_and(|subject| subject.chars().count() > MAX_SUBJECT) {
        fields.fault("subject", format!("must have at most {MAX_SUBJECT} characters"));
    }
    let data = fields.raw("data");
    if data.is_none() {
        fields.fault("data", "is required: give any JSON value");
    }
    faults.extend(fields.finish());
    Some(NewEvent { id, event_type: event_type?, subject, data: data?.to_owned() })
}

pub(crate) fn is_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
}

fn type_fault(name: &str) -> Option<String> {
    if !event_type::is_name(name) {
        return Some("must be a dotted name such as order.created, of letters, digits, _ and -".to_owned());
    }
    let reserved = event_type::RESERVED;
    name.starts_with(reserved).then(|| format!("must not start with {reserved}, which is reserved"))
}

#[derive(Serialize)]
struct ShownEvent<'a> {
    id: &'a str,
    r#type: &'a str,
    timestamp: Time,
    subject: Option<&'a str>,
    /// Left out when the body is not kept, because null is something that can be posted.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    delivery_count: u64,
    deliveries: Vec<ShownDelivery<'a>>,
    /// Whether there are more deliveries than these.
    more: bool,
    /// Where all of them are listed, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<String>,
}

impl<'a> ShownEvent<'a> {
    fn of(view: &'a EventView) -> ShownEvent<'a> {
        ShownEvent {
            id: &view.event.id,
            r#type: &view.event.event_type,
            timestamp: Time(view.event.accepted_at),
            subject: view.event.subject.as_deref(),
            data: view.body.as_deref().and_then(data_of),
            delivery_count: view.event.deliveries,
            deliveries: view.deliveries.iter().map(ShownDelivery::of).collect(),
            more: view.more,
            rest: view.more.then(|| list_of_deliveries(&view.event.id)),
        }
    }
}

fn list_of_deliveries(event_id: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    format!("/v1/deliveries?{}", query.append_pair("event", event_id).finish())
}

/// What was posted as `data`, out of the body that is delivered.
fn data_of(body: &[u8]) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Delivered<'a> {
        #[serde(borrow)]
        data: &'a RawValue,
    }
    serde_json::from_slice::<Delivered<'_>>(body).ok().map(|delivered| delivered.data)
}

pub(crate) async fn view(
    State(app): State<Arc<App>>,
    Admin { tenant, .. }: Admin,
    PathId(id): PathId,
) -> Result<Response, Problem> {
    let found = if is_id(&id) { app.engine.view_event(&tenant, &id).await? } else { None };
    let view = found.ok_or_else(|| Problem::not_found("event"))?;
    Ok(answer::json(StatusCode::OK, &ShownEvent::of(&view)))
}
