//! A tenant's requests that take the processor or the store for a while: few of them are worked on at a time, and the others wait, so
//! that one tenant cannot keep all threads busy.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use holdfast_core::ids::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::KeyHolder;
use crate::{App, Problem};

/// How many bodies of a tenant, or of all operator keys, are parsed at the same time. Parsing a large one takes milliseconds.
const PARSED_BODIES: usize = 1;
/// How many other requests of a tenant are worked on at the same time.
const OTHER_REQUESTS: usize = 8;
/// How many more of them wait for their turn. Each holds a connection that other tenants may need.
const MAX_WAITING: usize = 128;
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The turn of a request with a larger response lasts until the client has taken the response, because it takes memory until then.
const MAX_UNCOUNTED_BYTES: u64 = 64_000;
/// So many holders are remembered before the first search for those without requests.
const MIN_PRUNED: usize = 1_024;

/// The turns of all tenants.
pub(crate) struct Turns {
    pub(crate) to_parse: TurnsOf<KeyHolder>,
    pub(crate) for_others: TurnsOf<Tenant>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { to_parse: TurnsOf::new(PARSED_BODIES), for_others: TurnsOf::new(OTHER_REQUESTS) }
    }
}

/// The turns for one kind of work.
pub(crate) struct TurnsOf<T> {
    at_a_time: usize,
    by_holder: Mutex<HashMap<T, Weak<Holder>>>,
}

/// The turns of one holder, which is remembered as long as a request has or awaits one.
struct Holder {
    turns: Arc<Semaphore>,
    /// Places to wait in.
    waiting: Semaphore,
}

/// Too many requests of the holder wait already.
#[derive(Debug)]
pub(crate) struct TooManyWaiting;

/// Ends when it is dropped.
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
    _holder: Arc<Holder>,
}

impl<T: Clone + Eq + Hash> TurnsOf<T> {
    fn new(at_a_time: usize) -> TurnsOf<T> {
        TurnsOf { at_a_time, by_holder: Mutex::default() }
    }

    /// Waits for a turn of this holder.
    pub(crate) async fn take(&self, holder: &T) -> Turn {
        let holder = self.of(holder);
        // A semaphore that is never closed always has a permit in the end.
        let permit = Arc::clone(&holder.turns).acquire_owned().await.ok();
        Turn { _permit: permit, _holder: holder }
    }

    /// The same, unless too many wait.
    pub(crate) async fn take_or_refuse(&self, holder: &T) -> Result<Turn, TooManyWaiting> {
        let holder = self.of(holder);
        let permit = match Arc::clone(&holder.turns).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                let _place = holder.waiting.try_acquire().map_err(|_| TooManyWaiting)?;
                Arc::clone(&holder.turns).acquire_owned().await.ok()
            }
        };
        Ok(Turn { _permit: permit, _holder: holder })
    }

    fn of(&self, holder: &T) -> Arc<Holder> {
        let mut by_holder = self.by_holder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = by_holder.get(holder).and_then(Weak::upgrade) {
            return found;
        }
        if by_holder.len() >= MIN_PRUNED {
            by_holder.retain(|_, holder| holder.strong_count() > 0);
        }
        let turns = Arc::new(Semaphore::new(self.at_a_time));
        let new = Arc::new(Holder { turns, waiting: Semaphore::new(MAX_WAITING) });
        by_holder.insert(holder.clone(), Arc::downgrade(&new));
        new
    }
}

impl From<TooManyWaiting> for Problem {
    fn from(_: TooManyWaiting) -> Problem {
        let detail = format!(
            "{OTHER_REQUESTS} requests of this tenant are in progress and {MAX_WAITING} more wait for them; send fewer at the same time, and \
             this one again."
        );
        Problem::too_many(RETRY_AFTER, detail)
    }
}

/// The turn of one request, in its extensions: an extractor takes the turn, and it lasts longer than the handler.
#[derive(Clone, Default)]
pub(crate) struct TurnSlot(Arc<Mutex<Option<Turn>>>);

impl TurnSlot {
    /// Waits for a turn of this tenant, unless too many of its requests do.
    pub(crate) async fn fill(parts: &mut Parts, app: &App, tenant: &Tenant) -> Result<(), Problem> {
        let turn = app.turns.for_others.take_or_refuse(tenant).await?;
        let slot = parts.extensions.get_or_insert_default::<TurnSlot>();
        *slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
        Ok(())
    }

    fn take(&self) -> Option<Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The bytes of a response, with the turn of its request.
struct WithTurn {
    bytes: Bytes,
    _turn: Turn,
}

impl AsRef<[u8]> for WithTurn {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Ends the turn of a request when it is answered, and with a large response only when its last byte is written or the connection is
/// gone. So a tenant that does not read its responses keeps only its own requests waiting.
pub(crate) async fn keep_until_sent(mut request: Request, next: Next) -> Response {
    let slot = TurnSlot::default();
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    let Some(turn) = slot.take() else { return response };
    if response.body().size_hint().lower() <= MAX_UNCOUNTED_BYTES {
        return response;
    }
    let (parts, body) = response.into_parts();
    // All of it is in memory already, so this neither waits nor copies.
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => {
            Response::from_parts(parts, Body::from(Bytes::from_owner(WithTurn { bytes, _turn: turn })))
        }
        Err(_) => Problem::unavailable("The response could not be made; retry later.").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_tenant_has_few_turns_at_a_time_and_others_have_their_own() {
        let turns = TurnsOf::<Tenant>::new(2);
        let take = |tenant: &str| turns.take(&tenant.into()).now_or_never();
        let (one, two) = (take("a"), take("a"));
        assert!(one.is_some() && two.is_some());
        assert!(take("a").is_none());
        assert!(take("b").is_some());
        drop(one);
        assert!(take("a").is_some());
    }

    #[test]
    fn a_tenant_has_few_requests_that_wait() {
        let turns = TurnsOf::<Tenant>::new(1);
        let (mine, other) = (Tenant::from("a"), Tenant::from("b"));
        let held = turns.take_or_refuse(&mine).now_or_never();
        let take = || Box::pin(turns.take_or_refuse(&mine));
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| take()).collect();
        assert!(waiting.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        assert!(matches!(take().now_or_never(), Some(Err(TooManyWaiting))));
        assert!(matches!(turns.take_or_refuse(&other).now_or_never(), Some(Ok(_))));
        // One that no longer waits leaves its place to another.
        drop(waiting.pop());
        waiting.push(take());
        assert!(waiting.last_mut().is_some_and(|turn| turn.as_mut().now_or_never().is_none()));
        drop(held);
        assert!(matches!(waiting[0].as_mut().now_or_never(), Some(Ok(_))));
    }

    #[test]
    fn tenants_without_requests_are_forgotten() {
        let turns = TurnsOf::<Tenant>::new(1);
        let held = turns.take(&"held".into()).now_or_never();
        for n in 0..MIN_PRUNED * 3 {
            turns.take(&format!("t{n}").as_str().into()).now_or_never();
        }
        assert!(turns.by_holder.lock().unwrap().len() <= MIN_PRUNED);
        assert!(turns.take(&"held".into()).now_or_never().is_none());
        drop(held);
    }
}
