use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::ports::{Answer, AttemptRequest, AttemptResult, Clock, Refused, Sender};
use holdfast_core::rules::guard::{EgressPolicy, Guard};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Request, Response, Url};
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer;
use crate::client::{self, BuildError};
use crate::config::EgressConfig;
use crate::failure;
use crate::lookup::{Lookup, SystemLookup};
use crate::resolver::{GuardedResolver, Unresolved};
use crate::retry_after;

/// Whoever subscribes waits no longer than this for a name to be looked up. The attempt will tell what became of it.
const MAX_CHECK: Duration = Duration::from_secs(2);

/// Makes attempts with one HTTP client, whose connections are reused.
pub struct HttpSender {
    client: Client,
    guard: Arc<Guard>,
    resolver: GuardedResolver,
    /// Whether all connections go to a proxy, which is then the only one to look the names of receivers up.
    by_proxy: bool,
    timeout: Duration,
    /// A `retry-after` that is a date can be turned into a wait only by who knows the time.
    clock: Arc<dyn Clock>,
}

/// As an operator configures it, with the default for everything else.
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
        HttpSender::with_lookup(config, clock, Arc::new(SystemLookup))
    }

    pub fn with_lookup(
        config: EgressConfig,
        clock: Arc<dyn Clock>,
        lookup: Arc<dyn Lookup>,
    ) -> Result<HttpSender, BuildError> {
        let guard = Arc::new(config.guard.clone());
        let resolver = GuardedResolver::new(Arc::clone(&guard), lookup);
        let client = client::build(&config, resolver.clone())?;
        let by_proxy = config.proxy.is_some();
        Ok(HttpSender { client, guard, resolver, by_proxy, timeout: config.timeout, clock })
    }

    async fn attempt(&self, request: AttemptRequest, deadline: Instant) -> Answer {
        let request = match to_http(request) {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        if let Err(refusal) = self.guard.check_url(request.url()) {
            return failure::blocked(&refusal);
        }
        match timeout_at(deadline, self.execute(request)).await {
            Ok(Ok(response)) => self.finish(response, deadline).await,
            Ok(Err(failed)) => failed,
            Err(_) => failure::no_answer_within(self.timeout),
        }
    }

    async fn execute(&self, request: Request) -> Result<Response, Answer> {
        // Without a proxy the client asks the resolver by itself.
        if let Some(name) = request.url().domain().filter(|_| self.by_proxy) {
            self.resolver.addresses(name).await.map_err(|error| failure::unresolved(&error))?;
        }
        self.client.execute(request).await.map_err(|error| failure::from_client(&error, self.timeout))
    }

    /// An answer counts only when it is complete, as far as it is read at all.
    async fn finish(&self, response: Response, deadline: Instant) -> Answer {
        let status = response.status().as_u16();
        let retry_after = retry_after::read(response.headers(), self.clock.now_real());
        match timeout_at(deadline, answer::read_excerpt(response)).await {
            Ok(Ok(excerpt)) => Answer::Status { status, excerpt, retry_after },
            Ok(Err(error)) => failure::from_client(&error, self.timeout),
            Err(_) => failure::no_end_within(self.timeout, status),
        }
    }
}

#[async_trait]
impl Sender for HttpSender {
    async fn send(&self, request: AttemptRequest) -> AttemptResult {
        let started = Instant::now();
        let answer = self.attempt(request, started + self.timeout).await;
        AttemptResult { answer, took: started.elapsed() }
    }

    async fn check(&self, url: &str) -> Result<(), Refused> {
        let url = Url::parse(url).map_err(|e| Refused(format!("is not a URL: {e}")))?;
        self.guard.check_url(&url).map_err(|refusal| Refused(refusal.to_string()))?;
        let Some(name) = url.domain() else { return Ok(()) };
        match timeout(MAX_CHECK, self.resolver.addresses(name)).await {
            Ok(Err(Unresolved::Refused(refusal))) => Err(Refused(refusal.to_string())),
            // A name that cannot be looked up now may be there when it is needed.
            Ok(Ok(_) | Err(Unresolved::NoAddress { .. })) | Err(_) => Ok(()),
        }
    }
}

/// The request in the client's terms, or the failure that stands for one that cannot be made.
fn to_http(request: AttemptRequest) -> Result<Request, Answer> {
    let url =
        Url::parse(&request.url).map_err(|e| failure::not_a_request(format!("the URL is not one: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(failure::not_a_request("the URL starts neither with https:// nor with http://"));
    }
    let mut http = Request::new(reqwest::Method::POST, url);
    *http.headers_mut() = to_http_headers(request.headers)?;
    *http.body_mut() = Some(request.body.into());
    Ok(http)
}

fn to_http_headers(given: Vec<(&'static str, String)>) -> Result<HeaderMap, Answer> {
    let mut headers = HeaderMap::with_capacity(given.len());
    for (name, value) in given {
        let unfit = || failure::not_a_request(format!("the header {name} cannot be encoded"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| unfit())?;
        // Keeps a token out of debug output and of HTTP/2's header compression.
        value.set_sensitive(key == AUTHORIZATION);
        headers.append(key, value);
    }
    Ok(headers)
}
