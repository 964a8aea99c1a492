//! `/v1/events`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use holdfast_core::engine::{
    AcceptError, Accepted, EventFilter, EventView, ListedEvent, NewEvent, OverQuota, PostError, Posted,
};
use holdfast_core::ids::Tenant;
use holdfast_core::rules::event_type::{self, MAX_SEGMENT_LEN, MAX_SEGMENTS};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::auth::{KeyHolder, ListScope, Producer, Viewer};
use crate::body::RequestBody;
use crate::deliveries::DeliveryJson;
use crate::fields::{Fields, items_of_body};
use crate::params::Params;
use crate::path::PathId;
use crate::problem::whole_secs;
use crate::response::{self, Time};
use crate::suggest::quote;
use crate::trace::Trace;
use crate::{App, FieldError, Problem};

const MAX_EVENTS: usize = 100;
const MAX_ID_BYTES: usize = 256;
const MAX_SUBJECT_CHARS: usize = 1_024;
/// While another request accepts an event with the same id, this one waits for its result, 3 s in all.
const BUSY_WAITS_MS: [u64; 6] = [50, 100, 200, 400, 800, 1_450];
/// Several ids may be accepted by other requests. After so many of them the producer is to post again.
const MAX_BUSY_POSTS: usize = 4;

pub(crate) async fn accept(
    Producer { app, tenant }: Producer,
    Trace(trace): Trace,
    body: RequestBody,
) -> Result<Response, Problem> {
    let _turn = app.turns.to_post(&tenant).await?;
    let ((mut events, is_list), _held) = body.parse(parse_events).await?;
    let span = trace.map(|caller| app.engine.start_accept_span(&caller));
    if let Some(span) = &span {
        events.iter_mut().for_each(|event| event.trace = Some(span.context.clone()));
    }
    let posted = post_with_retries(&app, &tenant, &events, is_list).await;
    if let Some(span) = &span {
        let error = posted.is_err().then_some("not accepted");
        app.engine.end_accept_span(span, &tenant, events.len(), error);
    }
    let Posted { accepted, warnings } = posted?;
    #[derive(Serialize)]
    struct ItemsJson<'a> {
        items: &'a [Accepted],
    }
    let mut response = match accepted.as_slice() {
        [one] if !is_list => response::json(StatusCode::ACCEPTED, one),
        items => response::json(StatusCode::ACCEPTED, &ItemsJson { items }),
    };
    if !warnings.is_empty() {
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let value = HeaderValue::try_from(warnings.join("; ")).expect("warnings are names and numbers");
        response.headers_mut().insert("holdfast-quota-warning", value);
    }
    Ok(response)
}

async fn post_with_retries(
    app: &App,
    tenant: &Tenant,
    events: &[NewEvent],
    is_list: bool,
) -> Result<Posted, Problem> {
    let mut waits = BUSY_WAITS_MS.into_iter().map(Duration::from_millis);
    let mut posts = 0;
    loop {
        posts += 1;
        let busy = match app.engine.post(tenant, events).await {
            Ok(posted) => return Ok(posted),
            Err(PostError::OverQuota(refused)) => return Err(over_quota(&refused)),
            Err(PostError::NotAccepted(error)) => error,
        };
        let AcceptError::Busy { id, .. } = &busy else { return Err(problem(busy, is_list)) };
        // Only that id is read meanwhile: a post may have a hundred, and a tenant hundreds of posts that wait.
        loop {
            let Some(wait) = waits.next().filter(|_| posts < MAX_BUSY_POSTS) else {
                return Err(problem(busy, is_list));
            };
            #[expect(
                clippy::disallowed_methods,
                reason = "the request that accepts the id may be in another process"
            )]
            tokio::time::sleep(wait).await;
            if !app.engine.is_being_accepted(tenant, id).await? {
                break;
            }
        }
    }
}

fn over_quota(refused: &OverQuota) -> Problem {
    let wait = refused.retry_after();
    let secs = whole_secs(wait);
    let raise = "or ask an operator to raise the quota.";
    let detail = match refused {
        OverQuota::Rate { .. } => {
            format!("Not accepted: {refused}; post again after {secs} s, post fewer events, {raise}")
        }
        OverQuota::Waiting { largest: None, .. } => {
            format!("Not accepted: {refused}; post again after {secs} s, {raise}")
        }
        OverQuota::Waiting { largest: Some((id, url, bytes)), .. } => format!(
            "Not accepted: {refused}, {bytes} of them to {url} ({id}); fix that receiver, enable the URL, delete its subscription, {raise}"
        ),
        OverQuota::Stored { .. } => format!(
            "Not accepted: {refused}; post again when older events have been removed, post smaller events, {raise}"
        ),
    };
    Problem::too_many(wait, detail)
}

fn problem(error: AcceptError, is_list: bool) -> Problem {
    match error {
        AcceptError::Unavailable(error) => error.into(),
        error @ AcceptError::Busy { .. } => {
            Problem::unavailable(format!("Not accepted: {error}; try again."))
        }
        AcceptError::IdTaken { index, id } => {
            let field = if is_list { format!("[{index}].id") } else { "id".to_owned() };
            let detail = format!("{id:?} was used for another event within the last 24 hours; use a new id");
            Problem::fields(StatusCode::CONFLICT, vec![FieldError::new(field, detail)])
        }
    }
}

/// One event or several, and whether they were posted as a list.
pub(crate) fn parse_events(body: &[u8]) -> Result<(Vec<NewEvent>, bool), Problem> {
    let is_list = body.trim_ascii_start().starts_with(b"[");
    let mut errors = Vec::new();
    let mut events = Vec::new();
    if is_list {
        let items = items_of_body(body)?;
        if items.is_empty() || items.len() > MAX_EVENTS {
            let detail = format!("The array has {} events; post 1 to {MAX_EVENTS} at once.", items.len());
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
        events.reserve_exact(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match Fields::of_item(item, "", index) {
                Ok(fields) => events.extend(parse_event(fields, &mut errors)),
                Err(error) => errors.push(error),
            }
        }
    } else {
        events.extend(parse_event(Fields::of_body(body)?, &mut errors));
    }
    if errors.is_empty() { Ok((events, is_list)) } else { Err(Problem::invalid(errors)) }
}

/// An event that is not posted: it has no id, and may be one of Holdfast's own.
pub(crate) fn parse_sample(body: &[u8]) -> Result<NewEvent, Problem> {
    let mut fields = Fields::of_body(body)?;
    let event_type: Option<String> = fields.required("type", "a dotted name such as order.created");
    if let Some(name) = event_type.as_deref().filter(|name| !event_type::is_name(name)) {
        fields.reject("type", type_error(name).unwrap_or_default());
    }
    let subject: Option<String> = fields.optional("subject", "a string");
    fields.check_length("subject", subject.as_deref(), MAX_SUBJECT_CHARS);
    let data = fields.raw("data").map(ToOwned::to_owned);
    if data.is_none() {
        fields.reject("data", "is required; give any JSON value");
    }
    let errors = fields.finish();
    match (event_type, data) {
        (Some(event_type), Some(data)) if errors.is_empty() => {
            Ok(NewEvent { id: None, event_type, subject, data, trace: None })
        }
        _ => Err(Problem::invalid(errors)),
    }
}

/// `None` only with an error.
fn parse_event(mut fields: Fields<'_>, errors: &mut Vec<FieldError>) -> Option<NewEvent> {
    let id: Option<String> = fields.optional("id", "a string");
    if let Some(id) = id.as_ref().filter(|id| !is_id(id)) {
        let detail = format!(
            "must have 1 to {MAX_ID_BYTES} visible ASCII characters, without spaces, not {}",
            quote(id)
        );
        fields.reject("id", detail);
    }
    let event_type: Option<String> = fields.required("type", "a dotted name such as order.created");
    if let Some(detail) = event_type.as_deref().and_then(type_error) {
        fields.reject("type", detail);
    }
    let subject: Option<String> = fields.optional("subject", "a string");
    fields.check_length("subject", subject.as_deref(), MAX_SUBJECT_CHARS);
    let data = fields.raw("data");
    if data.is_none() {
        fields.reject("data", "is required; give any JSON value");
    }
    errors.extend(fields.finish());
    Some(NewEvent { id, event_type: event_type?, subject, data: data?.to_owned(), trace: None })
}

pub(crate) fn is_id(id: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
}

fn type_error(name: &str) -> Option<String> {
    if !event_type::is_name(name) {
        let (name, example) = (quote(name), "order.created");
        return Some(format!(
            "{name} is not an event type; use up to {MAX_SEGMENTS} segments of up to {MAX_SEGMENT_LEN} letters, digits, _ and -, with dots \
             between them, such as {example}"
        ));
    }
    let reserved = event_type::RESERVED;
    name.starts_with(reserved)
        .then(|| format!("{} is reserved; use a name that does not start with {reserved}", quote(name)))
}

#[derive(Serialize)]
struct ListedEventJson<'a> {
    id: &'a str,
    r#type: &'a str,
    subject: Option<&'a str>,
    accepted_at: Time,
    deliveries: u64,
}

impl<'a> ListedEventJson<'a> {
    fn of(event: &'a ListedEvent) -> ListedEventJson<'a> {
        ListedEventJson {
            id: &event.id,
            r#type: &event.event_type,
            subject: event.subject.as_deref(),
            accepted_at: Time(event.accepted_at),
            deliveries: event.deliveries,
        }
    }
}

pub(crate) async fn list(scope: ListScope, mut params: Params) -> Result<Response, Problem> {
    let filter = EventFilter {
        event_type: params.filter("type"),
        subject: params.filter("subject"),
        since: params.time("since"),
        until: params.time("until"),
    };
    // Holdfast's own types too.
    if let Some(name) = filter.event_type.as_deref().filter(|name| !event_type::is_name(name)) {
        params.reject("type", type_error(name).unwrap_or_default());
    }
    let (engine, filter) = (&scope.app.engine, &filter);
    let load =
        |tenant, after, limit| async move { Ok(engine.list_events(&tenant, filter, after, limit).await?) };
    let page = scope.list("events", params, load).await?;
    Ok(response::list(&page, ListedEventJson::of))
}

#[derive(Serialize)]
struct EventJson<'a> {
    id: &'a str,
    r#type: &'a str,
    timestamp: Time,
    subject: Option<&'a str>,
    /// Left out when the body is not stored, because null could have been posted.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    delivery_count: u64,
    deliveries: Vec<DeliveryJson<'a>>,
    /// There are more deliveries than these.
    more: bool,
    /// The path that lists all of them, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<String>,
}

impl<'a> EventJson<'a> {
    fn of(view: &'a EventView) -> EventJson<'a> {
        EventJson {
            id: &view.event.id,
            r#type: &view.event.event_type,
            timestamp: Time(view.event.accepted_at),
            subject: view.event.subject.as_deref(),
            data: view.body.as_deref().and_then(posted_data),
            delivery_count: view.event.deliveries,
            deliveries: view.deliveries.iter().map(DeliveryJson::of).collect(),
            more: view.more,
            rest: view.more.then(|| deliveries_path(&view.event.id)),
        }
    }
}

fn deliveries_path(event_id: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    format!("/v1/deliveries?{}", query.append_pair("event", event_id).finish())
}

/// `data` as it was posted, taken from the body that is delivered.
fn posted_data(body: &[u8]) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Delivered<'a> {
        #[serde(borrow)]
        data: &'a RawValue,
    }
    serde_json::from_slice::<Delivered<'_>>(body).ok().map(|delivered| delivered.data)
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    PathId(id): PathId,
) -> Result<Response, Problem> {
    let found = if is_id(&id) { viewer.engine.view_event(&viewer.tenant, &id).await? } else { None };
    let view = found.ok_or_else(|| Problem::not_found("event"))?;
    let bytes = view.body.as_ref().map_or(0, |body| body.len());
    app.turns
        .work(&KeyHolder::Tenant(viewer.tenant), bytes, move || response::ok(&EventJson::of(&view)))
        .await
}
