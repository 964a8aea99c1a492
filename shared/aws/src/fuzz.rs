//! What must hold for any event of AWS, any text from a queue and any setting. The property tests here and the targets in `infra/fuzz`
//! call the same functions.

#[cfg(feature = "api")]
pub mod gateway {
    use serde_json::Value;

    use crate::gateway::request;

    #[must_use]
    pub fn seeds() -> Vec<&'static [u8]> {
        vec![
            include_bytes!("../../../functions/ingest/events/post.json"),
            include_bytes!("../../../functions/ingest/events/post-base64.json"),
            include_bytes!("../../../functions/admin/events/list-urls.json"),
            br#"{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"POST"}},"body":"YQ==Yg==","isBase64Encoded":true}"#,
            br#"{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"POST"}},"routeKey":"\ud800"}"#,
            br#"{"version":"2.0","rawPath":"/v1/events/a b%2Fc/\"?#","rawQueryString":"a=b c&d=\u00e9#","headers":{"x":"\n"},"requestContext":{"http":{"method":"GET"}},"body":"8J+OiQ==","isBase64Encoded":true}"#,
        ]
    }

    /// An event of API Gateway becomes the request that was sent, with its body byte for byte, or is refused.
    pub fn check(input: &[u8]) {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let Ok(request) = request(text) else { return };
        // A field that is not read may hold what has no value, such as half of a surrogate pair.
        let Ok(event) = serde_json::from_str::<Value>(text) else { return };
        let path = request.uri().path();
        assert!(path.starts_with('/') && path.is_ascii() && request.uri().host().is_none(), "{path}");
        // API Gateway's paths begin with a slash.
        let raw = event["rawPath"].as_str().unwrap_or_default();
        let id = path.strip_prefix("/v1/events/").filter(|_| raw.starts_with('/')).unwrap_or_default();
        assert!(!id.contains('/'), "the id of an event is one segment: {path}");
        let body = event["body"].as_str().unwrap_or_default();
        if event["isBase64Encoded"] == true {
            // Not encoded again: pieces with their own padding can be decoded, and are one piece then.
            assert_eq!(data_encoding::BASE64.decode(body.as_bytes()).as_deref(), Ok(&**request.body()));
        } else {
            assert_eq!(request.body(), body);
        }
        for (name, value) in request.headers() {
            assert!(!value.as_bytes().contains(&b'\n') && !name.as_str().contains(':'), "{name:?}");
        }
    }
}

pub mod queue_text {
    use holdfast_core::ports::Receipt;

    use crate::queue::{from_text, parse_receive_count, received, to_text};

    #[must_use]
    pub fn seeds() -> Vec<&'static [u8]> {
        vec![
            br#"{"v":1,"kind":"probe","tenant":"default","url_id":"url_1"}"#,
            b"~eyJ2IjoxfQ==",
            "{\u{ffff}\u{1}".as_bytes(),
            b"18446744073709551616",
        ]
    }

    /// Any bytes survive a queue, and any text from a queue is a message or is kept as it is, with the reason why it is none.
    pub fn check(input: &[u8]) {
        let text = to_text(input.to_vec());
        assert_eq!(from_text(&text).as_deref(), Ok(input));
        let is_sent_plain = !text.starts_with('~');
        assert!(!is_sent_plain || text.as_bytes() == input);
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Ok(bytes) = from_text(text) {
            assert_eq!(from_text(&to_text(bytes.to_vec())).as_deref(), Ok(&*bytes));
        }
        let count = parse_receive_count(Some(text));
        let got = received(text.to_owned(), None, "receipt".to_owned(), count);
        assert_eq!((&got.receipt, got.receive_count), (&Receipt("receipt".to_owned()), count));
        if let Err(unreadable) = got.message {
            assert_eq!(&*unreadable.payload, input, "it goes on as it came");
            assert!(unreadable.why.to_string().len() < 300, "{}", unreadable.why);
        }
    }
}

pub mod settings {
    use std::collections::BTreeMap;

    use crate::config::{ApiConfig, DeliverConfig, Faults};

    const VALID: &str = "HOLDFAST_STACK=holdfast
HOLDFAST_TABLE=table
HOLDFAST_FIRST_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/1/first
HOLDFAST_SLOW_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/1/slow
HOLDFAST_RETRY_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/1/retry
HOLDFAST_DEAD_LETTER_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/1/dead
HOLDFAST_OPERATOR_SECRET=key
HOLDFAST_TRIGGER=retry
HOLDFAST_HTTP_TIMEOUT_MS=5000
HOLDFAST_FUNCTION_TIMEOUT_S=30
HOLDFAST_VISIBILITY_S=180
HOLDFAST_KEEP_DAYS=14
HOLDFAST_SECRET_OVERLAP_HOURS=24
HOLDFAST_RELEASE_CEILING=2560
HOLDFAST_DELIVERY_LOG=all
HOLDFAST_HTTP_TARGETS=refuse
HOLDFAST_TIME_SCALE=1
HOLDFAST_LOG_LEVEL=info";

    #[must_use]
    pub fn seeds() -> Vec<&'static [u8]> {
        vec![
            VALID.as_bytes(),
            b"HOLDFAST_HTTP_TIMEOUT_MS=900000\nHOLDFAST_FUNCTION_TIMEOUT_S=900\nHOLDFAST_VISIBILITY_S=43200\nHOLDFAST_KEEP_DAYS=3650",
            b"HOLDFAST_HTTP_TIMEOUT_MS=1\nHOLDFAST_FUNCTION_TIMEOUT_S=1",
            b"HOLDFAST_TIME_SCALE=3600\nAWS_ENDPOINT_URL=http://localhost@example.com",
            b"HOLDFAST_ALLOWED_TARGETS=10.0.0.0/8,x\nHOLDFAST_TARGET_PORTS=443,0\nHOLDFAST_PROXY=http://user:secret@proxy:3128",
        ]
    }

    /// Settings are within their limits, or every fault names its variable. A line is `NAME=value`; those that are missing are valid.
    pub fn check(input: &[u8]) {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let given: BTreeMap<&str, &str> =
            VALID.lines().chain(text.split('\n')).filter_map(|line| line.split_once('=')).collect();
        let lookup = |name: &str| given.get(name).map(|value| (*value).to_owned());
        let read = [
            DeliverConfig::read(lookup).map(|config| config.common),
            ApiConfig::read(lookup).map(|config| config.common),
        ];
        for config in read {
            match config {
                Ok(config) => {
                    let settings = &config.settings;
                    assert_eq!(settings.faults(), Vec::<String>::new());
                    assert!(settings.http_timeout < settings.function_timeout);
                    assert!(config.visibility >= settings.function_timeout * 6);
                    assert!(config.time_scale == 1 || given.contains_key("AWS_ENDPOINT_URL"));
                }
                Err(Faults(faults)) => {
                    let names_a_variable = |fault: &String| fault.contains("HOLDFAST_");
                    assert!(!faults.is_empty() && faults.iter().all(names_a_variable), "{faults:?}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    holdfast_sim::test_hostile_input! {
        1_000,
        #[cfg(feature = "api")]
        events_of_api_gateway => gateway,
        text_from_queues => queue_text,
        settings_of_functions => settings,
    }
}
