//! The body of a request, limited in size, in the time it takes to arrive, and in the memory that it takes together with others.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::auth::KeyHolder;
use crate::budget::Held;
use crate::{App, Problem, params};

pub(crate) const MAX_BYTES: usize = 1_000_000;
/// A body that is refused is still read up to this size, and discarded: a client whose connection is closed while it sends does not
/// see the answer.
const MAX_DISCARDED_BYTES: usize = 8_000_000;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct RequestBody {
    app: Arc<App>,
    holder: KeyHolder,
    bytes: Bytes,
    held: Held,
}

impl RequestBody {
    /// Parses the body when its holder has a turn. The handler keeps `Held` until it answers, because what was parsed takes as much memory.
    pub(crate) async fn parse<T: Send + 'static>(
        self,
        parse: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, Held), Problem> {
        let RequestBody { app, holder, bytes, held } = self;
        app.turns.work(&holder, bytes.len(), move || Ok((parse(&bytes)?, held))).await?
    }
}

impl FromRequest<Arc<App>> for RequestBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<RequestBody, Problem> {
        let (parts, body) = request.into_parts();
        // Without a valid key nothing is read: the extractor of the caller, which runs before, names the holder.
        let holder = parts.extensions.get::<KeyHolder>().ok_or_else(Problem::unauthorized)?;
        let holder = holder.clone();
        let mut reader = Reader::new(app.bodies.held_by(holder.clone()), &body);
        let in_time = tokio::time::timeout(READ_TIMEOUT, reader.read(body)).await;
        let (bytes, held) = reader.finish(in_time.unwrap_or_else(|_| {
            let detail = "The body did not arrive within 10 s; send the request again.";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
        }))?;
        params::reject_unknown(parts.uri.query())?;
        Ok(RequestBody { app: Arc::clone(app), holder, bytes, held })
    }
}

/// What has arrived of a body.
struct Reader {
    held: Held,
    /// How long the body is expected to be.
    expected: usize,
    /// How much has arrived, discarded bytes too.
    length: usize,
    /// Several pieces, joined. Held with its whole capacity.
    joined: Vec<u8>,
    /// The only piece, as it came: most bodies come in one, which then needs no copy.
    single: Option<Bytes>,
    /// Why the body is not kept, though its rest is still read.
    refused: Option<Problem>,
}

impl Reader {
    fn new(held: Held, body: &Body) -> Reader {
        let declared = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let expected = declared.unwrap_or(MAX_BYTES).min(MAX_BYTES);
        Reader { held, expected, length: 0, joined: Vec::new(), single: None, refused: None }
    }

    async fn read(&mut self, mut body: Body) -> Result<(), Problem> {
        while let Some(frame) = body.frame().await {
            let broken = |_| {
                let detail = "The connection broke before the whole body arrived; send the request again.";
                Problem::new(StatusCode::BAD_REQUEST, detail)
            };
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            self.length = self.length.saturating_add(data.len());
            if self.refused.is_none()
                && let Err(problem) = self.add(data, body.is_end_stream())
            {
                self.refused = Some(problem);
                self.joined = Vec::new();
                self.held.release();
            }
            if self.length > MAX_DISCARDED_BYTES {
                break;
            }
        }
        Ok(())
    }

    fn add(&mut self, data: Bytes, is_last: bool) -> Result<(), Problem> {
        if self.length > MAX_BYTES {
            let detail = format!("The body is larger than {MAX_BYTES} bytes; send less at once.");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        let (has, needs) = (self.joined.capacity(), self.joined.len() + data.len());
        if is_last && self.joined.is_empty() {
            self.grow(data.len())?;
            self.single = Some(data);
            return Ok(());
        }
        if needs > has {
            // Twice as much each time, so that few bytes are copied more than once or twice.
            let capacity = (has * 2).min(self.expected).max(needs);
            self.grow(capacity - has)?;
            self.joined.reserve_exact(capacity - self.joined.len());
        }
        self.joined.extend_from_slice(&data);
        Ok(())
    }

    fn grow(&mut self, more: usize) -> Result<(), Problem> {
        self.held.grow(more).map_err(|over| self.held.problem(over))
    }

    /// A body that was refused is answered so, even if its rest did not arrive.
    fn finish(self, read: Result<(), Problem>) -> Result<(Bytes, Held), Problem> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        read?;
        let bytes = self.single.unwrap_or_else(|| self.joined.into());
        Ok((bytes, self.held))
    }
}
