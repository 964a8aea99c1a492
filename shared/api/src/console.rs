//! `/console`: the operators' page. Its files are part of the program, so there is nothing to install and nothing to load from elsewhere.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use crate::{Problem, response};

/// Scripts and styles come from this server only, and nothing is inline. What a customer or a receiver wrote can therefore not run, even if
/// the page had a mistake.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// The page names the version of its files, so a browser may keep these and still gets all of a new version.
const KEEP: &str = "public, max-age=31536000, immutable";
/// The page itself is asked for each time, and mostly answered with 304.
const ASK: &str = "no-cache";
const PAGE: &str = "index.html";

macro_rules! files {
    ($($name:literal)*) => {
        const FILES: &[(&str, &[u8])] = &[$(($name, include_bytes!(concat!("../../../infra/console/", $name)))),*];
    };
}

files! {
    "address.js" "api.js" "app.js" "audit.js" "bar.js" "charts.js" "clock.js" "console.css" "deliveries.js" "delivery.js" "dialog.js" "dom.js"
    "event.js" "events.js" "explain.js" "features.js" "format.js" "header.js" "health.js" "icon.svg" "index.html" "notice.js" "overview.js" "replays.js" "route.js"
    "schedule.js" "search.js" "session.js" "sign_in.js" "state.js" "subscription.js" "subscription_form.js" "subscriptions.js" "table.js"
    "test.js" "theme.js" "timeline.js" "url.js" "url_facts.js" "url_history.js" "url_names.js" "urls.js" "view.js" "when.js" "why.js"
}

/// Of all files together: modules import each other, so versions must not mix.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (name, bytes) in FILES {
        hash.update(name);
        hash.update(bytes.len().to_be_bytes());
        hash.update(bytes);
    }
    data_encoding::HEXLOWER.encode(&hash.finalize()[..8])
});

/// The page with the paths of this version. Modules import each other by relative paths and need no change.
static PAGE_TEXT: LazyLock<Bytes> = LazyLock::new(|| {
    let page = find(PAGE).map(String::from_utf8_lossy).unwrap_or_default();
    page.replace("\"/console/", &format!("\"/console/{}/", *VERSION)).into()
});

fn find(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(each, _)| *each == name).map(|(_, bytes)| *bytes)
}

/// Not in the OpenAPI document: pages are for people.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(redirect))
        .route("/console", get(page))
        .route("/console/", get(redirect))
        .route("/console/{version}/{file}", get(file))
}

async fn redirect() -> Response {
    let mut response = response::empty(StatusCode::FOUND);
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/console"));
    response
}

async fn page(request: HeaderMap) -> Response {
    answer(&request, PAGE, PAGE_TEXT.clone(), ASK)
}

/// A version that is not this one's gets the files too: while servers are replaced, the page may come from the other one. But they are not
/// kept.
async fn file(Path((version, name)): Path<(String, String)>, request: HeaderMap) -> Response {
    match find(&name).filter(|_| name != PAGE) {
        Some(bytes) => {
            let caching = if version == *VERSION { KEEP } else { ASK };
            answer(&request, &name, Bytes::from_static(bytes), caching)
        }
        None => Problem::new(StatusCode::NOT_FOUND, "The console has no such file; reload the page.")
            .into_response(),
    }
}

fn answer(request: &HeaderMap, name: &str, body: Bytes, caching: &'static str) -> Response {
    let tag = format!("\"{}\"", *VERSION);
    let is_known = request.get_all(IF_NONE_MATCH).iter().any(|known| {
        // A proxy that compresses the answer weakens the tag.
        known
            .to_str()
            .is_ok_and(|known| known.split(',').any(|each| each.trim().trim_start_matches("W/") == tag))
    });
    let mut response = if is_known {
        response::empty(StatusCode::NOT_MODIFIED)
    } else {
        response::with_body(StatusCode::OK, HeaderValue::from_static(content_type(name)), body)
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/html; charset=utf-8",
    }
}
