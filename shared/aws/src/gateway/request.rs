use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use serde::Deserialize;

use super::path::{encoded, encoded_query};

/// The event is not what API Gateway sends: an error for the invoker of the function, not for a client.
#[derive(Debug, thiserror::Error)]
pub enum NotARequest {
    #[error("not an event of an HTTP API with payload format 2.0")]
    Event(#[source] serde_json::Error),
    #[error("the event's method cannot be read")]
    Method(#[source] http::Error),
    #[error("the event's path cannot be read")]
    Path(#[source] http::Error),
    #[error("the event's body is not base64, although it says so")]
    Body(#[source] data_encoding::DecodeError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[expect(dead_code, reason = "read only to be checked")]
    version: Version,
    #[serde(borrow)]
    raw_path: Cow<'a, str>,
    #[serde(borrow, default)]
    raw_query_string: Cow<'a, str>,
    #[serde(default)]
    headers: HashMap<String, String>,
    request_context: RequestContext,
    /// Owned, so that it becomes the request's body without another copy.
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Deserialize)]
enum Version {
    #[serde(rename = "2.0")]
    Two,
}

#[derive(Deserialize)]
struct RequestContext {
    http: Http,
}

#[derive(Deserialize)]
struct Http {
    method: String,
}

/// Reads the event as a request, with the body exactly as it was posted.
pub fn request(event: &str) -> Result<Request<Bytes>, NotARequest> {
    let event: Event<'_> = serde_json::from_str(event).map_err(NotARequest::Event)?;
    let mut request = Request::new(body(event.body, event.is_base64_encoded)?);
    *request.method_mut() = Method::from_bytes(event.request_context.http.method.as_bytes())
        .map_err(|error| NotARequest::Method(error.into()))?;
    *request.uri_mut() = uri(&event.raw_path, &event.raw_query_string)?;
    *request.headers_mut() = headers(event.headers);
    Ok(request)
}

fn body(body: Option<String>, is_base64: bool) -> Result<Bytes, NotARequest> {
    let body = body.unwrap_or_default();
    if !is_base64 {
        return Ok(body.into());
    }
    data_encoding::BASE64.decode(body.as_bytes()).map(Bytes::from).map_err(NotARequest::Body)
}

fn uri(path: &str, query: &str) -> Result<Uri, NotARequest> {
    let mut path_and_query = encoded(path);
    if !query.is_empty() {
        path_and_query.push('?');
        path_and_query.push_str(&encoded_query(query));
    }
    path_and_query.parse().map_err(|error: http::uri::InvalidUri| NotARequest::Path(error.into()))
}

/// Leaves out what is not a valid header.
fn headers(given: HashMap<String, String>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(given.len());
    for (name, value) in given {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        {
            headers.append(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(changes: Value) -> String {
        let mut event = json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": "/v1/urls",
            "rawQueryString": "state=frozen&limit=5",
            "headers": { "authorization": "Bearer hf_x", "content-type": "application/json" },
            "requestContext": { "stage": "$default", "http": { "method": "POST", "path": "/v1/urls" } },
            "body": "{\"a\":1}",
            "isBase64Encoded": false,
        });
        event.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        event.to_string()
    }

    #[test]
    fn an_event_becomes_a_request() {
        let request = request(&event(json!({}))).unwrap();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "/v1/urls?state=frozen&limit=5");
        assert_eq!(request.headers()["authorization"], "Bearer hf_x");
        assert_eq!(request.body(), "{\"a\":1}");
    }

    #[test]
    fn bodies_are_exactly_what_was_posted() {
        let text =
            "{\"b\": 1,\n\t\"a\":\"\\u0041 é \u{ffff}\", \"a\":12345678901234567890123456789012345678901}  ";
        let plain = request(&event(json!({ "body": text }))).unwrap();
        assert_eq!(plain.body(), text);
        let all_bytes: Vec<u8> = (0..=255).collect();
        let base64 = data_encoding::BASE64.encode(&all_bytes);
        let binary = request(&event(json!({ "body": base64, "isBase64Encoded": true }))).unwrap();
        assert_eq!(binary.body(), &all_bytes);
        let looks_encoded = request(&event(json!({ "body": "aGFsbG8=" }))).unwrap();
        assert_eq!(looks_encoded.body(), "aGFsbG8=");
        for none in [json!({ "body": null }), json!({ "body": "" })] {
            assert!(request(&event(none)).unwrap().body().is_empty());
        }
    }

    #[test]
    fn unusual_paths_and_headers_are_accepted() {
        let unusual = request(&event(json!({
            "rawPath": "/v1/events/a b\"\u{7f}?x",
            "rawQueryString": "",
            "headers": { "x-name": "é", "not a name": "x", "x-lines": "a\nb" },
        })))
        .unwrap();
        assert_eq!(unusual.uri(), "/v1/events/a%20b%22%7F%3Fx");
        assert_eq!(unusual.headers().len(), 1);
    }

    #[test]
    fn any_other_event_is_rejected_with_a_reason() {
        let table = [
            ("{}".to_owned(), "payload format 2.0"),
            ("[1]".to_owned(), "payload format 2.0"),
            (event(json!({ "version": "1.0" })), "payload format 2.0"),
            (event(json!({ "requestContext": {} })), "payload format 2.0"),
            (event(json!({ "requestContext": { "http": { "method": "NO METHOD" } } })), "method"),
            (event(json!({ "isBase64Encoded": true })), "base64"),
        ];
        for (event, expected) in table {
            let error = request(&event).unwrap_err().to_string();
            assert!(error.contains(expected), "{event}: {error}");
        }
    }
}
