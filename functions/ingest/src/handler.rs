//! Translates between API Gateway and the router, and nothing else.

#[cfg(test)]
mod tests;

use std::error::Error;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Response;
use holdfast_aws::gateway::{self, Reply};
use lambda_runtime::{Diagnostic, LambdaEvent};
use serde_json::value::RawValue;
use tower::ServiceExt;

pub(crate) async fn handle(router: Router, event: LambdaEvent<Box<RawValue>>) -> Result<Reply, Diagnostic> {
    let request = gateway::request(event.payload.get()).map_err(|error| failed("NotARequest", &error))?;
    let Ok(response) = router.oneshot(request.map(Body::from)).await;
    let (parts, body) = response.into_parts();
    // Answers are made whole before they are sent, so there is nothing to limit.
    let body = to_bytes(body, usize::MAX).await.map_err(|error| failed("NoAnswer", &error))?;
    Ok(gateway::reply(Response::from_parts(parts, body)))
}

/// What Lambda logs, and tells whoever invoked the function.
fn failed(error_type: &str, error: &dyn Error) -> Diagnostic {
    Diagnostic { error_type: error_type.to_owned(), error_message: holdfast_aws::chain(error) }
}
