//! Serves every call of the API except `POST /v1/events`, which is served by `ingest`.

#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::Arc;

use holdfast_api::{App, BuiltIn, Keys};
use holdfast_aws::gateway;

fn main() -> ExitCode {
    gateway::serve_api("holdfast-admin", holdfast_egress::sender, |engine, key| {
        let operator = BuiltIn::operator(key.name, &key.key, key.description, key.change);
        holdfast_api::router(Arc::new(App::new(engine, Keys::new(vec![operator]))))
    })
}
