use std::time::Duration;

use crate::rules::release::{DEFAULT_CEILING, MAX_CEILING};
use crate::rules::schedule::Schedule;
use crate::time::Timestamp;

/// How many first-attempt successes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryLog {
    /// Every delivery can be looked up, and replayed.
    All,
    /// Only deliveries that needed a record: the cheapest.
    Trouble,
}

/// What an operator can configure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From the start of an attempt to its success.
    pub http_timeout: Duration,
    /// The longest that one function runs: how long a lease holds.
    pub function_timeout: Duration,
    /// How long delivered and dead deliveries are kept.
    pub keep: Duration,
    pub delivery_log: DeliveryLog,
    pub schedule: Schedule,
    /// Whether `http://` URLs may be subscribed.
    pub http_allowed: bool,
    /// How much memory the subscriptions of one tenant may take in each process that accepts its events.
    pub max_index_bytes: u64,
    /// How long a replaced signing secret stays valid for signing.
    pub secret_overlap: Duration,
    /// First attempts for URLs whose recent answers are slow are not made but sent to the queue for them. Off on the host that serves that
    /// queue, and where one queue takes turns by tenant and URL.
    pub slow_queue: bool,
    /// How many tenants at a time do work that keeps a thread busy for milliseconds, such as signing a large body. Fewer than there are
    /// threads, so that others need not wait for it.
    pub max_long_work: usize,
    /// When this process started, on a host that has no other: requests that were under way before have ended with their process.
    pub only_process_since_real: Option<Timestamp>,
    /// How many deliveries one step of a release or bulk replay lets go at most.
    pub release_ceiling: u32,
    /// Also count what each tenant does, for metrics that name tenants.
    pub count_by_tenant: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            http_timeout: Duration::from_secs(5),
            function_timeout: Duration::from_secs(30),
            keep: Duration::from_secs(14 * 86_400),
            delivery_log: DeliveryLog::All,
            schedule: Schedule::default(),
            http_allowed: false,
            max_index_bytes: 64 << 20,
            secret_overlap: Duration::from_secs(24 * 3600),
            slow_queue: false,
            max_long_work: 1,
            only_process_since_real: None,
            release_ceiling: DEFAULT_CEILING,
            count_by_tenant: false,
        }
    }
}

/// How long it may take to record the outcome of an attempt, also while the store is throttled: an attempt whose outcome is not recorded is
/// made again.
const MAX_TIME_TO_RECORD: Duration = Duration::from_secs(5);
/// 30 days: a secret was replaced for a reason.
const MAX_OVERLAP: Duration = Duration::from_secs(720 * 3_600);
const MIN_KEEP: Duration = Duration::from_secs(7 * 86_400);
/// How long a stored body outlives the records that need it.
const BODY_MARGIN: Duration = Duration::from_secs(86_400);

impl Settings {
    /// How much of a function's time is reserved for recording the outcomes of its attempts.
    #[must_use]
    pub fn time_to_record(&self) -> Duration {
        MAX_TIME_TO_RECORD.min(self.function_timeout / 6)
    }

    /// How long a body is kept that is needed from now on.
    #[must_use]
    pub fn body_lifetime(&self) -> Duration {
        self.schedule.lifetime + self.keep + BODY_MARGIN
    }

    /// Everything that is wrong with the settings, in sentences for the operator.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.http_timeout.is_zero() {
            faults.push("the HTTP timeout must be more than zero".to_owned());
        }
        if self.http_timeout >= self.function_timeout {
            let (http, function) = (self.http_timeout, self.function_timeout);
            faults.push(format!(
                "the HTTP timeout ({http:?}) must be less than the function timeout ({function:?})"
            ));
        }
        if self.keep < MIN_KEEP {
            faults.push("deliveries must be kept for at least 7 days".to_owned());
        }
        if self.secret_overlap > MAX_OVERLAP {
            faults.push("a replaced signing secret can stay valid for at most 720 hours".to_owned());
        }
        if !(1..=MAX_CEILING).contains(&self.release_ceiling) {
            let ceiling = self.release_ceiling;
            faults.push(format!("the release ceiling is {ceiling}, but must be from 1 to {MAX_CEILING}"));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_named() {
        assert_eq!(Settings::default().faults(), [] as [&str; 0]);
        for release_ceiling in [0, MAX_CEILING + 1] {
            let settings = Settings { keep: Duration::ZERO, release_ceiling, ..Settings::default() };
            let expected = [
                "deliveries must be kept for at least 7 days".to_owned(),
                format!("the release ceiling is {release_ceiling}, but must be from 1 to 100000"),
            ];
            assert_eq!(settings.faults(), expected);
        }
    }
}
