//! The memory that the bodies of requests take, from the first byte that arrives until the request is answered, and that large responses
//! take until the client has them: so much in total, and a part of it for each holder of keys.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Problem;
use crate::auth::KeyHolder;
use crate::body::MAX_BYTES;

/// For the bodies of all requests at the same time.
const MAX_BODIES_BYTES: usize = 128_000_000;
/// For all large responses. Fewer than for bodies: a holder has few requests other than posts at a time.
const MAX_RESPONSES_BYTES: usize = 64_000_000;
/// More than the largest page of a list.
const MAX_RESPONSE_BYTES: usize = 16_000_000;
/// A holder gets one part of what the others leave, of so many. So however many fill their parts, something is left for the next one.
const PARTS: usize = 4;
/// A holder may always hold so much, whatever the others hold: small requests are not kept out by large ones.
const ALWAYS_BYTES: usize = 64_000;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why no more of a body may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverBudget {
    /// All holders together have the maximum.
    Total,
    /// This holder has its part.
    Holder,
}

/// What is held.
#[derive(Clone, Copy)]
enum What {
    Bodies,
    Responses,
}

impl What {
    /// A part is at least one whole body or response.
    fn min_part(self) -> usize {
        match self {
            What::Bodies => MAX_BYTES,
            What::Responses => MAX_RESPONSE_BYTES,
        }
    }

    /// In the problem that is answered.
    fn in_words(self) -> &'static str {
        match self {
            What::Bodies => "bodies of",
            What::Responses => "responses that clients have not read yet to",
        }
    }
}

/// Whether a holder that has `own` bytes may hold `more` of the `max` that there are for all, while the others hold `others`.
fn check(what: What, max: usize, others: usize, own: usize, more: usize) -> Result<(), OverBudget> {
    let wanted = own.saturating_add(more);
    let left = max.saturating_sub(others);
    if wanted <= ALWAYS_BYTES {
        return Ok(());
    }
    if wanted > left {
        return Err(OverBudget::Total);
    }
    if wanted > (left / PARTS).max(what.min_part()) { Err(OverBudget::Holder) } else { Ok(()) }
}

/// The bytes that all bodies, or all responses, hold.
pub(crate) struct Budget {
    what: What,
    max_bytes: usize,
    held: Mutex<HeldBytes>,
}

#[derive(Default)]
struct HeldBytes {
    total: usize,
    /// Only holders that hold some.
    by_holder: HashMap<KeyHolder, usize>,
}

impl Budget {
    pub(crate) fn for_bodies() -> Budget {
        Budget { what: What::Bodies, max_bytes: MAX_BODIES_BYTES, held: Mutex::default() }
    }

    pub(crate) fn for_responses() -> Budget {
        Budget { what: What::Responses, max_bytes: MAX_RESPONSES_BYTES, held: Mutex::default() }
    }

    /// Of a new request, which holds nothing yet.
    pub(crate) fn held_by(self: &Arc<Self>, holder: KeyHolder) -> Held {
        Held { budget: Arc::clone(self), holder, bytes: 0 }
    }

    /// No change can panic halfway, so the data behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, HeldBytes> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the body of one request, or the response to it, holds. Given back when it is dropped.
pub(crate) struct Held {
    budget: Arc<Budget>,
    holder: KeyHolder,
    bytes: usize,
}

impl Held {
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), OverBudget> {
        let mut held = self.budget.lock();
        let own = held.by_holder.get(&self.holder).copied().unwrap_or(0);
        check(self.budget.what, self.budget.max_bytes, held.total - own, own, more)?;
        held.total += more;
        held.by_holder.insert(self.holder.clone(), own + more);
        self.bytes += more;
        Ok(())
    }

    pub(crate) fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return;
        }
        let mut held = self.budget.lock();
        held.total -= bytes;
        if let Entry::Occupied(mut own) = held.by_holder.entry(self.holder.clone()) {
            *own.get_mut() -= bytes;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }

    pub(crate) fn problem(&self, over: OverBudget) -> Problem {
        let what = self.budget.what.in_words();
        match over {
            OverBudget::Total => Problem::unavailable(format!(
                "The {what} all requests in progress take as much memory as they may; send the request again after 1 s."
            )),
            OverBudget::Holder => {
                let whose = match self.holder {
                    KeyHolder::Tenant(_) => "of this tenant",
                    KeyHolder::Operators => "with operator keys",
                };
                let detail = format!(
                    "The {what} the requests {whose} that are in progress take as much memory as they may; send fewer or smaller \
                     ones at the same time, and this one again after 1 s."
                );
                Problem::too_many(RETRY_AFTER, detail)
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1_000_000;

    #[test]
    fn a_holder_gets_a_quarter_of_what_others_leave_and_at_least_one_body() {
        let cases = [
            // In MB: those of others, its own, and what it wants.
            (0, 0, 64, Ok(())),
            (0, 63, 1, Ok(())),
            (0, 64, 1, Err(OverBudget::Holder)),
            (64, 0, 48, Ok(())),
            (64, 48, 1, Err(OverBudget::Holder)),
            (192, 15, 1, Ok(())),
            (192, 16, 1, Err(OverBudget::Holder)),
            (254, 0, 1, Ok(())),
            (254, 1, 1, Err(OverBudget::Holder)),
            (255, 0, 1, Ok(())),
            (255, 1, 1, Err(OverBudget::Total)),
            (256, 0, 1, Err(OverBudget::Total)),
        ];
        for (others, own, more, expected) in cases {
            let found = check(What::Bodies, 256 * MB, others * MB, own * MB, more * MB);
            assert_eq!(found, expected, "{others} {own} {more}");
        }
    }

    #[test]
    fn a_small_body_is_held_whatever_the_others_hold() {
        for others in [0, 255 * MB, 256 * MB, 300 * MB] {
            let check = |own, more| check(What::Bodies, 256 * MB, others, own, more);
            assert_eq!((check(0, 64_000), check(63_999, 1)), (Ok(()), Ok(())), "{others}");
        }
        assert_eq!(check(What::Bodies, 256 * MB, 256 * MB, 0, 64_001), Err(OverBudget::Total));
        assert_eq!(check(What::Bodies, 256 * MB, 256 * MB, 64_000, 1), Err(OverBudget::Total));
    }

    #[test]
    fn a_holder_without_a_response_may_have_one_as_long_as_it_fits() {
        let check = |others, own, more| check(What::Responses, 256 * MB, others * MB, own * MB, more * MB);
        assert_eq!(check(0, 48, 12), Ok(()));
        assert_eq!(check(0, 60, 12), Err(OverBudget::Holder));
        assert_eq!(check(240, 0, 12), Ok(()));
        assert_eq!(check(240, 12, 12), Err(OverBudget::Total));
        assert_eq!(check(250, 0, 12), Err(OverBudget::Total));
    }

    #[test]
    fn what_is_held_is_given_back_to_its_holder() {
        let budget = Arc::new(Budget { max_bytes: 8 * MB, ..Budget::for_bodies() });
        let of = |name: &str| budget.held_by(KeyHolder::Tenant(name.into()));
        let (mut one, mut two) = (of("a"), of("a"));
        one.grow(MB).unwrap();
        two.grow(MB).unwrap();
        assert_eq!(of("a").grow(1), Err(OverBudget::Holder), "another request of the same tenant");
        assert_eq!(of("b").grow(MB), Ok(()));
        assert_eq!(budget.held_by(KeyHolder::Operators).grow(MB), Ok(()));
        two.release();
        assert_eq!(of("a").grow(MB), Ok(()));
        drop((one, two));
        let held = budget.lock();
        assert_eq!((held.total, held.by_holder.len()), (0, 0));
    }

    #[test]
    fn tenants_together_never_hold_more_than_the_total() {
        let budget = Arc::new(Budget { max_bytes: 8 * MB, ..Budget::for_bodies() });
        let mut held: Vec<Held> =
            (0..20).map(|n| budget.held_by(KeyHolder::Tenant(format!("t{n}").as_str().into()))).collect();
        let grown: Vec<_> = held.iter_mut().map(|held| held.grow(MB)).collect();
        assert_eq!(grown.iter().filter(|grown| grown.is_ok()).count(), 8);
        assert!(grown[8..].iter().all(|grown| *grown == Err(OverBudget::Total)));
    }
}
