//! Accepts events: serves `POST /v1/events`, separately from all other calls so that none of them slows it.

#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::Arc;

use holdfast_api::{App, BuiltIn, Keys};
use holdfast_aws::gateway;

fn main() -> ExitCode {
    gateway::serve_api("holdfast-ingest", holdfast_egress::sender, |engine, key| {
        let operator = BuiltIn::operator(key.name, &key.key, key.description, key.change);
        holdfast_api::router(Arc::new(App::new(engine, Keys::new(vec![operator]))))
    })
}
