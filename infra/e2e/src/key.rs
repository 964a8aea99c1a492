//! Keys that the suite creates.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};

use crate::host::{Answer, Host};
use crate::views::text;

#[derive(Clone, Debug)]
pub struct Key {
    pub id: String,
    pub text: String,
}

impl Key {
    /// Creates a key with the operator key.
    pub async fn create(host: &Host, mut new: Value) -> Result<Key> {
        new["description"] = json!("created by the black-box suite");
        let operator = Some(host.operator.as_str());
        let answer = host.send(Method::POST, "/v1/keys", operator, new.to_string().into_bytes()).await?;
        let created = answer.expect(201).context("the suite needs an operator key")?;
        Ok(Key { id: text(&created, "id")?.to_owned(), text: text(&created, "key")?.to_owned() })
    }

    /// Deletes it with the operator key.
    pub async fn delete(&self, host: &Host) -> Result<()> {
        let path = format!("/v1/keys/{}", self.id);
        let answer = host.send(Method::DELETE, &path, Some(&host.operator), Vec::new()).await?;
        answer.expect(204).map(|_| ())
    }

    pub async fn get(&self, host: &Host, path: &str) -> Result<Answer> {
        host.send(Method::GET, path, Some(&self.text), Vec::new()).await
    }
}
