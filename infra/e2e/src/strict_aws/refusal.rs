//! Errors in the form in which AWS answers them.

use serde_json::{Value, json};

use super::call::Service;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
    /// For `TransactionCanceledException`: the code of each item of the transaction.
    pub reasons: Vec<&'static str>,
}

impl Refusal {
    /// The caller's fault.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status: 400, code, message: message.into(), reasons: Vec::new() }
    }

    /// What DynamoDB says about most invalid requests.
    pub fn validation(message: impl Into<String>) -> Refusal {
        Refusal::invalid("ValidationException", message)
    }

    #[must_use]
    pub fn cancelled(reasons: Vec<&'static str>) -> Refusal {
        let message = format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            reasons.join(", ")
        );
        Refusal { status: 400, code: "TransactionCanceledException", message, reasons }
    }

    #[must_use]
    pub fn body(&self, service: Service) -> Value {
        let namespace = match service {
            Service::DynamoDb => "com.amazonaws.dynamodb.v20120810",
            Service::Sqs => "com.amazonaws.sqs",
            Service::SecretsManager => "com.amazonaws.secretsmanager",
        };
        let mut body = json!({ "__type": format!("{namespace}#{}", self.code), "message": self.message });
        if !self.reasons.is_empty() {
            let reasons = self.reasons.iter().map(|code| json!({ "Code": code }));
            body["CancellationReasons"] = reasons.collect();
        }
        body
    }
}
