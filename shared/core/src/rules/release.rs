//! Slow start: parked deliveries are released in steps of 1, 2, 4, … so that a URL that just recovered is not overloaded. Bulk replays have
//! the same pace.
//!
//! A step is judged by the outcomes of the deliveries that it released, and of no others. A receiver that refuses some events for good is not
//! overloaded, so refusals do not slow it down while at most half are refused.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latencies::Latencies;
use crate::ids::StepId;
use crate::time::{Now, Timestamp};

/// On the schedule's clock.
pub const STEP_INTERVAL: Duration = Duration::from_secs(5);
/// What a step releases at most, on one machine. AWS has a lower default: one invocation makes a step.
pub const DEFAULT_CEILING: u32 = 12_800;
pub const MAX_CEILING: u32 = 100_000;
/// So many steps give the latency that the later ones are compared with.
const FIRST_STEPS: u32 = 5;
/// How many steps may wait for their outcomes, which only a long HTTP timeout or a fast schedule reaches. The next step waits then.
const MAX_UNJUDGED: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Counts steps. A ticket names its step, so that a duplicate does not double the pace.
    pub step: u64,
    /// How many deliveries the next step releases.
    pub size: u32,
    /// Never before this.
    pub next_step_at: Timestamp,
    /// When the URL became enabled: functions that read it as disabled may park for some time after that.
    pub enabled_at_real: Timestamp,
    /// Tells its steps from those of an earlier release of the same URL. Zero in records that have no steps to be judged.
    #[serde(default)]
    pub began_at: Timestamp,
    /// Steps that were made and not judged yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unjudged: Vec<Unjudged>,
    #[serde(default)]
    pub first_steps: FirstSteps,
}

/// A step whose outcomes may not all be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unjudged {
    pub step: u64,
    /// How many deliveries it released, or may release while it is being made.
    pub released: u32,
    /// What is missing then has failed. In real time, because receivers answer in real time.
    pub judge_at_real: Timestamp,
}

/// What the first steps say about the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstSteps {
    /// How many of them were judged.
    pub count: u32,
    pub latencies: Latencies,
}

/// The outcomes of the deliveries of one step, as far as they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutcomes {
    /// All of them, also of deliveries that turned out not to need an attempt.
    pub count: u32,
    pub failures: u32,
    /// Failures that mean too much at a time: 429, 503 and timeouts.
    pub overloads: u32,
    pub latencies: Latencies,
}

impl StepOutcomes {
    pub fn add(&mut self, other: &StepOutcomes) {
        self.count = self.count.saturating_add(other.count);
        self.failures = self.failures.saturating_add(other.failures);
        self.overloads = self.overloads.saturating_add(other.overloads);
        self.latencies.add(&other.latencies);
    }

    pub fn add_attempt(&mut self, ended: AttemptEnded) {
        self.count += 1;
        self.failures += u32::from(!ended.success);
        self.overloads += u32::from(ended.is_overload);
        self.latencies.count(ended.took);
    }

    /// The delivery was parked again, or is over, without an attempt: the receiver has nothing to do with that.
    pub fn add_not_attempted(&mut self) {
        self.count += 1;
    }
}

/// How one attempt of a released delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptEnded {
    pub success: bool,
    /// It failed by 429, 503 or a timeout.
    pub is_overload: bool,
    pub took: Duration,
}

/// What a step says about the size of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Double,
    Half,
    BackToOne,
}

/// Judges a step that released `released` deliveries. What is missing has failed.
#[must_use]
pub fn judge(released: u32, outcomes: &StepOutcomes, first_steps: &FirstSteps) -> Verdict {
    // An attempt that was repeated after a crash is counted twice.
    let all = u64::from(released.max(outcomes.count));
    let failed = all - u64::from(outcomes.count) + u64::from(outcomes.failures);
    if failed * 2 > all {
        return Verdict::BackToOne;
    }
    let is_overloaded = u64::from(outcomes.overloads) * 10 >= all;
    let is_slow =
        first_steps.count >= FIRST_STEPS && outcomes.latencies.is_over_twice(&first_steps.latencies);
    if is_overloaded || is_slow { Verdict::Half } else { Verdict::Double }
}

/// How long after the beginning of its step the ticket of the delivery at `place` is due. The tickets are spread over the step, in the whole
/// seconds that queues know.
#[must_use]
pub fn spread(place: u32, size: u32) -> Duration {
    let place = u64::from(place.min(size.saturating_sub(1)));
    Duration::from_secs(place * STEP_INTERVAL.as_secs() / u64::from(size.max(1)))
}

impl Release {
    #[must_use]
    pub fn begin(step: u64, now: Now) -> Release {
        Release {
            step,
            size: 1,
            next_step_at: now.schedule,
            enabled_at_real: now.real,
            began_at: now.schedule,
            unjudged: Vec::new(),
            first_steps: FirstSteps::default(),
        }
    }

    /// Names a step of the release of `of`, a URL or a replay.
    #[must_use]
    pub fn step_id(&self, of: &str, step: u64) -> StepId {
        StepId(format!("{of}#{}#{step}", self.began_at.as_millis()))
    }

    /// Whether so many steps wait for their outcomes that the next one has to wait too.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.unjudged.len() >= MAX_UNJUDGED
    }

    /// Judges the steps whose outcomes are all in, or whose time is over, in their order. `outcomes` returns those of a step as far as they
    /// are in; `None`: they were not read.
    pub fn judge_steps(
        &mut self,
        outcomes: impl Fn(u64) -> Option<StepOutcomes>,
        now_real: Timestamp,
        ceiling: u32,
    ) {
        while let Some(made) = self.unjudged.first().copied() {
            let Some(outcomes) = outcomes(made.step) else { break };
            if outcomes.count < made.released && now_real < made.judge_at_real {
                break;
            }
            self.unjudged.remove(0);
            let verdict = judge(made.released, &outcomes, &self.first_steps);
            if self.first_steps.count < FIRST_STEPS {
                self.first_steps.count += 1;
                self.first_steps.latencies.add(&outcomes.latencies);
            }
            self.follow(verdict, made.released);
        }
        self.size = self.size.clamp(1, ceiling.max(1));
    }

    /// By the size of the step that was judged: those behind it, which are not judged yet, make the next one no larger.
    fn follow(&mut self, verdict: Verdict, released: u32) {
        self.size = match verdict {
            Verdict::BackToOne => 1,
            Verdict::Half => self.size.min((released / 2).max(1)),
            Verdict::Double => self.size.max(self.size.saturating_mul(2).min(released.saturating_mul(2))),
        };
    }

    /// Claims a step: returns its number and size, and prepares the next. `http_timeout` is real time.
    pub fn claim_step(&mut self, now: Now, http_timeout: Duration) -> (u64, u32) {
        let (step, size) = (self.step, self.size);
        // Counted from when the last ticket of the step is due.
        let judge_at_real = now.real + STEP_INTERVAL + http_timeout * 2;
        self.unjudged.push(Unjudged { step, released: size, judge_at_real });
        self.step += 1;
        self.next_step_at = now.schedule + STEP_INTERVAL;
        (step, size)
    }

    /// A step has been made, and released this many. One that released nothing says nothing.
    pub fn end_step(&mut self, step: u64, released: u32) {
        if released == 0 {
            self.unjudged.retain(|made| made.step != step);
        }
        if let Some(made) = self.unjudged.iter_mut().find(|made| made.step == step) {
            made.released = released;
        }
    }

    /// Whether finding nothing parked is final for a step that began then: no function can still act on the health that the URL had before.
    #[must_use]
    pub fn may_end(&self, step_began_real: Timestamp, function_timeout: Duration) -> bool {
        step_began_real >= self.enabled_at_real + function_timeout * 2
    }
}

#[cfg(test)]
#[path = "release_tests.rs"]
mod tests;
