//! Takes events: `POST /v1/events` of the API, apart from all other calls so that nothing else slows it.

mod handler;

use std::process::ExitCode;
use std::sync::Arc;

use holdfast_api::{App, Keys};
use holdfast_aws::config::{ApiConfig, Faults, environment};
use holdfast_aws::{Cloud, gateway, logging, operator_key};
use holdfast_egress::{EgressConfig, HttpSender};
use lambda_runtime::{LambdaEvent, service_fn};

const NAME: &str = "holdfast-ingest";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(faults) => faults.refuse(NAME),
    }
}

async fn run() -> Result<(), Faults> {
    let ApiConfig { common: config, operator_secret } = ApiConfig::read(environment)?;
    logging::start(config.log_level);
    config.log(NAME);
    let cloud = Cloud::connect(config, gateway::LONGEST_ANSWER).await;
    let key = operator_key::fetch(cloud.sdk(), &operator_secret).await?;
    let egress = EgressConfig { timeout: cloud.config().settings.http_timeout, ..EgressConfig::default() };
    let sender = HttpSender::new(egress, cloud.clock())
        .map_err(|error| Faults::of("attempts cannot be made", &error))?;
    let engine = Arc::new(cloud.engine(Arc::new(sender)));
    let keys = Keys::single(&key, "default".into());
    let router = holdfast_api::router(Arc::new(App { engine: Arc::clone(&engine), keys }));
    let serve = service_fn(async |event: LambdaEvent<_>| {
        let reply = handler::handle(router.clone(), event).await;
        holdfast_aws::flush_activity(&engine).await;
        reply
    });
    lambda_runtime::run(serve).await.map_err(|error| Faults::of("the runtime ended", &*error))
}
