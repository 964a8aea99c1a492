use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_core::ids::Tenant;
use holdfast_core::ports::{AttemptRequest, AttemptResponse, AttemptResult, Clock, Refused, Sender};
use holdfast_core::rules::guard::{EgressPolicy, Guard};
use holdfast_core::rules::shortage::Shortage;
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;
use tokio::time::{Instant, timeout, timeout_at};
use url::{Position, Url};

use crate::busy::waiting;
use crate::client::{BuildError, HttpClient, Received};
use crate::config::EgressConfig;
use crate::failure;
use crate::lookup::{Lookup, SystemLookup};
use crate::names::Names;
use crate::resolver::{self, GuardedResolver, Unresolved};
use crate::response;
use crate::retry_after;

/// Creating a subscription waits no longer than this for a name lookup. Every attempt checks the name again.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes attempts with one HTTP client, whose connections are reused.
pub struct HttpSender {
    client: HttpClient,
    guard: Arc<Guard>,
    resolver: GuardedResolver,
    /// All connections go to a proxy, so the client does not resolve the receivers' names itself.
    uses_proxy: bool,
    timeout: Duration,
    /// Turns a `retry-after` date into a wait.
    clock: Arc<dyn Clock>,
}

/// A sender with an operator's settings, and defaults for everything else.
pub fn sender(
    timeout: Duration,
    EgressPolicy { guard, proxy }: EgressPolicy,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Sender>, BuildError> {
    let config = EgressConfig { timeout, guard, proxy, ..EgressConfig::default() };
    Ok(Arc::new(HttpSender::new(config, clock)?))
}

impl HttpSender {
    pub fn new(config: EgressConfig, clock: Arc<dyn Clock>) -> Result<HttpSender, BuildError> {
        let lookup = SystemLookup::new(config.lookup_deadline())?;
        HttpSender::with_lookup(config, clock, Arc::new(lookup))
    }

    pub fn with_lookup(
        config: EgressConfig,
        clock: Arc<dyn Clock>,
        lookup: Arc<dyn Lookup>,
    ) -> Result<HttpSender, BuildError> {
        let guard = Arc::new(config.guard.clone());
        let names = Names::new(lookup, config.lookups, config.lookup_deadline());
        let resolver = GuardedResolver::new(Arc::clone(&guard), names);
        let client = HttpClient::new(&config, resolver.clone())?;
        let uses_proxy = config.proxy.is_some();
        Ok(HttpSender { client, guard, resolver, uses_proxy, timeout: config.timeout, clock })
    }

    async fn attempt(&self, request: AttemptRequest, deadline: Instant) -> Result<AttemptResponse, Shortage> {
        let tenant = request.tenant.clone();
        let (url, request) = match to_http(request) {
            Ok(parsed) => parsed,
            Err(invalid) => return Ok(invalid),
        };
        if let Err(refusal) = self.guard.check_url(&url) {
            return Ok(failure::blocked(&refusal));
        }
        let (executed, waited) = waiting(timeout_at(deadline, self.execute(tenant, &url, request))).await;
        match executed {
            Ok(Ok(received)) => self.finish(received, (deadline, waited)).await,
            Ok(Err(failed)) => failed,
            Err(_) => self.timed_out((deadline, waited), failure::no_response_within(self.timeout)),
        }
    }

    /// The receiver's failure, unless it is we who were too busy to let it answer or to notice in time.
    fn timed_out(
        &self,
        (deadline, waited): (Instant, Duration),
        failed: AttemptResponse,
    ) -> Result<AttemptResponse, Shortage> {
        match Shortage::of_late_timeout(deadline.elapsed() + waited, self.timeout) {
            Some(shortage) => Err(shortage),
            None => Ok(failed),
        }
    }

    async fn execute(
        &self,
        tenant: Tenant,
        url: &Url,
        request: Request<Full<Bytes>>,
    ) -> Result<Received, Result<AttemptResponse, Shortage>> {
        // Without a proxy, the client calls the resolver itself, when it needs a new connection.
        if let Some(name) = url.domain().filter(|_| self.uses_proxy) {
            self.resolver
                .addresses(Some(&tenant), name)
                .await
                .map_err(|error| failure::unresolved(&error))?;
        }
        let sent = resolver::as_tenant(tenant, self.client.execute(request)).await;
        sent.map_err(|error| failure::from_client(&error, self.timeout))
    }

    /// A response counts only when it is complete, up to the size that is read.
    async fn finish(
        &self,
        received: Received,
        (deadline, waited): (Instant, Duration),
    ) -> Result<AttemptResponse, Shortage> {
        let Received { response, metered } = received;
        let status = response.status().as_u16();
        let retry_after = retry_after::parse(response.headers(), self.clock.wall());
        match timeout_at(deadline, response::read_excerpt(response.into_body())).await {
            Ok(Ok((excerpt, is_complete))) => {
                if let Some(metered) = metered.filter(|_| is_complete) {
                    metered.complete();
                }
                Ok(AttemptResponse::Status { status, excerpt, retry_after })
            }
            Ok(Err(error)) => Ok(failure::from_body(&error, self.timeout)),
            Err(_) => self.timed_out((deadline, waited), failure::incomplete_within(self.timeout, status)),
        }
    }
}

#[async_trait]
impl Sender for HttpSender {
    async fn send(&self, request: AttemptRequest) -> Result<AttemptResult, Shortage> {
        let started = Instant::now();
        let response = self.attempt(request, started + self.timeout).await?;
        Ok(AttemptResult { response, took: started.elapsed() })
    }

    async fn check(&self, tenant: &Tenant, url: &str) -> Result<(), Refused> {
        let url = Url::parse(url).map_err(|e| Refused(format!("is invalid: {e}")))?;
        self.guard.check_url(&url).map_err(|refusal| Refused(refusal.to_string()))?;
        let Some(name) = url.domain() else { return Ok(()) };
        match timeout(CHECK_TIMEOUT, self.resolver.addresses(Some(tenant), name)).await {
            Ok(Err(Unresolved::Refused(refusal))) => Err(Refused(refusal.to_string())),
            // A name that cannot be resolved now may have an address when it is needed.
            _ => Ok(()),
        }
    }
}

/// The HTTP client's form of the request, or the failure to record if it is invalid.
fn to_http(request: AttemptRequest) -> Result<(Url, Request<Full<Bytes>>), AttemptResponse> {
    let url =
        Url::parse(&request.url).map_err(|e| failure::invalid_request(format!("the URL is invalid: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(failure::invalid_request("the URL must start with https:// or http://"));
    }
    let uri: Uri = url[..Position::AfterQuery].parse().map_err(failure::invalid_request)?;
    let mut http = Request::new(Full::new(request.body));
    *http.method_mut() = Method::POST;
    *http.uri_mut() = uri;
    *http.headers_mut() = to_http_headers(request.headers)?;
    http.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    Ok((url, http))
}

fn to_http_headers(given: Vec<(&'static str, String)>) -> Result<HeaderMap, AttemptResponse> {
    let mut headers = HeaderMap::with_capacity(given.len());
    for (name, value) in given {
        let invalid = || failure::invalid_request(format!("the header {name} cannot be encoded"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
        // Keeps the token out of debug output.
        value.set_sensitive(key == AUTHORIZATION);
        headers.append(key, value);
    }
    Ok(headers)
}
