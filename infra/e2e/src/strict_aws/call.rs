//! One request of a function to AWS, as the SDK sends it: JSON with the operation in a header.

use serde_json::{Map, Value};

pub type Fields = Map<String, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    DynamoDb,
    Sqs,
    SecretsManager,
}

#[derive(Clone, Debug)]
pub struct Call {
    /// Which function made it: the first part of the path, see [`Call::read`].
    pub function: String,
    pub service: Service,
    pub operation: String,
    pub body: Fields,
}

impl Call {
    /// `path` is `/NAME/`: every function gets its own endpoint, so that its calls can be told from those of others. `target` is the
    /// header `x-amz-target`. `None` if this is no call to one of the three services.
    #[must_use]
    pub fn read(path: &str, target: &str, body: &[u8]) -> Option<Call> {
        let function = path.trim_matches('/').split('/').next().unwrap_or_default();
        let (version, operation) = target.split_once('.')?;
        let service = match version {
            "DynamoDB_20120810" => Service::DynamoDb,
            "AmazonSQS" => Service::Sqs,
            "secretsmanager" => Service::SecretsManager,
            _ => return None,
        };
        let body = serde_json::from_slice(body).ok()?;
        Some(Call { function: function.to_owned(), service, operation: operation.to_owned(), body })
    }

    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        text(&self.body, field)
    }
}

/// Empty if there is no such text.
#[must_use]
pub fn text<'a>(fields: &'a Fields, field: &str) -> &'a str {
    fields.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Empty if there is no such list.
#[must_use]
pub fn list<'a>(fields: &'a Fields, field: &str) -> &'a [Value] {
    fields.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The fields of an object within an object.
#[must_use]
pub fn object<'a>(fields: &'a Fields, field: &str) -> Option<&'a Fields> {
    fields.get(field).and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_from_its_path_and_target() {
        let call = Call::read("/Ingest/", "AmazonSQS.SendMessage", br#"{"QueueUrl":"q"}"#).unwrap();
        assert_eq!((call.function.as_str(), call.operation.as_str()), ("Ingest", "SendMessage"));
        assert_eq!((call.service, call.text("QueueUrl")), (Service::Sqs, "q"));
        assert!(Call::read("/", "Lambda.Invoke", b"{}").is_none());
        assert!(Call::read("/", "AmazonSQS.SendMessage", b"no json").is_none());
    }
}
