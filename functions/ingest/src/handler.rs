//! Translates between API Gateway and the router, and nothing else.

use axum::Router;
use axum::body::{Body, to_bytes};
use holdfast_aws::gateway::{self, Reply};
use lambda_runtime::{Error, LambdaEvent};
use serde_json::value::RawValue;
use tower::ServiceExt;

pub(crate) async fn handle(router: Router, event: LambdaEvent<Box<RawValue>>) -> Result<Reply, Error> {
    let request = gateway::request(event.payload.get())?;
    let (parts, body) = router.oneshot(request.map(Body::from)).await?.into_parts();
    // Answers are made whole before they are sent, so there is nothing to limit.
    let body = to_bytes(body, usize::MAX).await?;
    Ok(gateway::reply(axum::http::Response::from_parts(parts, body)))
}

#[cfg(test)]
mod tests;
