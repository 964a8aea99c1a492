use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::engine::DeliveryLog;
use holdfast_core::ports::QueueName;
use holdfast_core::rules::guard::EgressPolicy;

use super::{ApiConfig, DeliverConfig, Faults, Trigger};

const VALID: [(&str, &str); 18] = [
    ("HOLDFAST_STACK", "holdfast"),
    ("HOLDFAST_TABLE", "holdfast-table"),
    ("HOLDFAST_FIRST_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/123456789012/first"),
    ("HOLDFAST_SLOW_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/123456789012/slow"),
    ("HOLDFAST_RETRY_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/123456789012/retry"),
    ("HOLDFAST_DEAD_LETTER_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/123456789012/dead"),
    ("HOLDFAST_OPERATOR_SECRET", "arn:aws:secretsmanager:eu-central-1:123456789012:secret:key"),
    ("HOLDFAST_TRIGGER", "retry"),
    ("HOLDFAST_HTTP_TIMEOUT_MS", "5000"),
    ("HOLDFAST_FUNCTION_TIMEOUT_S", "30"),
    ("HOLDFAST_VISIBILITY_S", "180"),
    ("HOLDFAST_KEEP_DAYS", "14"),
    ("HOLDFAST_SECRET_OVERLAP_HOURS", "24"),
    ("HOLDFAST_RELEASE_CEILING", "2560"),
    ("HOLDFAST_DELIVERY_LOG", "all"),
    ("HOLDFAST_HTTP_TARGETS", "refuse"),
    ("HOLDFAST_TIME_SCALE", "1"),
    ("HOLDFAST_LOG_LEVEL", "info"),
];

/// The valid environment with some variables changed; an empty value counts as not set.
fn with<'a>(changes: &[(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + use<'a> {
    let all: BTreeMap<&str, &str> = VALID.into_iter().chain(changes.iter().copied()).collect();
    move |name| all.get(name).map(|value| (*value).to_owned())
}

fn deliver_faults(changes: &[(&str, &str)]) -> Vec<String> {
    match DeliverConfig::read(with(changes)) {
        Ok(_) => Vec::new(),
        Err(Faults(faults)) => faults,
    }
}

#[test]
fn a_valid_environment_is_accepted() {
    let DeliverConfig { common, trigger, events_topic } = DeliverConfig::read(with(&[])).unwrap();
    assert_eq!(events_topic, None);
    assert_eq!(trigger, Trigger::Queue(QueueName::Retry));
    assert_eq!(common.table, "holdfast-table");
    assert_eq!(common.settings.http_timeout, Duration::from_secs(5));
    assert_eq!(common.settings.function_timeout, Duration::from_secs(30));
    assert_eq!(common.settings.keep, Duration::from_secs(14 * 86_400));
    assert_eq!(common.settings.delivery_log, DeliveryLog::All);
    assert_eq!(common.settings.release_ceiling, 2_560);
    assert!(!common.settings.http_allowed);
    assert_eq!(common.egress_policy, EgressPolicy::default(), "strict by default");
    assert_eq!((common.visibility, common.time_scale), (Duration::from_secs(180), 1));
    assert_eq!(common.log_level, tracing::Level::INFO);
    let api = ApiConfig::read(with(&[("HOLDFAST_TRIGGER", "")])).unwrap();
    assert!(api.operator_secret.starts_with("arn:"));
}

#[test]
fn each_fault_is_one_sentence_that_names_its_variable() {
    let table: [(&[(&str, &str)], &str); 36] = [
        (&[("HOLDFAST_TABLE", "")], "HOLDFAST_TABLE is not set"),
        (&[("HOLDFAST_STACK", "")], "HOLDFAST_STACK is not set"),
        (&[("HOLDFAST_FIRST_QUEUE_URL", "")], "HOLDFAST_FIRST_QUEUE_URL is not set"),
        (&[("HOLDFAST_SLOW_QUEUE_URL", "")], "HOLDFAST_SLOW_QUEUE_URL is not set"),
        (&[("HOLDFAST_RETRY_QUEUE_URL", "retry")], "HOLDFAST_RETRY_QUEUE_URL is \"retry\""),
        (&[("HOLDFAST_DEAD_LETTER_QUEUE_URL", "arn:aws:sqs:x")], "must be the URL of a queue"),
        (&[("HOLDFAST_TRIGGER", "")], "HOLDFAST_TRIGGER is not set"),
        (&[("HOLDFAST_TRIGGER", "Sweep")], "one of: first, slow, retry, sweep"),
        (&[("HOLDFAST_HTTP_TIMEOUT_MS", "0")], "HOLDFAST_HTTP_TIMEOUT_MS is \"0\""),
        (&[("HOLDFAST_HTTP_TIMEOUT_MS", "5s")], "must be a whole number"),
        (&[("HOLDFAST_HTTP_TIMEOUT_MS", "30000")], "the HTTP timeout (30s) must be less than the function"),
        (
            &[("HOLDFAST_HTTP_TIMEOUT_MS", "29000")],
            "HOLDFAST_HTTP_TIMEOUT_MS is 29000, but must be less than 24000",
        ),
        (&[("HOLDFAST_FUNCTION_TIMEOUT_S", "-1")], "HOLDFAST_FUNCTION_TIMEOUT_S is \"-1\""),
        (&[("HOLDFAST_FUNCTION_TIMEOUT_S", "901")], "from 1 to 900"),
        (&[("HOLDFAST_FUNCTION_TIMEOUT_S", "31")], "HOLDFAST_VISIBILITY_S is 180, but must be at least 186"),
        (&[("HOLDFAST_VISIBILITY_S", "179")], "6 times HOLDFAST_FUNCTION_TIMEOUT_S"),
        (&[("HOLDFAST_VISIBILITY_S", "43201")], "from 1 to 43200"),
        (&[("HOLDFAST_KEEP_DAYS", "6")], "HOLDFAST_KEEP_DAYS"),
        (&[("HOLDFAST_KEEP_DAYS", "99999999999999999999")], "HOLDFAST_KEEP_DAYS"),
        (&[("HOLDFAST_SECRET_OVERLAP_HOURS", "721")], "from 0 to 720"),
        (&[("HOLDFAST_RELEASE_CEILING", "0")], "from 1 to 10000"),
        (&[("HOLDFAST_RELEASE_CEILING", "10001")], "from 1 to 10000"),
        (&[("HOLDFAST_DELIVERY_LOG", "some")], "one of: all, trouble"),
        (&[("HOLDFAST_HTTP_TARGETS", "true")], "one of: refuse, allow"),
        (&[("HOLDFAST_ALLOWED_TARGETS", "10.0.0.0/8,x")], "HOLDFAST_ALLOWED_TARGETS: \"x\" is not a network"),
        (&[("HOLDFAST_ALLOWED_TARGETS", "10.0.0.1/8")], "has bits set behind its prefix: write 10.0.0.0/8"),
        (&[("HOLDFAST_ALLOWED_TARGETS", "any")], "HOLDFAST_ALLOWED_TARGETS: \"any\" is not a network"),
        (&[("HOLDFAST_DENIED_TARGETS", "any")], "HOLDFAST_DENIED_TARGETS: \"any\" is not a network"),
        (&[("HOLDFAST_TARGET_PORTS", "443,0")], "HOLDFAST_TARGET_PORTS: \"0\" is no port"),
        (&[("HOLDFAST_PROXY", "proxy:3128")], "HOLDFAST_PROXY is no proxy"),
        (&[("HOLDFAST_PROXY", "socks5://proxy:1080")], "a proxy is written as http://HOST:PORT"),
        (&[("HOLDFAST_TIME_SCALE", "0")], "HOLDFAST_TIME_SCALE is \"0\""),
        (&[("HOLDFAST_TIME_SCALE", "2")], "HOLDFAST_TIME_SCALE is 2, but must be 1"),
        (
            &[("HOLDFAST_TIME_SCALE", "2"), ("AWS_ENDPOINT_URL", "http://127.0.0.1.evil.com")],
            "AWS_ENDPOINT_URL is a loopback address",
        ),
        (&[("HOLDFAST_LOG_LEVEL", "trace")], "one of: error, warn, info, debug"),
        (&[("HOLDFAST_LOG_LEVEL", "")], "HOLDFAST_LOG_LEVEL is not set"),
    ];
    for (changes, expected) in table {
        let faults = deliver_faults(changes);
        assert_eq!(faults.len(), 1, "{changes:?}: {faults:?}");
        assert!(faults[0].contains(expected), "{changes:?}: {faults:?}");
        assert!(!faults[0].contains('\n'), "{faults:?}");
    }
}

#[test]
fn the_egress_policy_is_what_is_configured() {
    let changes = [
        ("HOLDFAST_ALLOWED_TARGETS", "10.0.0.0/8,::1/128"),
        ("HOLDFAST_DENIED_TARGETS", "10.9.0.0/16,203.0.114.7"),
        ("HOLDFAST_TARGET_PORTS", "443,8000-8999"),
        ("HOLDFAST_PROXY", "http://user:pa55word@proxy.internal:3128"),
        ("HOLDFAST_HTTP_TARGETS", "allow"),
    ];
    let common = DeliverConfig::read(with(&changes)).unwrap().common;
    let EgressPolicy { guard, proxy } = &common.egress_policy;
    let allowed: Vec<String> = guard.allow.iter().map(ToString::to_string).collect();
    assert_eq!(
        (allowed.join(" "), guard.ports.to_string()),
        ("10.0.0.0/8 ::1/128".into(), "443, 8000-8999".into())
    );
    let denied: Vec<String> = guard.deny.iter().map(ToString::to_string).collect();
    assert_eq!(denied, ["10.9.0.0/16", "203.0.114.7/32"]);
    assert!(guard.http_allowed && guard.flag.is_none());
    assert_eq!(proxy.as_ref().unwrap().url().password(), Some("pa55word"));
    assert!(!format!("{common:?}").contains("pa55word"));

    let changes = [("HOLDFAST_ALLOWED_TARGETS", "none"), ("HOLDFAST_HTTP_TARGETS", "allow")];
    let guard = DeliverConfig::read(with(&changes)).unwrap().common.egress_policy.guard;
    assert_eq!((guard.allow.len(), guard.ports.to_string()), (0, "80, 443, 1024-65535".to_owned()));

    let faults = deliver_faults(&[
        ("HOLDFAST_ALLOWED_TARGETS", "a,b"),
        ("HOLDFAST_DENIED_TARGETS", "f"),
        ("HOLDFAST_TARGET_PORTS", "c,d"),
        ("HOLDFAST_PROXY", "e"),
    ]);
    assert_eq!(faults.len(), 6, "{faults:?}");
}

#[test]
fn values_at_the_limits_are_valid() {
    let limits: [&[(&str, &str)]; 5] = [
        &[("HOLDFAST_HTTP_TIMEOUT_MS", "23999"), ("HOLDFAST_VISIBILITY_S", "180")],
        &[("HOLDFAST_HTTP_TIMEOUT_MS", "1749"), ("HOLDFAST_FUNCTION_TIMEOUT_S", "3")],
        &[("HOLDFAST_FUNCTION_TIMEOUT_S", "900"), ("HOLDFAST_VISIBILITY_S", "43200")],
        &[("HOLDFAST_KEEP_DAYS", "7")],
        &[("HOLDFAST_TIME_SCALE", "3600"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")],
    ];
    for changes in limits {
        assert_eq!(deliver_faults(changes), Vec::<String>::new(), "{changes:?}");
    }
}

#[test]
fn all_faults_are_reported_together() {
    let Faults(faults) = ApiConfig::read(|_| None).unwrap_err();
    let needed = VALID.iter().map(|(name, _)| *name).filter(|name| *name != "HOLDFAST_TRIGGER");
    for name in needed {
        assert!(faults.contains(&format!("{name} is not set")), "{name}: {faults:?}");
    }
    assert_eq!(faults.len(), VALID.len() - 1);
    let mixed = deliver_faults(&[
        ("HOLDFAST_TABLE", ""),
        ("HOLDFAST_HTTP_TIMEOUT_MS", "40000"),
        ("HOLDFAST_KEEP_DAYS", "1"),
        ("HOLDFAST_VISIBILITY_S", "60"),
        ("HOLDFAST_TIME_SCALE", "10"),
        ("HOLDFAST_LOG_LEVEL", "loud"),
    ]);
    assert_eq!(mixed.len(), 6, "{mixed:?}");
}

#[test]
fn the_topic_for_events_is_an_arn() {
    let topic = "arn:aws:sns:eu-central-1:123456789012:holdfast-events";
    let read = DeliverConfig::read(with(&[("HOLDFAST_EVENTS_TOPIC", topic)])).unwrap();
    assert_eq!(read.events_topic.as_deref(), Some(topic));
    for wrong in
        ["holdfast-events", "arn:aws:sqs:eu-central-1:123456789012:queue", "arn:aws:sns:eu-central-1:1:"]
    {
        let faults = deliver_faults(&[("HOLDFAST_EVENTS_TOPIC", wrong)]);
        assert!(faults[0].contains("must be the ARN of an SNS topic"), "{faults:?}");
    }
}
