//! The operator's key, read once, at cold start.

use aws_config::SdkConfig;

use crate::config::Faults;

const PREFIX: &str = "hf_";
/// Shorter ones can be guessed.
const SHORTEST: usize = 32;

/// What it is called where keys are listed, and what is said about it there.
pub const NAME: &str = "operator-secret";
pub const DESCRIPTION: &str = "The generated secret in Secrets Manager";
/// For whoever tries to delete it.
pub const CHANGE: &str = "It is the secret in Secrets Manager that OperatorSecretArn of the stack names: \
                          store another value there, and the functions take it when they start anew.";

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

/// `hf_` and what Secrets Manager generated, which has no way to put something in front; or the whole key, where a person stored it
/// so. What is wrong is said without the secret.
fn key_of(secret: &str) -> Result<String, &'static str> {
    let text = secret.trim();
    let rest = text.strip_prefix(PREFIX).unwrap_or(text);
    if rest.len() < SHORTEST || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(
            "HOLDFAST_OPERATOR_SECRET: the secret must be 32 letters and digits or more, and nothing else",
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
    fn anything_else_is_refused_without_showing_it() {
        let object = format!("{{\"key\":\"{REST}\"}}");
        for secret in ["", "hf_", "hf_short", &REST[1..], "a key of more than thirty-two characters", &object]
        {
            let fault = key_of(secret).unwrap_err();
            assert!(fault.contains("HOLDFAST_OPERATOR_SECRET"), "{fault}");
            assert!(secret.is_empty() || !fault.contains(secret), "{fault}");
        }
    }
}
