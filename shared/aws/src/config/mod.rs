//! The configuration, from the environment: strings in, a checked struct out, once, at cold start. All faults are reported together, so
//! that they are not fixed one deployment at a time.

mod egress_policy;
mod faults;
mod loopback;
mod reader;
#[cfg(test)]
mod tests;

use std::time::Duration;

use holdfast_core::engine::{DeliveryLog, Settings};
use holdfast_core::ports::QueueName;
use holdfast_core::rules::guard::EgressPolicy;

pub use faults::Faults;
use reader::Reader;

use crate::deadline::to_settle;
use crate::queue::QueueUrls;

/// The longest that SQS hides a received message.
const MAX_VISIBILITY_S: u64 = 43_200;
/// The longest that Lambda lets a function run.
const MAX_FUNCTION_S: u64 = 900;
/// With this, one real millisecond is more than a quarter of an hour.
const MAX_TIME_SCALE: u64 = 1_000_000;
const DAY_S: u64 = 86_400;
/// A function that accepts events has 256 MB by default, and keeps the subscriptions of up to four such tenants.
const MAX_INDEX_BYTES: u64 = 32 << 20;
const MAX_KEEP_DAYS: u64 = 3_650;
const HOUR_S: u64 = 3_600;
const MAX_OVERLAP_HOURS: u64 = 720;
/// One invocation makes a step of a release, and has a few seconds for it.
const MAX_RELEASE_CEILING: u64 = 10_000;
/// Messages must stay invisible while a function handles them. AWS recommends six times its timeout.
const VISIBILITY_PER_FUNCTION_TIMEOUT: u64 = 6;

/// The configuration of every function. Its only secret is the proxy's password, which is never shown.
#[derive(Clone, Debug)]
pub struct Config {
    pub table: String,
    pub queue_urls: QueueUrls,
    pub settings: Settings,
    /// Where attempts may go, and how.
    pub egress_policy: EgressPolicy,
    /// How long both queues hide a received message.
    pub visibility: Duration,
    /// How many seconds of the schedule clock pass in one real second.
    pub time_scale: u32,
    /// The name under which metrics are published.
    pub stack: String,
    pub log_level: tracing::Level,
}

#[derive(Clone, Debug)]
pub struct ApiConfig {
    pub common: Config,
    /// The ARN or name of the secret that holds the operator key.
    pub operator_secret: String,
}

/// For the function that delivers, which is deployed once per trigger.
#[derive(Clone, Debug)]
pub struct DeliverConfig {
    pub common: Config,
    pub trigger: Trigger,
    /// The SNS topic that gets Holdfast's own events of all tenants, if there is one.
    pub events_topic: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Queue(QueueName),
    Sweep,
}

/// Looks up an environment variable, for the `read` functions. Tests pass their own lookup.
#[must_use]
pub fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment, at cold start")]
    std::env::var(name).ok()
}

impl ApiConfig {
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<ApiConfig, Faults> {
        let mut reader = Reader::new(&lookup);
        let common = common(&mut reader);
        let operator_secret = reader.text("HOLDFAST_OPERATOR_SECRET");
        reader.finish(|| Some(ApiConfig { common: common?, operator_secret: operator_secret? }))
    }
}

impl DeliverConfig {
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<DeliverConfig, Faults> {
        let mut reader = Reader::new(&lookup);
        let common = common(&mut reader);
        let triggers = [
            ("first", Trigger::Queue(QueueName::First)),
            ("slow", Trigger::Queue(QueueName::Slow)),
            ("retry", Trigger::Queue(QueueName::Retry)),
            ("sweep", Trigger::Sweep),
        ];
        let trigger = reader.choice("HOLDFAST_TRIGGER", &triggers);
        let events_topic = reader.optional("HOLDFAST_EVENTS_TOPIC");
        if let Some(topic) = events_topic.as_ref().filter(|topic| !is_topic_arn(topic)) {
            reader.fault(format!("HOLDFAST_EVENTS_TOPIC is {topic:?}, but must be the ARN of an SNS topic"));
        }
        reader.finish(|| {
            let (mut common, trigger) = (common?, trigger?);
            common.settings.slow_queue = trigger == Trigger::Queue(QueueName::First);
            Some(DeliverConfig { common, trigger, events_topic })
        })
    }
}

fn is_topic_arn(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    matches!(parts.as_slice(), ["arn", _, "sns", _, _, name] if !name.is_empty())
}

/// `None` only with a fault.
fn common(reader: &mut Reader<'_>) -> Option<Config> {
    // Everything is read before the first `?`, so that every fault is found.
    let table = reader.text("HOLDFAST_TABLE");
    let first = reader.url("HOLDFAST_FIRST_QUEUE_URL");
    let slow = reader.url("HOLDFAST_SLOW_QUEUE_URL");
    let retry = reader.url("HOLDFAST_RETRY_QUEUE_URL");
    let dead_letters = reader.url("HOLDFAST_DEAD_LETTER_QUEUE_URL");
    let stack = reader.text("HOLDFAST_STACK");
    let settings = settings(reader);
    let egress_policy =
        egress_policy::egress_policy(reader, settings.as_ref().is_some_and(|settings| settings.http_allowed));
    let visibility = visibility(reader, settings.as_ref());
    let time_scale = time_scale(reader);
    let levels = [
        ("error", tracing::Level::ERROR),
        ("warn", tracing::Level::WARN),
        ("info", tracing::Level::INFO),
        ("debug", tracing::Level::DEBUG),
    ];
    let log_level = reader.choice("HOLDFAST_LOG_LEVEL", &levels);
    Some(Config {
        table: table?,
        queue_urls: QueueUrls { first: first?, slow: slow?, retry: retry?, dead_letters: dead_letters? },
        settings: settings?,
        egress_policy: egress_policy?,
        visibility: visibility?,
        time_scale: time_scale?,
        stack: stack?,
        log_level: log_level?,
    })
}

fn settings(reader: &mut Reader<'_>) -> Option<Settings> {
    let http_timeout_ms = reader.number("HOLDFAST_HTTP_TIMEOUT_MS", 1..=MAX_FUNCTION_S * 1_000);
    let function_timeout_s = reader.number("HOLDFAST_FUNCTION_TIMEOUT_S", 1..=MAX_FUNCTION_S);
    let keep_days = reader.number("HOLDFAST_KEEP_DAYS", 1..=MAX_KEEP_DAYS);
    let secret_overlap_hours = reader.number("HOLDFAST_SECRET_OVERLAP_HOURS", 0..=MAX_OVERLAP_HOURS);
    let release_ceiling = reader.number("HOLDFAST_RELEASE_CEILING", 1..=MAX_RELEASE_CEILING);
    let logs = [("all", DeliveryLog::All), ("trouble", DeliveryLog::Trouble)];
    let delivery_log = reader.choice("HOLDFAST_DELIVERY_LOG", &logs);
    let http_allowed = reader.choice("HOLDFAST_HTTP_TARGETS", &[("refuse", false), ("allow", true)]);
    let settings = Settings {
        http_timeout: Duration::from_millis(http_timeout_ms?),
        function_timeout: Duration::from_secs(function_timeout_s?),
        keep: Duration::from_secs(keep_days? * DAY_S),
        delivery_log: delivery_log?,
        http_allowed: http_allowed?,
        secret_overlap: Duration::from_secs(secret_overlap_hours? * HOUR_S),
        max_index_bytes: MAX_INDEX_BYTES,
        release_ceiling: u32::try_from(release_ceiling?).unwrap_or(u32::MAX),
        ..Settings::default()
    };
    let faults = settings.faults();
    if faults.is_empty() {
        check_time_for_an_attempt(reader, &settings);
    }
    for fault in faults {
        reader.fault(format!(
            "HOLDFAST_HTTP_TIMEOUT_MS, HOLDFAST_FUNCTION_TIMEOUT_S and HOLDFAST_KEEP_DAYS are inconsistent: {fault}"
        ));
    }
    Some(settings)
}

/// An attempt that might not end in time is not started: without time for one, nothing would ever be attempted.
fn check_time_for_an_attempt(reader: &mut Reader<'_>, settings: &Settings) {
    let Settings { http_timeout, function_timeout, .. } = settings;
    let max = *function_timeout - to_settle(*function_timeout) - settings.time_to_record();
    if *http_timeout >= max {
        reader.fault(format!(
            "HOLDFAST_HTTP_TIMEOUT_MS is {}, but must be less than {}: with HOLDFAST_FUNCTION_TIMEOUT_S {} the rest is needed to record the attempt",
            http_timeout.as_millis(),
            max.as_millis(),
            function_timeout.as_secs(),
        ));
    }
}

fn visibility(reader: &mut Reader<'_>, settings: Option<&Settings>) -> Option<Duration> {
    let visibility_s = reader.number("HOLDFAST_VISIBILITY_S", 1..=MAX_VISIBILITY_S)?;
    let min_s = settings?.function_timeout.as_secs() * VISIBILITY_PER_FUNCTION_TIMEOUT;
    if visibility_s < min_s {
        reader.fault(format!(
            "HOLDFAST_VISIBILITY_S is {visibility_s}, but must be at least {min_s}: \
             {VISIBILITY_PER_FUNCTION_TIMEOUT} times HOLDFAST_FUNCTION_TIMEOUT_S"
        ));
    }
    Some(Duration::from_secs(visibility_s))
}

fn time_scale(reader: &mut Reader<'_>) -> Option<u32> {
    let scale = reader.number("HOLDFAST_TIME_SCALE", 1..=MAX_TIME_SCALE)?;
    let endpoint = reader.optional("AWS_ENDPOINT_URL");
    if scale > 1 && !endpoint.as_deref().is_some_and(loopback::is_loopback) {
        reader.fault(format!(
            "HOLDFAST_TIME_SCALE is {scale}, but must be 1: more is for tests, where AWS_ENDPOINT_URL is a loopback address"
        ));
    }
    u32::try_from(scale).ok()
}

impl Config {
    /// Logs the configuration in one line, without secrets.
    pub fn log(&self, function: &str) {
        let settings = &self.settings;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            function,
            stack = self.stack,
            table = self.table,
            first_queue_url = self.queue_urls.first,
            slow_queue_url = self.queue_urls.slow,
            retry_queue_url = self.queue_urls.retry,
            dead_letter_queue_url = self.queue_urls.dead_letters,
            http_timeout_ms = settings.http_timeout.as_millis() as u64,
            function_timeout_s = settings.function_timeout.as_secs(),
            visibility_s = self.visibility.as_secs(),
            keep_days = settings.keep.as_secs() / DAY_S,
            secret_overlap_hours = settings.secret_overlap.as_secs() / HOUR_S,
            release_ceiling = settings.release_ceiling,
            delivery_log = ?settings.delivery_log,
            http_allowed = settings.http_allowed,
            allowed_targets = ?self.egress_policy.guard.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
            denied_targets = ?self.egress_policy.guard.deny.iter().map(ToString::to_string).collect::<Vec<_>>(),
            target_ports = %self.egress_policy.guard.ports,
            proxy = self.egress_policy.proxy.as_ref().map(ToString::to_string),
            time_scale = self.time_scale,
            "starting"
        );
    }
}
