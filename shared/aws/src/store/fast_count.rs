//! Counting without a read: one update with a condition under which it cannot cross a threshold, whatever other batches were counted
//! before it.

use holdfast_core::records::Key;
use holdfast_core::rules::health::{
    CALM_AFTER_RECOVERY, DISABLE_FAILURE_PERCENT, DISABLE_MIN_ATTEMPTS, DISABLE_STREAK, FAILING_RETRY,
    FAILING_STREAK, Health, Outcome, UrlState, WINDOW_HALVED_AT,
};
use holdfast_core::rules::last_failure::LastFailure;
use holdfast_core::time::Timestamp;

use super::items::{
    COUNTER, FAILING, FAILING_SINCE, FIRST_ATTEMPT_AT, GENERATION, LAST_FAILURE, LAST_SUCCESS_AT, RECENT_MS,
    RECOVERED_AT, STATE, STREAK, WINDOW_ATTEMPTS, WINDOW_FAILURES, WINDOW_FIRST_ATTEMPTS,
    WINDOW_FIRST_FAILURES, is_readable,
};
use super::request::{Action, Request};
use super::terms::Terms;
use super::values::{number, text, to_attribute};

/// What a batch of outcomes adds to the counters, and under which condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FastCount {
    /// The generation that the URL must have. Outcomes of other generations count only for the last success.
    generation: u64,
    /// `None`: no outcome is of that generation.
    counts: Option<Counts>,
    /// Kept if there was an attempt before.
    first_attempt_at: Timestamp,
    last_success: LastSuccess,
}

#[derive(Clone, Debug, PartialEq)]
struct Counts {
    attempts: u64,
    failures: u64,
    first_attempts: u64,
    first_failures: u64,
    /// The failures after the last success; `None` without a success.
    trailing_failures: Option<u64>,
    last_failure: Option<LastFailure>,
    /// When the first of the trailing failures started.
    failing_since: Option<Timestamp>,
    trouble: Trouble,
    recent_ms: u32,
    /// With at most this many attempts in the window, the failure rate does not count yet, even with these added.
    few_attempts: Option<u64>,
    /// With at least so many attempts and at most so many failures in the window, the rate stays below the limit, even with these
    /// added: at every step there are at least that many attempts, and the failures are within the limit for that number.
    harmless: Option<(u64, u64)>,
}

/// Under which condition the URL stays in trouble, or out of it.
#[derive(Clone, Debug, PartialEq)]
struct Trouble {
    has_success: bool,
    /// The failures before the first success, which add to the streak that the URL has.
    leading_failures: u64,
    /// With late retries among the failures: the URL must have recovered after this.
    calm_since: Option<Timestamp>,
}

impl Trouble {
    /// `None`: these outcomes are trouble whatever was before.
    fn of(outcomes: &[&Outcome]) -> Option<Trouble> {
        let runs = || outcomes.split(|o| o.success).map(|run| run.len() as u64);
        let has_success = outcomes.iter().any(|o| o.success);
        let late_retries = outcomes.iter().filter(|o| !o.success && o.retry >= FAILING_RETRY);
        let calm_since = late_retries.map(|o| o.ended_at - CALM_AFTER_RECOVERY).max();
        let leading_failures = runs().next().unwrap_or_default();
        (!has_success || runs().all(|run| run < FAILING_STREAK)).then_some(Trouble {
            has_success,
            leading_failures,
            calm_since,
        })
    }

    fn hold(&self, health: &Health) -> bool {
        let below_streak =
            self.leading_failures == 0 || health.streak + self.leading_failures < FAILING_STREAK;
        let is_calm = self
            .calm_since
            .is_none_or(|since| health.recovered_at.is_some_and(|recovered| recovered > since));
        let stays_out = below_streak && is_calm;
        if self.has_success { !health.failing && stays_out } else { health.failing || stays_out }
    }

    fn express(&self, terms: &mut Terms) -> String {
        let mut stays_out = Vec::new();
        if self.leading_failures > 0 {
            // Never true if these failures alone are a streak.
            let below = FAILING_STREAK.saturating_sub(self.leading_failures);
            stays_out.push(terms.compare(STREAK, "<", "not_failing", number(below)));
        }
        if let Some(since) = self.calm_since {
            stays_out.push(terms.compare(RECOVERED_AT, ">", "calm_since", number(since.as_millis())));
        }
        let failing = terms.name(FAILING);
        if self.has_success {
            stays_out.push(format!("attribute_not_exists({failing})"));
            return stays_out.join(" AND ");
        }
        format!("(attribute_exists({failing}) OR ({}))", stays_out.join(" AND "))
    }
}

/// How the time of the last success changes. It must end up as the latest of all.
#[derive(Clone, Debug, PartialEq)]
enum LastSuccess {
    /// There is no success among the outcomes.
    Stays,
    /// It is absent or not later than this.
    Becomes(Timestamp),
    /// It is not earlier than this.
    StaysBehind(Timestamp),
}

impl LastSuccess {
    fn of(outcomes: &[Outcome], known: Option<&Health>) -> LastSuccess {
        let Some(success) = outcomes.iter().filter(|o| o.success).map(|o| o.ended_at).max() else {
            return LastSuccess::Stays;
        };
        match known.and_then(|known| known.last_success_at) {
            Some(last) if last > success => LastSuccess::StaysBehind(success),
            _ => LastSuccess::Becomes(success),
        }
    }

    fn express(&self, terms: &mut Terms, sets: &mut Vec<String>, conditions: &mut Vec<String>) {
        let (LastSuccess::Becomes(at) | LastSuccess::StaysBehind(at)) = self else { return };
        let name = terms.name(LAST_SUCCESS_AT);
        let at = terms.value("at", number(at.as_millis()));
        if matches!(self, LastSuccess::Becomes(_)) {
            sets.push(format!("{name} = {at}"));
            conditions.push(format!("({} OR {name} <= {at})", terms.absent(LAST_SUCCESS_AT)));
        } else {
            conditions.push(format!("{name} >= {at}"));
        }
    }
}

/// The parts of an update.
#[derive(Default)]
struct Change {
    sets: Vec<String>,
    adds: Vec<String>,
    removes: Vec<String>,
}

impl Change {
    fn expression(&self) -> String {
        let parts = [("SET", &self.sets), ("ADD", &self.adds), ("REMOVE", &self.removes)];
        let parts = parts.iter().filter(|(_, terms)| !terms.is_empty());
        parts.map(|(verb, terms)| format!("{verb} {}", terms.join(", "))).collect::<Vec<_>>().join(" ")
    }
}

impl FastCount {
    /// `None`: these outcomes may cross a threshold.
    pub(super) fn plan(outcomes: &[Outcome], known: Option<&Health>) -> Option<FastCount> {
        // An unknown URL is assumed to be new, and the outcomes to be current.
        let generation = match known {
            Some(known) => known.generation,
            None => outcomes.iter().map(|o| o.generation).max()?,
        };
        let current: Vec<&Outcome> = outcomes.iter().filter(|o| o.generation == generation).collect();
        let counts = match current.is_empty() {
            true => None,
            false => Some(Counts::of(&current, known)?),
        };
        let first_attempt_at = outcomes.first()?.started_at;
        let last_success = LastSuccess::of(outcomes, known);
        let plan = FastCount { generation, counts, first_attempt_at, last_success };
        known.is_none_or(|known| plan.holds(known)).then_some(plan)
    }

    /// Whether the condition holds. Equivalent to the expression that DynamoDB gets.
    fn holds(&self, health: &Health) -> bool {
        let last = health.last_success_at;
        health.generation == self.generation
            && self.counts.as_ref().is_none_or(|counts| counts.hold(health))
            && match self.last_success {
                LastSuccess::Stays => true,
                LastSuccess::Becomes(at) => last.is_none_or(|last| last <= at),
                LastSuccess::StaysBehind(at) => last.is_some_and(|last| last >= at),
            }
    }

    /// `mark`: unique to this batch, so that the SDK's own repeat of an update is not counted twice.
    pub(super) fn request(&self, key: Key, mark: &str) -> Request {
        let mut terms = Terms::default();
        let generation = terms.compare(GENERATION, "=", GENERATION, number(self.generation));
        let mut conditions = vec![is_readable(&mut terms), generation];
        let other = terms.compare(COUNTER, "<>", COUNTER, text(mark));
        conditions.push(format!("({} OR {other})", terms.absent(COUNTER)));
        let mut change = Change::default();
        change.sets.push(terms.compare(COUNTER, "=", COUNTER, text(mark)));
        change.sets.push(set_if_absent(FIRST_ATTEMPT_AT, self.first_attempt_at, &mut terms));
        self.last_success.express(&mut terms, &mut change.sets, &mut conditions);
        if let Some(counts) = &self.counts {
            counts.express(&mut terms, &mut change, &mut conditions);
        }
        let action = Action::Update { key, change: change.expression() };
        Request { action, condition: Some(conditions.join(" AND ")), terms }
    }
}

fn set_if_absent(name: &str, at: Timestamp, terms: &mut Terms) -> String {
    let value = terms.value(name, number(at.as_millis()));
    let name = terms.name(name);
    format!("{name} = if_not_exists({name}, {value})")
}

impl Counts {
    /// `None`: no condition can rule out that a threshold is crossed.
    fn of(outcomes: &[&Outcome], known: Option<&Health>) -> Option<Counts> {
        let attempts = outcomes.len() as u64;
        let failures = outcomes.iter().filter(|o| !o.success).count() as u64;
        let first = || outcomes.iter().filter(|o| o.is_first);
        let first_attempts = first().count() as u64;
        let first_failures = first().filter(|o| !o.success).count() as u64;
        let trailing = outcomes.iter().rev().take_while(|o| !o.success).count() as u64;
        let few_attempts = DISABLE_MIN_ATTEMPTS.checked_sub(attempts);
        let harmless = known.and_then(|known| {
            let max_failures = known.window_attempts * DISABLE_FAILURE_PERCENT / 100;
            Some((known.window_attempts, max_failures.checked_sub(failures)?))
        });
        let possible = attempts < WINDOW_HALVED_AT
            && failures < DISABLE_STREAK
            && (few_attempts.is_some() || harmless.is_some());
        let trailing_failures = (failures < attempts).then_some(trailing);
        let recent_ms = outcomes.last()?.recent_ms;
        let last_failure = outcomes.iter().rev().find(|o| o.error.is_some() && !o.success);
        let last_failure =
            last_failure.and_then(|o| Some(LastFailure { at: o.ended_at, error: o.error.clone()? }));
        let failing_since = outcomes[outcomes.len() - trailing as usize..].first().map(|o| o.started_at);
        let trouble = Trouble::of(outcomes)?;
        possible.then_some(Counts {
            attempts,
            failures,
            first_attempts,
            first_failures,
            trailing_failures,
            last_failure,
            failing_since,
            trouble,
            recent_ms,
            few_attempts,
            harmless,
        })
    }

    fn hold(&self, health: &Health) -> bool {
        let few = self.few_attempts.is_some_and(|few| health.window_attempts <= few);
        let harmless = self.harmless.is_some_and(|(attempts, failures)| {
            health.window_attempts >= attempts && health.window_failures <= failures
        });
        health.state == UrlState::Enabled
            && health.window_attempts < WINDOW_HALVED_AT - self.attempts
            && health.streak < DISABLE_STREAK - self.failures
            && (few || harmless)
            && self.trouble.hold(health)
    }

    fn express(&self, terms: &mut Terms, change: &mut Change, conditions: &mut Vec<String>) {
        conditions.push(terms.compare(STATE, "=", "enabled", text(UrlState::Enabled.as_str())));
        conditions.push(terms.compare(
            WINDOW_ATTEMPTS,
            "<",
            "not_halved",
            number(WINDOW_HALVED_AT - self.attempts),
        ));
        conditions.push(terms.compare(STREAK, "<", "not_a_streak", number(DISABLE_STREAK - self.failures)));
        conditions.push(self.trouble.express(terms));
        let few =
            self.few_attempts.map(|few| terms.compare(WINDOW_ATTEMPTS, "<=", "few_attempts", number(few)));
        let harmless = self.harmless.map(|(attempts, failures)| {
            let attempts = terms.compare(WINDOW_ATTEMPTS, ">=", "known_attempts", number(attempts));
            let failures = terms.compare(WINDOW_FAILURES, "<=", "max_failures", number(failures));
            format!("{attempts} AND {failures}")
        });
        conditions.push(match (few, harmless) {
            (Some(few), Some(harmless)) => format!("({few} OR ({harmless}))"),
            (few, harmless) => few.or(harmless).unwrap_or_default(),
        });
        change.sets.push(terms.compare(RECENT_MS, "=", RECENT_MS, number(self.recent_ms)));
        let counted = [
            (WINDOW_ATTEMPTS, self.attempts),
            (WINDOW_FAILURES, self.failures),
            (WINDOW_FIRST_ATTEMPTS, self.first_attempts),
            (WINDOW_FIRST_FAILURES, self.first_failures),
        ];
        change.adds.extend(counted.map(|(name, count)| add(terms, name, count)));
        self.express_streak(terms, change);
    }

    fn express_streak(&self, terms: &mut Terms, change: &mut Change) {
        if let Some(failure) = &self.last_failure {
            let failure = serde_json::to_value(failure).expect("a failure is plain data");
            change.sets.push(terms.compare(LAST_FAILURE, "=", LAST_FAILURE, to_attribute(failure)));
        }
        match (self.trailing_failures, self.failing_since) {
            (None, Some(since)) => {
                change.adds.push(add(terms, STREAK, self.failures));
                change.sets.push(set_if_absent(FAILING_SINCE, since, terms));
            }
            (trailing, since) => {
                change.sets.push(terms.compare(STREAK, "=", STREAK, number(trailing.unwrap_or_default())));
                match since {
                    Some(since) => {
                        let since = number(since.as_millis());
                        change.sets.push(terms.compare(FAILING_SINCE, "=", FAILING_SINCE, since));
                    }
                    None => change.removes.push(terms.name(FAILING_SINCE)),
                }
            }
        }
    }
}

fn add(terms: &mut Terms, name: &str, count: u64) -> String {
    format!("{} {}", terms.name(name), terms.value(&format!("added_{name}"), number(count)))
}

#[cfg(test)]
#[path = "fast_count_tests.rs"]
mod tests;
