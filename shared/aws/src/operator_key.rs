//! The operator's key, read once, at cold start.

use aws_config::SdkConfig;
use serde::Deserialize;

use crate::config::Faults;

const PREFIX: &str = "hf_";

/// Asks Secrets Manager for it.
pub async fn fetch(sdk: &SdkConfig, secret: &str) -> Result<String, Faults> {
    let client = aws_sdk_secretsmanager::Client::new(sdk);
    let answer = client
        .get_secret_value()
        .secret_id(secret)
        .send()
        .await
        .map_err(|error| Faults::of("HOLDFAST_OPERATOR_SECRET: the secret cannot be read", &error))?;
    key_of(answer.secret_string().unwrap_or_default()).map_err(|fault| Faults(vec![fault.to_owned()]))
}

/// The key itself, or an object that holds it, as Secrets Manager generates them. What is wrong is said without the secret.
fn key_of(secret: &str) -> Result<String, &'static str> {
    #[derive(Deserialize)]
    struct Generated {
        key: String,
    }
    let text = secret.trim();
    let key = if text.starts_with('{') {
        let generated: Generated = serde_json::from_str(text)
            .map_err(|_| "HOLDFAST_OPERATOR_SECRET: the secret is an object without a string `key`")?;
        generated.key.trim().to_owned()
    } else {
        text.to_owned()
    };
    // An empty rest would be a key that everybody can guess.
    if key.strip_prefix(PREFIX).is_none_or(str::is_empty) {
        return Err("HOLDFAST_OPERATOR_SECRET: the key in the secret must begin with hf_ and go on after it");
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::key_of;

    #[test]
    fn a_plain_key_and_a_generated_one_are_taken() {
        for secret in ["hf_abc", " hf_abc\n", r#"{"key":"hf_abc"}"#, r#"{ "user": "x", "key": "hf_abc" }"#] {
            assert_eq!(key_of(secret).as_deref(), Ok("hf_abc"), "{secret}");
        }
    }

    #[test]
    fn anything_else_is_refused_without_showing_it() {
        let table = [
            ("", "begin with hf_"),
            ("hf_", "begin with hf_"),
            ("HF_secret", "begin with hf_"),
            ("secret", "begin with hf_"),
            (r#"{"key":"secret"}"#, "begin with hf_"),
            (r#"{"key":7}"#, "without a string `key`"),
            (r#"{"secret":"hf_abc"}"#, "without a string `key`"),
            ("{hf_secret", "without a string `key`"),
        ];
        for (secret, expected) in table {
            let fault = key_of(secret).unwrap_err();
            assert!(
                fault.contains(expected) && fault.contains("HOLDFAST_OPERATOR_SECRET"),
                "{secret}: {fault}"
            );
            assert!(secret.is_empty() || !fault.contains("secret\""), "{fault}");
        }
    }
}
