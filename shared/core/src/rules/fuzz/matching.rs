use crate::ids::{SubscriptionId, UrlId};
use crate::rules::event_type::{is_name, is_pattern};
use crate::rules::filter::{Connector, Filter};
use crate::rules::matching::{Selector, SubscriptionIndex, reference};

/// How many lines are looked at: an input can only be small.
const MAX_SUBSCRIPTIONS: usize = 16;
/// With so few bytes no list is longer than what `contains` looks at.
const MAX_INPUT_BYTES: usize = 1_900;
const WORK_OF_A_STEP: usize = 64;

#[must_use]
pub fn seeds() -> Vec<&'static [u8]> {
    vec![
        br#"order.created
{"type":"order.created","data":{"total":12.5,"tags":["new","eu"],"at":"2024-01-01T00:00:00+02:00","none":null}}
{"event_types":["order.*"],"filters":[{"field":"data.total","op":"gte","value":12}]}
{"event_types":["*"],"filters":[{"field":"data.tags","op":"contains","value":"eu"},{"field":"data.tags.0","op":"eq","value":"new"}]}
{"event_types":["order.created","*.created"],"filters":[{"field":"data.at","op":"lt","value":"2023-12-31T23:00:00Z"}],"connector":"or"}"#,
        br#"a.b
{"data":{"oldState":{"s":1},"newState":{"s":1.0},"x":[[1],{"y":"\ud800"},1e999]}}
{"event_types":["a.b"],"filters":[{"field":"s","op":"changed"}]}
{"event_types":["a.*"],"filters":[{"field":"data.x","op":"contains","value":[1]},{"field":"data.x.1.y","op":"exists","value":false}],"connector":"or"}
{"event_types":["*.b"],"filters":[{"field":"data.x.2","op":"ne","value":9007199254740993}]}"#,
    ]
}

#[derive(serde::Deserialize)]
struct Line {
    event_types: Vec<String>,
    #[serde(default)]
    filters: Vec<Filter>,
    #[serde(default)]
    connector: Connector,
}

/// The index finds what asking each subscription finds, in steps that each do a bounded part of the work, and nothing is left of what is
/// removed. The first line is the event's type, the second its body, and each further one a subscription.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if input.len() > MAX_INPUT_BYTES {
        return;
    }
    let mut lines = text.split('\n');
    let (Some(name), Some(body)) = (lines.next(), lines.next()) else { return };
    // What is matched was posted: a name, and JSON.
    if !is_name(name) || serde_json::from_str::<serde::de::IgnoredAny>(body).is_err() {
        return;
    }
    let subscriptions: Vec<Selector> =
        lines.take(MAX_SUBSCRIPTIONS).enumerate().filter_map(|(n, line)| subscription(n, line)).collect();
    let mut index = SubscriptionIndex::default();
    subscriptions.iter().for_each(|one| index.insert(one));

    let mut search = index.search(name, body.as_bytes());
    let mut steps = 0;
    while !search.step(&mut { WORK_OF_A_STEP }) {
        steps += 1;
        assert!(steps <= 10 + input.len(), "the search does not end");
    }
    let found: Vec<_> = search.matched().iter().map(|member| member.id.clone()).collect();
    let wanted = subscriptions.iter().filter(|one| reference::selects(one, name, body.as_bytes()));
    assert_eq!(found, wanted.map(|one| one.id.clone()).collect::<Vec<_>>(), "{text}");

    subscriptions.iter().for_each(|one| index.remove(&one.id));
    assert!(index.is_empty() && index.bytes() == 0);
    assert!(index.matching(name, body.as_bytes()).is_empty());
}

/// `None`: it could not be subscribed.
fn subscription(number: usize, line: &str) -> Option<Selector> {
    let Line { event_types, filters, connector } = serde_json::from_str(line).ok()?;
    let is_valid = event_types.iter().all(|pattern| is_pattern(pattern))
        && filters.iter().all(|filter| filter.fault().is_none());
    let mut random = [0; 16];
    random[15] = u8::try_from(number).ok()?;
    is_valid.then(|| Selector {
        id: SubscriptionId::new(random),
        url_id: UrlId::of("https://example.com/"),
        event_types,
        filters,
        filter_connector: connector,
        active: true,
    })
}
