//! The operator key, read once, at cold start.

use aws_config::SdkConfig;

use crate::config::Faults;

const PREFIX: &str = "hf_";
/// Shorter ones can be guessed.
const MIN_CHARS: usize = 32;

/// The operator key, and how the API describes it.
pub struct OperatorKey {
    pub key: String,
    pub name: &'static str,
    pub description: &'static str,
    /// How to change it: for a client that tries to delete it.
    pub change: &'static str,
}

pub(crate) async fn fetch(sdk: &SdkConfig, secret: &str) -> Result<OperatorKey, Faults> {
    let client = aws_sdk_secretsmanager::Client::new(sdk);
    let response = client
        .get_secret_value()
        .secret_id(secret)
        .send()
        .await
        .map_err(|error| Faults::of("HOLDFAST_OPERATOR_SECRET: the secret cannot be read", &error))?;
    let key = key_of(response.secret_string().unwrap_or_default());
    Ok(OperatorKey {
        key: key.map_err(|fault| Faults(vec![fault.to_owned()]))?,
        name: "operator-secret",
        description: "The generated secret in Secrets Manager",
        change: "It is the secret in Secrets Manager that OperatorSecretArn of the stack names: \
                 store another value there, and the functions use it from their next cold start.",
    })
}

/// `hf_` and the generated secret, because Secrets Manager cannot generate a prefix; or the whole key, if an operator stored one. The
/// error does not quote the secret.
fn key_of(secret: &str) -> Result<String, &'static str> {
    let text = secret.trim();
    let rest = text.strip_prefix(PREFIX).unwrap_or(text);
    if rest.len() < MIN_CHARS || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(
            "HOLDFAST_OPERATOR_SECRET: the secret must be at least 32 letters and digits, and nothing else",
        );
    }
    Ok(format!("{PREFIX}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::key_of;

    const REST: &str = "0123456789abcdefghijABCDEFGHIJ01";

    #[test]
    fn a_generated_secret_becomes_a_key_and_a_whole_key_stays_one() {
        let key = format!("hf_{REST}");
        for secret in [REST.to_owned(), key.clone(), format!(" {REST}\n")] {
            assert_eq!(key_of(&secret), Ok(key.clone()), "{secret}");
        }
    }

    #[test]
    fn any_other_secret_is_rejected_without_quoting_it() {
        let object = format!("{{\"key\":\"{REST}\"}}");
        for secret in ["", "hf_", "hf_short", &REST[1..], "a key of more than thirty-two characters", &object]
        {
            let fault = key_of(secret).unwrap_err();
            assert!(fault.contains("HOLDFAST_OPERATOR_SECRET"), "{fault}");
            assert!(secret.is_empty() || !fault.contains(secret), "{fault}");
        }
    }
}
