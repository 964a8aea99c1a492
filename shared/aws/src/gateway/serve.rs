use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use holdfast_core::engine::Engine;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::value::RawValue;
use tower::{Service, ServiceExt};

use super::{Reply, reply, request};
use crate::config::Faults;
use crate::{chain, flush_activity};

/// Answers events of API Gateway by this service, which works with this engine, until the process ends.
pub async fn serve<S, B>(service: S, engine: &Engine) -> Result<(), Faults>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes, Error: Error>,
{
    let handle = service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let reply = answer(service.clone(), event.payload).await;
        flush_activity(engine).await;
        reply
    });
    lambda_runtime::run(handle).await.map_err(|error| Faults::of("the runtime ended", &*error))
}

/// The answer to one event.
pub async fn answer<S, B>(service: S, event: Box<RawValue>) -> Result<Reply, Diagnostic>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes, Error: Error>,
{
    let request = request(event.get()).map_err(|error| failed("NotARequest", &error))?;
    let Ok(response) = service.oneshot(request.map(Full::new)).await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| failed("NoAnswer", &error))?.to_bytes();
    Ok(reply(Response::from_parts(parts, body)))
}

/// What Lambda logs, and tells whoever invoked the function.
fn failed(error_type: &str, error: &dyn Error) -> Diagnostic {
    Diagnostic { error_type: error_type.to_owned(), error_message: chain(error) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// Says what it was asked, and answers with it.
    async fn echo(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let response =
            Response::builder().status(202).header("x-asked", format!("{} {}", parts.method, parts.uri));
        Ok(response.body(body).unwrap())
    }

    #[tokio::test]
    async fn an_event_is_answered_by_the_service() {
        let event = json!({
            "version": "2.0", "rawPath": "/v1/events", "rawQueryString": "a=b", "headers": {},
            "requestContext": { "http": { "method": "POST" } }, "body": "é", "isBase64Encoded": false,
        });
        let event = RawValue::from_string(event.to_string()).unwrap();
        let reply = serde_json::to_value(answer(service_fn(echo), event).await.unwrap()).unwrap();
        assert_eq!((&reply["statusCode"], &reply["body"]), (&202.into(), &"é".into()), "{reply}");
        assert_eq!(reply["headers"]["x-asked"], "POST /v1/events?a=b");
    }

    #[tokio::test]
    async fn an_event_of_something_else_is_an_error() {
        for event in ["{}", "null", r#"{"Records":[]}"#] {
            let event = RawValue::from_string(event.to_owned()).unwrap();
            let error = answer(service_fn(echo), event).await.unwrap_err();
            assert_eq!(error.error_type, "NotARequest");
            assert!(
                error.error_message.starts_with("not an event of an HTTP API"),
                "{}",
                error.error_message
            );
        }
    }
}
