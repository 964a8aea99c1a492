//! What the start of the functions is compared with: a function that answers with what it got.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

async fn answer(event: LambdaEvent<Value>) -> Result<Value, Error> {
    Ok(event.payload)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run(service_fn(answer)).await
}
