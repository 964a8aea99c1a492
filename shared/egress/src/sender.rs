use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::ports::{Answer, AttemptRequest, AttemptResult, Clock, Sender};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Request, Response, Url};
use tokio::time::{Instant, timeout_at};

use crate::answer;
use crate::client::{self, BuildError};
use crate::config::EgressConfig;
use crate::failure;
use crate::retry_after;

/// Makes attempts with one HTTP client, whose connections are reused.
pub struct HttpSender {
    client: Client,
    timeout: Duration,
    /// A `retry-after` that is a date can be turned into a wait only by who knows the time.
    clock: Arc<dyn Clock>,
}

impl HttpSender {
    pub fn new(config: EgressConfig, clock: Arc<dyn Clock>) -> Result<HttpSender, BuildError> {
        let client = client::build(&config)?;
        Ok(HttpSender { client, timeout: config.timeout, clock })
    }

    async fn attempt(&self, request: AttemptRequest, deadline: Instant) -> Answer {
        let request = match to_http(request) {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        match timeout_at(deadline, self.client.execute(request)).await {
            Ok(Ok(response)) => self.finish(response, deadline).await,
            Ok(Err(error)) => failure::from_client(&error, self.timeout),
            Err(_) => failure::no_answer_within(self.timeout),
        }
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
