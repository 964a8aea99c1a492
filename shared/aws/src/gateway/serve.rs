use std::convert::Infallible;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::engine::Engine;
use holdfast_core::ports::{Clock, Sender, chain};
use holdfast_core::rules::guard::EgressPolicy;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::value::RawValue;
use tower::{Service, ServiceExt};

use super::{Reply, TIMEOUT, reply, request};
use crate::config::{ApiConfig, Faults, environment};
use crate::operator_key::{self, OperatorKey};
use crate::{flush_activity, metrics, start};

/// Runs a function that serves the API, until the process ends: reads the configuration and the operator key, and answers API
/// Gateway's events by the service that `router` builds over the engine.
pub fn serve_api<S, B, E>(
    function: &str,
    sender: impl FnOnce(Duration, EgressPolicy, Arc<dyn Clock>) -> Result<Arc<dyn Sender>, E>,
    router: impl FnOnce(Arc<Engine>, OperatorKey) -> S,
) -> ExitCode
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes, Error: Error>,
    E: Error,
{
    let run = async {
        let ApiConfig { common, operator_secret } = ApiConfig::read(environment)?;
        let cloud = start::connect(function, common, TIMEOUT);
        let key = operator_key::fetch(&cloud.sdk, &operator_secret).await?;
        let engine = Arc::new(cloud.engine(sender)?);
        let service = router(Arc::clone(&engine), key);
        let handle = service_fn(async |event: LambdaEvent<Box<RawValue>>| {
            let reply = answer(service.clone(), event.payload).await;
            flush_activity(&engine).await;
            if let Some(accepted) = metrics::of_posts(engine.take_counters()) {
                metrics::publish(&cloud.config().stack, engine.clock().now_real(), &[accepted]);
            }
            reply
        });
        lambda_runtime::run(handle).await.map_err(|error| Faults::of("the runtime ended", &*error))
    };
    start::run(function, run)
}

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

/// Lambda logs this and returns it to the invoker.
fn failed(error_type: &str, error: &dyn Error) -> Diagnostic {
    Diagnostic { error_type: error_type.to_owned(), error_message: chain(error) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// Responds with the request's own method, path and body.
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
