//! Calls of the API.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::{Method, RequestBuilder, StatusCode, header};
use serde_json::{Value, json};
use url::Url;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest page of a list.
const MAX_PAGE: usize = 100;

#[derive(Clone)]
pub(super) struct Api {
    client: reqwest::Client,
    /// Without a slash at its end.
    base: String,
    tenant: Option<String>,
}

/// The parameters of a call: those that have a value are sent.
pub(super) type Parameters<'a> = [(&'a str, Option<String>)];

impl Api {
    pub(super) fn new(server: &Url, key: &str, tenant: Option<String>) -> Result<Api> {
        // Fails only if a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut bearer = header::HeaderValue::from_str(&format!("Bearer {key}"))
            .ok()
            .context("the key contains characters that no key has")?;
        bearer.set_sensitive(true);
        let client = reqwest::Client::builder()
            .default_headers([(header::AUTHORIZATION, bearer)].into_iter().collect())
            .user_agent(concat!("holdfast/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .build()?;
        Ok(Api { client, base: server.as_str().trim_end_matches('/').to_owned(), tenant })
    }

    pub(super) fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// For calls that take the tenant elsewhere.
    pub(super) fn for_all_tenants(&self) -> Api {
        Api { tenant: None, ..self.clone() }
    }

    pub(super) async fn get(&self, path: &str, parameters: &Parameters<'_>) -> Result<Value> {
        self.answer(self.request(Method::GET, path, parameters)).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::POST, path, body.to_string()).await
    }

    pub(super) async fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, body.to_string()).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Value> {
        self.answer(self.request(Method::DELETE, path, &[])).await
    }

    /// Sends a body as it is: an event's `data` arrives byte for byte as it was given.
    pub(super) async fn send(&self, method: Method, path: &str, body: String) -> Result<Value> {
        let request = self.request(method, path, &[]).header(header::CONTENT_TYPE, "application/json");
        self.answer(request.body(body)).await
    }

    /// The items of a list, from as many pages as it takes, and whether there are more.
    pub(super) async fn list(&self, path: &str, parameters: &Parameters<'_>, limit: usize) -> Result<Value> {
        let mut items = Vec::new();
        let mut cursor = None;
        loop {
            let page_size = (limit - items.len()).min(MAX_PAGE);
            let mut with_page = parameters.to_vec();
            with_page.extend([("limit", Some(page_size.to_string())), ("cursor", cursor)]);
            let page = self.get(path, &with_page).await?;
            items.extend(page["items"].as_array().into_iter().flatten().cloned());
            cursor = page["next"].as_str().map(str::to_owned);
            if cursor.is_none() || items.len() >= limit {
                return Ok(json!({ "items": items, "more": cursor.is_some() }));
            }
        }
    }

    fn request(&self, method: Method, path: &str, parameters: &Parameters<'_>) -> RequestBuilder {
        let tenant = self.tenant.as_ref().map(|tenant| ("tenant", tenant.clone()));
        let given = parameters.iter().filter_map(|(name, value)| Some((*name, value.clone()?)));
        let query: Vec<_> = given.chain(tenant).collect();
        self.client.request(method, format!("{}{path}", self.base)).query(&query)
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Value> {
        let unreachable = || {
            format!(
                "{} does not answer; check that Holdfast runs there, or name another server with --server",
                self.base
            )
        };
        let response = request.send().await.map_err(reqwest::Error::without_url).with_context(unreachable)?;
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.map(str::to_owned);
        let text = response.text().await.map_err(reqwest::Error::without_url).with_context(unreachable)?;
        if !status.is_success() {
            bail!("{}", describe_problem(status, &text, retry_after.as_deref()));
        }
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text)
            .with_context(|| format!("the answer of {} is not JSON; is it Holdfast?", self.base))
    }
}

/// A path from segments, which may contain any character, and the action on what it names.
pub(super) fn path(segments: &[&str], action: &str) -> String {
    let mut url = Url::parse("http://host").expect("a URL");
    url.path_segments_mut().expect("an http URL has a path").clear().extend(segments);
    format!("{}{action}", url.path())
}

/// What the server says is wrong, with every field that it names.
fn describe_problem(status: StatusCode, text: &str, retry_after: Option<&str>) -> String {
    let problem: Value = serde_json::from_str(text).unwrap_or_default();
    let Some(detail) = problem["detail"].as_str() else {
        return format!("the server answered {status}; is it Holdfast?");
    };
    let mut lines = vec![format!("{detail} ({})", status.as_u16())];
    let errors = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    // With one error, the detail says the same.
    if errors.len() > 1 {
        lines.extend(errors.iter().map(|error| {
            format!("  {}: {}", super::output::text(&error["field"]), super::output::text(&error["detail"]))
        }));
    }
    if status == StatusCode::UNAUTHORIZED {
        lines.push("  Set HOLDFAST_KEY to a valid key, or name a profile with --profile.".to_owned());
    }
    lines.extend(retry_after.map(|secs| format!("  Try again after {secs} s.")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_one_segment_of_the_path() {
        assert_eq!(path(&["v1", "urls", "url_1"], "/enable"), "/v1/urls/url_1/enable");
        assert_eq!(path(&["v1", "keys", "a/b?c#d"], ""), "/v1/keys/a%2Fb%3Fc%23d");
    }

    #[test]
    fn a_problem_is_described_with_its_fields() {
        let text = r#"{"status": 400, "detail": "Two fields are invalid.", "errors": [
            {"field": "url", "detail": "must start with https://"}, {"field": "event_types", "detail": "is missing"}]}"#;
        let described = describe_problem(StatusCode::BAD_REQUEST, text, None);
        assert_eq!(
            described,
            "Two fields are invalid. (400)\n  url: must start with https://\n  event_types: is missing"
        );
    }

    #[test]
    fn a_problem_says_when_to_try_again_and_which_key_is_missing() {
        let text = r#"{"detail": "Too many events."}"#;
        let described = describe_problem(StatusCode::TOO_MANY_REQUESTS, text, Some("3"));
        assert_eq!(described, "Too many events. (429)\n  Try again after 3 s.");
        let described = describe_problem(StatusCode::UNAUTHORIZED, r#"{"detail": "No key."}"#, None);
        assert!(described.contains("HOLDFAST_KEY"), "{described}");
    }

    #[test]
    fn an_answer_of_another_server_is_not_printed() {
        let described = describe_problem(StatusCode::BAD_GATEWAY, "<html>secret</html>", None);
        assert!(described.contains("502") && !described.contains("secret"), "{described}");
    }
}
