//! A tenant's requests that take the processor or the store for a while: few of them are worked on at a time, and the others wait, so
//! that neither one tenant nor many can keep all threads busy.

use std::hash::Hash;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use holdfast_core::engine::{Gate, GateLimits, Inside, yield_now};
use holdfast_core::ids::Tenant;

use crate::auth::KeyHolder;
use crate::budget::Held;
use crate::{App, Problem};

/// How many bodies of a tenant, or of all operator keys, are parsed at the same time. Parsing a large one takes milliseconds.
const PARSED_BODIES: usize = 1;
/// How many small bodies are parsed at the same time, of all. Each takes a fraction of a millisecond, and a task waits for those before it.
const SMALL_BODIES: usize = 64;
/// Parsing a larger body takes up to milliseconds without a pause. It gets a thread of its own, so that the system divides the
/// processor between it and the requests of others.
const MAX_SMALL_BYTES: usize = 32_000;
/// What counts as one when tenants take turns at parsing.
const COST_BYTES: usize = 4_096;
/// How many posts of a tenant are in progress at the same time, most of them waiting for the disk. Each holds a connection that other tenants
/// may need.
const POSTS: usize = 256;
/// How many other requests of a tenant are worked on at the same time.
const OTHER_REQUESTS: usize = 8;
/// How many more of them wait for their turn. Each holds a connection that other tenants may need.
const MAX_WAITING: usize = 128;
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The turn of a request with a larger response lasts until the client has taken the response, because it takes memory until then.
const MAX_UNCOUNTED_BYTES: u64 = 64_000;

/// The turns of all tenants.
pub(crate) struct Turns {
    small_bodies: Gate<KeyHolder>,
    large_bodies: Gate<KeyHolder>,
    posts: Gate<Tenant>,
    others: Gate<Tenant>,
}

fn gate<K: Clone + Eq + Hash>(in_all: usize, per_holder: usize) -> Gate<K> {
    Gate::new(GateLimits { in_all, per_holder, one_each: false })
}

impl Default for Turns {
    fn default() -> Turns {
        // Half of the processor is left for everything else.
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).div_ceil(2);
        let bodies = |in_all| gate(in_all, PARSED_BODIES);
        // Many of these wait for something else than this machine, such as a receiver.
        let of_a_tenant = |per_holder| gate(usize::MAX, per_holder);
        Turns {
            small_bodies: bodies(SMALL_BODIES),
            large_bodies: bodies(threads),
            posts: of_a_tenant(POSTS),
            others: of_a_tenant(OTHER_REQUESTS),
        }
    }
}

impl Turns {
    /// Parses or writes a body of this size, when it is the turn of its holder: a large one on a thread of its own.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        holder: &KeyHolder,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let gate = if bytes <= MAX_SMALL_BYTES { &self.small_bodies } else { &self.large_bodies };
        let turn = gate.enter(holder, 1 + (bytes / COST_BYTES) as u64).await;
        if bytes <= MAX_SMALL_BYTES {
            return Ok(work());
        }
        let work = move || {
            // The work goes on when the client is gone, and so does its turn.
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Problem::unavailable("Holdfast is stopping; send the request again."),
        })
    }

    /// Waits for a turn of a post, unless too many of the tenant wait.
    pub(crate) async fn to_post(&self, tenant: &Tenant) -> Result<Inside<Tenant>, Problem> {
        enter(&self.posts, tenant, "posts", POSTS).await
    }

    /// The same for any other request.
    async fn for_other(&self, tenant: &Tenant) -> Result<Inside<Tenant>, Problem> {
        enter(&self.others, tenant, "requests", OTHER_REQUESTS).await
    }
}

async fn enter(
    gate: &Gate<Tenant>,
    tenant: &Tenant,
    what: &str,
    at_a_time: usize,
) -> Result<Inside<Tenant>, Problem> {
    let Some(entering) = gate.enter_if_short(tenant, 1, MAX_WAITING) else {
        let detail = format!(
            "{at_a_time} {what} of this tenant are in progress and {MAX_WAITING} more wait for them; send fewer at the same time, and \
             this one again."
        );
        return Err(Problem::too_many(RETRY_AFTER, detail));
    };
    Ok(entering.await)
}

/// The turn of one request, in its extensions: an extractor takes the turn, and it lasts longer than the handler.
#[derive(Clone, Default)]
pub(crate) struct TurnSlot(Arc<Mutex<Taken>>);

/// What a request has taken.
#[derive(Default)]
struct Taken {
    turn: Option<Inside<Tenant>>,
    /// Whose key it is made with.
    holder: Option<KeyHolder>,
}

impl TurnSlot {
    /// Waits for a turn of this tenant, unless too many of its requests do.
    pub(crate) async fn fill(parts: &mut Parts, app: &App, tenant: &Tenant) -> Result<(), Problem> {
        let turn = app.turns.for_other(tenant).await?;
        TurnSlot::of(parts).lock().turn = Some(turn);
        Ok(())
    }

    /// The key of the request is valid. From here on, a host that lets its connections take turns polls this one in the turn of the holder.
    pub(crate) async fn set_holder(parts: &mut Parts, holder: &KeyHolder) {
        TurnSlot::of(parts).lock().holder = Some(holder.clone());
        yield_now().await;
    }

    fn holder(&self) -> Option<KeyHolder> {
        self.lock().holder.clone()
    }

    fn of(parts: &mut Parts) -> &TurnSlot {
        parts.extensions.get_or_insert_default::<TurnSlot>()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a response, with what its request has taken.
struct Unsent {
    bytes: Bytes,
    _turn: Option<Inside<Tenant>>,
    _held: Held,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Ends the turn of a request when it is answered, and with a large response only when its last byte is written or the connection is
/// gone. So a tenant that does not read its responses keeps only its own requests waiting. Such responses also count in the budget.
pub(crate) async fn keep_until_sent(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let slot = TurnSlot::default();
    request.extensions_mut().insert(slot.clone());
    // The query may hold what a person searches for, so it is not logged.
    let named = tracing::enabled!(tracing::Level::DEBUG)
        .then(|| (request.method().clone(), request.uri().path().to_owned()));
    let response = next.run(request).await;
    if let Some((method, path)) = named {
        let holder = slot.holder();
        tracing::debug!(%method, path, status = response.status().as_u16(), ?holder, "api.request");
    }
    let Taken { turn, holder } = std::mem::take(&mut *slot.lock());
    // What needs no key is the same for all and in memory anyway.
    let Some(holder) = holder else { return response };
    if response.body().size_hint().lower() <= MAX_UNCOUNTED_BYTES {
        return response;
    }
    let (parts, body) = response.into_parts();
    // All of it is in memory already, so this neither waits nor copies.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Problem::unavailable("The response could not be made; retry later.").into_response();
    };
    let mut held = app.responses.held_by(holder);
    match held.grow(bytes.len()) {
        Ok(()) => Response::from_parts(
            parts,
            Body::from(Bytes::from_owner(Unsent { bytes, _turn: turn, _held: held })),
        ),
        Err(over) => held.problem(over).into_response(),
    }
}
