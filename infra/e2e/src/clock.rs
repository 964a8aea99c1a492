use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, by this machine's clock.
#[must_use]
pub fn real_ms() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "signed timestamps are compared with the real time of arrival"
    )]
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
