//! Takes events: `POST /v1/events` of the API, apart from all other calls so that nothing else slows it.

#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::Arc;

use holdfast_api::{App, BuiltIn, HashedKey, Keys};
use holdfast_aws::config::Faults;
use holdfast_aws::{gateway, operator_key, start};

const NAME: &str = "holdfast-ingest";

#[tokio::main]
async fn main() -> ExitCode {
    start::exit(NAME, run().await)
}

async fn run() -> Result<(), Faults> {
    let (cloud, key) = start::for_api(NAME).await?;
    let engine = Arc::new(cloud.engine(holdfast_egress::sender)?);
    let operator = BuiltIn {
        name: operator_key::NAME,
        key: HashedKey::of(&key),
        home: None,
        description: operator_key::DESCRIPTION,
        change: operator_key::CHANGE,
    };
    let app = App { engine: Arc::clone(&engine), keys: Keys::new(vec![operator]) };
    gateway::serve(holdfast_api::router(Arc::new(app)), &engine).await
}
