//! A tenant's requests that take the processor or the store for a while: few of them are worked on at a time, and the others wait, so
//! that one tenant cannot keep all threads busy.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

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
    by_holder: Mutex<HashMap<T, Weak<Semaphore>>>,
}

/// Ends when it is dropped.
pub(crate) struct Turn(#[expect(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>);

impl<T: Clone + Eq + Hash> TurnsOf<T> {
    fn new(at_a_time: usize) -> TurnsOf<T> {
        TurnsOf { at_a_time, by_holder: Mutex::default() }
    }

    /// Waits for a turn of this holder.
    pub(crate) async fn take(&self, holder: &T) -> Turn {
        // A semaphore that is never closed always has a permit in the end.
        Turn(self.of(holder).acquire_owned().await.ok())
    }

    fn of(&self, holder: &T) -> Arc<Semaphore> {
        let mut by_holder = self.by_holder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = by_holder.get(holder).and_then(Weak::upgrade) {
            return found;
        }
        if by_holder.len() >= MIN_PRUNED {
            by_holder.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        let new = Arc::new(Semaphore::new(self.at_a_time));
        by_holder.insert(holder.clone(), Arc::downgrade(&new));
        new
    }
}

/// The turn of one request, in its extensions: an extractor takes the turn, and it lasts longer than the handler.
#[derive(Clone, Default)]
pub(crate) struct TurnSlot(Arc<Mutex<Option<Turn>>>);

impl TurnSlot {
    /// Waits for a turn of this tenant.
    pub(crate) async fn fill(parts: &mut Parts, app: &App, tenant: &Tenant) {
        let turn = app.turns.for_others.take(tenant).await;
        let slot = parts.extensions.get_or_insert_default::<TurnSlot>();
        *slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
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
