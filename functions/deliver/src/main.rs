//! Makes attempts. One binary, deployed four times: for first attempts, for those of slow URLs, for retries and for the sweep, so that none
//! of them slows another.

mod handler;
mod sqs_event;

use std::process::ExitCode;

use handler::Handler;
use holdfast_aws::config::{DeliverConfig, Faults, environment};
use holdfast_aws::{StateCounter, start};
use lambda_runtime::service_fn;

const NAME: &str = "holdfast-deliver";

fn main() -> ExitCode {
    start::run(NAME, run())
}

async fn run() -> Result<(), Faults> {
    let DeliverConfig { common: config, trigger, events_topic } = DeliverConfig::read(environment)?;
    let function_timeout = config.settings.function_timeout;
    let cloud = start::connect(NAME, config, function_timeout);
    let mut engine = cloud.engine(holdfast_egress::sender)?;
    if let Some(feed) = cloud.feed(events_topic.as_deref()) {
        engine = engine.with_feed(feed);
    }
    let handler = Handler {
        engine,
        inbox: cloud.queue(),
        trigger,
        stack: cloud.config().stack.clone(),
        states: StateCounter::default(),
    };
    let deliver = service_fn(|event| handler.handle(event));
    lambda_runtime::run(deliver).await.map_err(|error| Faults::of("the runtime ended", &*error))
}
