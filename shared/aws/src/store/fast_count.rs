//! Counting without a read: one update with a condition under which it cannot cross a threshold, whatever other batches were counted
//! before it.

use holdfast_core::records::Key;
use holdfast_core::rules::health::{
    DISABLE_FAILURE_PERCENT, DISABLE_MIN_ATTEMPTS, DISABLE_STREAK, Health, Outcome, UrlState,
    WINDOW_HALVED_AT,
};
use holdfast_core::time::Timestamp;

use super::items::{
    COUNTER, GENERATION, LAST_SUCCESS_AT, RECENT_MS, STATE, STREAK, WINDOW_ATTEMPTS, WINDOW_FAILURES,
    WINDOW_FIRST_ATTEMPTS, WINDOW_FIRST_FAILURES, is_readable,
};
use super::request::{Action, Request};
use super::terms::Terms;
use super::values::{number, text};

/// What a batch of outcomes adds to the counters, and under which condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FastCount {
    /// The generation that the URL must have. Outcomes of other generations count only for the last success.
    generation: u64,
    /// `None`: no outcome is of that generation.
    counts: Option<Counts>,
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
    recent_ms: u32,
    /// With at most this many attempts in the window, the failure rate does not count yet, even with these added.
    few_attempts: Option<u64>,
    /// With at least so many attempts and at most so many failures in the window, the rate stays below the limit, even with these
    /// added: at every step there are at least that many attempts, and the failures are within the limit for that number.
    harmless: Option<(u64, u64)>,
}

/// How the time of the last success changes. It must end up as the latest of all.
#[derive(Clone, Debug, PartialEq)]
enum LastSuccess {
    /// No success: stays, or becomes the start of the first attempt ever.
    StaysOrBecomes(Timestamp),
    /// It is absent or not later than this.
    Becomes(Timestamp),
    /// It is present and not later than this.
    MovesTo(Timestamp),
    /// It is not earlier than this.
    StaysBehind(Timestamp),
}

impl LastSuccess {
    fn of(outcomes: &[Outcome], known: Option<&Health>) -> Option<LastSuccess> {
        let first = outcomes.first()?.started_at;
        let Some(success) = outcomes.iter().filter(|o| o.success).map(|o| o.ended_at).max() else {
            return Some(LastSuccess::StaysOrBecomes(first));
        };
        match known.and_then(|known| known.last_success_at) {
            Some(last) if last > success => Some(LastSuccess::StaysBehind(success)),
            Some(_) => Some(LastSuccess::MovesTo(success)),
            None if first <= success => Some(LastSuccess::Becomes(success)),
            // The first attempt started after all successes had ended: rare, so it takes the slow way.
            None => None,
        }
    }

    fn express(&self, terms: &mut Terms, sets: &mut Vec<String>, conditions: &mut Vec<String>) {
        let (LastSuccess::StaysOrBecomes(at)
        | LastSuccess::Becomes(at)
        | LastSuccess::MovesTo(at)
        | LastSuccess::StaysBehind(at)) = self;
        let name = terms.name(LAST_SUCCESS_AT);
        let at = terms.value("at", number(at.as_millis()));
        match self {
            LastSuccess::StaysOrBecomes(_) => sets.push(format!("{name} = if_not_exists({name}, {at})")),
            LastSuccess::Becomes(_) => {
                sets.push(format!("{name} = {at}"));
                conditions.push(format!("({} OR {name} <= {at})", terms.absent(LAST_SUCCESS_AT)));
            }
            LastSuccess::MovesTo(_) => {
                sets.push(format!("{name} = {at}"));
                conditions.push(format!("{name} <= {at}"));
            }
            LastSuccess::StaysBehind(_) => conditions.push(format!("{name} >= {at}")),
        }
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
        let plan = FastCount { generation, counts, last_success: LastSuccess::of(outcomes, known)? };
        known.is_none_or(|known| plan.holds(known)).then_some(plan)
    }

    /// Whether the condition holds. Equivalent to the expression that DynamoDB gets.
    fn holds(&self, health: &Health) -> bool {
        let last = health.last_success_at;
        health.generation == self.generation
            && self.counts.as_ref().is_none_or(|counts| counts.hold(health))
            && match self.last_success {
                LastSuccess::StaysOrBecomes(_) => true,
                LastSuccess::Becomes(at) => last.is_none_or(|last| last <= at),
                LastSuccess::MovesTo(at) => last.is_some_and(|last| last <= at),
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
        let mut sets = vec![terms.compare(COUNTER, "=", COUNTER, text(mark))];
        self.last_success.express(&mut terms, &mut sets, &mut conditions);
        let mut adds = Vec::new();
        if let Some(counts) = &self.counts {
            counts.express(&mut terms, &mut sets, &mut adds, &mut conditions);
        }
        let mut change = format!("SET {}", sets.join(", "));
        if !adds.is_empty() {
            change = format!("{change} ADD {}", adds.join(", "));
        }
        let action = Action::Update { key, change };
        Request { action, condition: Some(conditions.join(" AND ")), terms }
    }
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
        possible.then_some(Counts {
            attempts,
            failures,
            first_attempts,
            first_failures,
            trailing_failures,
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
    }

    fn express(
        &self,
        terms: &mut Terms,
        sets: &mut Vec<String>,
        adds: &mut Vec<String>,
        conditions: &mut Vec<String>,
    ) {
        conditions.push(terms.compare(STATE, "=", "enabled", text(UrlState::Enabled.as_str())));
        conditions.push(terms.compare(
            WINDOW_ATTEMPTS,
            "<",
            "not_halved",
            number(WINDOW_HALVED_AT - self.attempts),
        ));
        conditions.push(terms.compare(STREAK, "<", "not_a_streak", number(DISABLE_STREAK - self.failures)));
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
        let add = |terms: &mut Terms, name: &str, count: u64| {
            format!("{} {}", terms.name(name), terms.value(&format!("added_{name}"), number(count)))
        };
        sets.push(terms.compare(RECENT_MS, "=", RECENT_MS, number(self.recent_ms)));
        adds.push(add(terms, WINDOW_ATTEMPTS, self.attempts));
        adds.push(add(terms, WINDOW_FAILURES, self.failures));
        adds.push(add(terms, WINDOW_FIRST_ATTEMPTS, self.first_attempts));
        adds.push(add(terms, WINDOW_FIRST_FAILURES, self.first_failures));
        match self.trailing_failures {
            None => adds.push(add(terms, STREAK, self.failures)),
            Some(trailing) => sets.push(terms.compare(STREAK, "=", STREAK, number(trailing))),
        }
    }
}

#[cfg(test)]
#[path = "fast_count_tests.rs"]
mod tests;
