//! Look-ups, shared, cached and limited, so that no tenant's names keep another tenant's from being resolved.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use holdfast_core::ids::Tenant;
use holdfast_core::rules::shortage::Shortage;
use tokio::time::{Instant, timeout};

use crate::config::LookupLimits;
use crate::lookup::{Lookup, LookupError};

/// Short, so that the budget holds in any second and not only in those that begin with a window: five windows touch one second.
const BUDGET_WINDOW: Duration = Duration::from_millis(250);
const BUDGET_WINDOWS_PER_SECOND: u32 = 4;
/// How long a look-up that is beyond a limit waits, so that the attempt still has time for its connection and response.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// How long after its time to live an answer may still be used if it cannot be renewed within the limits.
const MAX_EXPIRED: Duration = Duration::from_secs(300);
/// This part of a limit, a quarter, is kept for tenants that have nothing of it.
const KEPT_PART: u32 = 4;
/// How many addresses of a name are used, of IPv4 and of IPv6 each.
const MAX_PER_FAMILY: usize = 8;
/// What a look-up without an answer costs besides its two packets: the resolver repeats both twice, and asks for the root.
const REPEATED_LOOKUPS: u32 = 3;

/// Why a name has no addresses now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameError {
    NoAddress,
    /// There was no answer within this time.
    Hangs(Duration),
    Shortage(Shortage),
}

type Outcome = Result<Arc<[IpAddr]>, NameError>;
type SharedLookup = Shared<BoxFuture<'static, Outcome>>;

/// A look-up would be beyond a limit.
struct Full {
    /// When the next window of the budget begins.
    retry_at: Instant,
    /// The last answer, if it has not expired long ago.
    expired: Option<Arc<[IpAddr]>>,
}

/// Resolves names. Concurrent calls for a name share one look-up, which is cancelled with the last of them.
#[derive(Clone)]
pub(crate) struct Names {
    lookup: Arc<dyn Lookup>,
    limits: LookupLimits,
    /// How long a look-up may take.
    deadline: Duration,
    state: Arc<Mutex<State>>,
}

struct State {
    entries: HashMap<String, Entry>,
    /// Look-ups under way by the tenant that started them. `None` is the operator.
    under_way: Usage,
    /// Look-ups started in the current window of the budget.
    sent: Usage,
    window_ends: Instant,
    /// Tells look-ups of the same name apart.
    lookups: u64,
}

enum Entry {
    /// Does not keep the look-up alive: the attempts that wait for it do.
    UnderWay {
        number: u64,
        lookup: WeakShared<BoxFuture<'static, Outcome>>,
    },
    Known {
        outcome: Outcome,
        until: Instant,
    },
}

impl Names {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, limits: LookupLimits, deadline: Duration) -> Names {
        let state = State {
            entries: HashMap::new(),
            under_way: Usage::default(),
            sent: Usage::default(),
            // Set by the first look-up.
            window_ends: Instant::now(),
            lookups: 0,
        };
        Names { lookup, limits, deadline, state: Arc::new(Mutex::new(state)) }
    }

    /// `tenant` is whose limits count; `None` for names of the operator. A look-up that is beyond a limit waits for the next windows
    /// of the budget. If that is in vain, the last answer is used though it has expired: its addresses are checked like any others.
    pub(crate) async fn resolve(&self, tenant: Option<&Tenant>, name: &str) -> Outcome {
        let give_up_at = Instant::now() + self.deadline.min(MAX_WAIT);
        let mut has_waited = false;
        loop {
            let (retry_at, expired) = match self.join(tenant, name) {
                Ok(joined) => return joined.await,
                Err(Full { retry_at, expired }) => (retry_at, expired),
            };
            let waits = retry_at <= give_up_at && !(has_waited && expired.is_some());
            if !waits {
                return expired.ok_or(NameError::Shortage(Shortage::Resolver));
            }
            tokio::time::sleep_until(retry_at).await;
            has_waited = true;
        }
    }

    /// The look-up that is under way or a new one; ready at once when the answer is known.
    fn join(&self, tenant: Option<&Tenant>, name: &str) -> Result<SharedLookup, Full> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let mut expired = None;
        match state.entries.get(name) {
            Some(Entry::Known { outcome, until }) if now < *until => {
                return Ok(std::future::ready(outcome.clone()).boxed().shared());
            }
            Some(Entry::Known { outcome: Ok(addresses), until }) if now < *until + MAX_EXPIRED => {
                expired = Some(Arc::clone(addresses));
            }
            Some(Entry::UnderWay { lookup, .. }) => {
                if let Some(lookup) = lookup.upgrade() {
                    return Ok(lookup);
                }
            }
            _ => {}
        }
        let Some(slot) = self.take_slot(&mut state, tenant, name, now) else {
            return Err(Full { retry_at: state.window_ends, expired });
        };
        let number = slot.number;
        let lookup = self.clone().look_up(slot).boxed().shared();
        state.make_room(self.limits.max_names, now);
        if let Some(lookup) = lookup.downgrade() {
            state.entries.insert(name.to_owned(), Entry::UnderWay { number, lookup });
        }
        Ok(lookup)
    }

    /// `None`: it is beyond a limit.
    fn take_slot(
        &self,
        state: &mut State,
        tenant: Option<&Tenant>,
        name: &str,
        now: Instant,
    ) -> Option<Slot> {
        if now >= state.window_ends {
            state.sent = Usage::default();
            state.window_ends = now + BUDGET_WINDOW;
        }
        let LookupLimits { max_per_tenant, max_in_all, .. } = self.limits;
        let has_room = state.under_way.of(tenant) < max_per_tenant
            && state.under_way.has_room(tenant, max_in_all)
            && state.sent.has_room(tenant, self.max_per_window());
        if !has_room {
            return None;
        }
        state.under_way.add(tenant, 1);
        state.sent.add(tenant, 1);
        state.lookups += 1;
        let number = state.lookups;
        let names = self.clone();
        Some(Slot { name: name.to_owned(), tenant: tenant.cloned(), number, names })
    }

    fn max_per_window(&self) -> u32 {
        self.limits.max_per_second.div_ceil(BUDGET_WINDOWS_PER_SECOND)
    }

    async fn look_up(self, slot: Slot) -> Outcome {
        let deadline = self.deadline;
        let (outcome, ttl) = match timeout(deadline, self.lookup.addresses(&slot.name)).await {
            Ok(Ok(answer)) if answer.addresses.is_empty() => {
                (Err(NameError::NoAddress), self.limits.failure_ttl)
            }
            Ok(Ok(answer)) => {
                let ttl = answer.ttl.clamp(self.limits.min_ttl, self.limits.max_ttl);
                (Ok(few_of_each_family(answer.addresses)), ttl)
            }
            Ok(Err(LookupError::NoAddress(_))) => (Err(NameError::NoAddress), self.limits.failure_ttl),
            // About us and not about the name, so the next attempt asks again.
            Ok(Err(LookupError::Shortage(shortage))) => (Err(NameError::Shortage(shortage)), Duration::ZERO),
            Ok(Err(LookupError::NoAnswer)) | Err(_) => {
                (Err(NameError::Hangs(deadline)), self.limits.failure_ttl)
            }
        };
        slot.finish(&outcome, ttl);
        outcome
    }
}

/// The others are never connected to. An attempt tries one after the other, and names with thousands would take memory.
fn few_of_each_family(addresses: Vec<IpAddr>) -> Arc<[IpAddr]> {
    let (ipv4, ipv6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(IpAddr::is_ipv4);
    ipv4.into_iter().take(MAX_PER_FAMILY).chain(ipv6.into_iter().take(MAX_PER_FAMILY)).collect()
}

impl State {
    /// Drops what has expired once there are `max_names` names, and the name that expires first if that is not enough.
    fn make_room(&mut self, max_names: usize, now: Instant) {
        if self.entries.len() < max_names {
            return;
        }
        self.entries.retain(|_, entry| match entry {
            Entry::Known { until, .. } => now < *until,
            Entry::UnderWay { .. } => true,
        });
        if self.entries.len() < max_names {
            return;
        }
        let known = self.entries.iter().filter_map(|(name, entry)| match entry {
            Entry::Known { until, .. } => Some((*until, name)),
            Entry::UnderWay { .. } => None,
        });
        if let Some(name) = known.min().map(|(_, name)| name.clone()) {
            self.entries.remove(&name);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A look-up under way. Dropping it, also by cancelling the look-up, makes room for another.
struct Slot {
    name: String,
    tenant: Option<Tenant>,
    number: u64,
    names: Names,
}

impl Slot {
    fn finish(self, outcome: &Outcome, ttl: Duration) {
        let mut state = lock(&self.names.state);
        if matches!(outcome, Err(NameError::Hangs(_))) {
            let max = self.names.max_per_window();
            state.sent.charge(self.tenant.as_ref(), REPEATED_LOOKUPS, max);
        }
        if ttl.is_zero() {
            state.entries.remove(&self.name);
        } else {
            let known = Entry::Known { outcome: outcome.clone(), until: Instant::now() + ttl };
            state.entries.insert(self.name.clone(), known);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = lock(&self.names.state);
        state.under_way.remove(self.tenant.as_ref());
        let is_own = matches!(state.entries.get(&self.name), Some(Entry::UnderWay { number, .. }) if *number == self.number);
        if is_own {
            state.entries.remove(&self.name);
        }
    }
}

/// How much of a limit is used, by tenant.
#[derive(Default)]
struct Usage {
    total: u32,
    by_tenant: HashMap<Option<Tenant>, u32>,
}

impl Usage {
    fn of(&self, tenant: Option<&Tenant>) -> u32 {
        self.by_tenant.get(&tenant.cloned()).copied().unwrap_or(0)
    }

    /// The first half of a limit is for every tenant that wants some. What follows is only for tenants below an equal share of a half,
    /// so that one that uses all it can get leaves something to the others. The last part is for tenants that have none, one for each.
    fn has_room(&self, tenant: Option<&Tenant>, max: u32) -> bool {
        let half = max / 2;
        let used = self.of(tenant);
        let tenants = self.by_tenant.len() + usize::from(used == 0);
        let share = (half / u32::try_from(tenants).unwrap_or(u32::MAX)).max(1);
        let max_of_tenant = match self.total {
            total if total < half => u32::MAX,
            total if total < max - max / KEPT_PART => share,
            total if total < max => 1,
            _ => 0,
        };
        used < max_of_tenant
    }

    /// Counts what was used without being asked for. It takes nothing from the part that is kept.
    fn charge(&mut self, tenant: Option<&Tenant>, count: u32, max: u32) {
        let total = self.total.max((self.total + count).min(max - max / KEPT_PART));
        self.add(tenant, count);
        self.total = total;
    }

    fn add(&mut self, tenant: Option<&Tenant>, count: u32) {
        self.total += count;
        *self.by_tenant.entry(tenant.cloned()).or_default() += count;
    }

    fn remove(&mut self, tenant: Option<&Tenant>) {
        self.total -= 1;
        let tenant = tenant.cloned();
        if let Some(count) = self.by_tenant.get_mut(&tenant) {
            *count -= 1;
            if *count == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests;
