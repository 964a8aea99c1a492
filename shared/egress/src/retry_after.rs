use std::time::{Duration, UNIX_EPOCH};

use holdfast_core::time::Timestamp;
use http::header::{HeaderMap, RETRY_AFTER};

/// Longer than any wait of the schedule, so that nothing changes, and short enough to be added to other times.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The wait that a `retry-after` header asks for, in seconds or as a date. An invalid header is ignored.
pub(crate) fn parse(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs).map(|wait| wait.min(MAX_WAIT));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Some((Timestamp::ZERO + since_epoch).since(now).min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_seconds_and_dates_and_nothing_else() {
        // 2015-10-21T07:28:00Z
        let now = Timestamp::from_millis(1_445_412_480_000);
        for (text, wait) in [
            ("120", Some(Duration::from_secs(120))),
            ("0", Some(Duration::ZERO)),
            ("18446744073709551615", Some(MAX_WAIT)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(MAX_WAIT)),
            ("Wed, 21 Oct 2015 07:29:30 GMT", Some(Duration::from_secs(90))),
            ("Wednesday, 21-Oct-15 07:29:30 GMT", Some(Duration::from_secs(90))),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(Duration::ZERO)),
            ("99999999999999999999999", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(parse(&headers, now), wait, "{text:?}");
        }
        assert_eq!(parse(&HeaderMap::new(), now), None);
    }
}
