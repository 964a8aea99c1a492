use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;

/// Counts every request to AWS, also the SDK's repeats. Clones share their counts. An interceptor for clients of services that name
/// the operation in the header `x-amz-target`, as DynamoDB and SQS do.
#[derive(Clone, Debug, Default)]
pub struct RequestCounter(Arc<Mutex<BTreeMap<String, u64>>>);

impl RequestCounter {
    #[must_use]
    pub fn new() -> RequestCounter {
        RequestCounter::default()
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        self.lock().values().sum()
    }

    /// Returns the counts so far by `service.operation` (`DynamoDB.PutItem`, `SQS.SendMessageBatch`) and starts again at zero.
    pub fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.lock())
    }

    fn count(&self, target: &str) {
        *self.lock().entry(short_name(target)).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `DynamoDB_20120810.PutItem` becomes `DynamoDB.PutItem`, and `AmazonSQS.SendMessage` becomes `SQS.SendMessage`.
fn short_name(target: &str) -> String {
    let (service, operation) = target.split_once('.').unwrap_or((target, ""));
    let service = service.split_once('_').map_or(service, |(name, _)| name);
    let service = service.strip_prefix("Amazon").unwrap_or(service);
    format!("{service}.{operation}")
}

impl Intercept for RequestCounter {
    fn name(&self) -> &'static str {
        "RequestCounter"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.count(context.request().headers().get("x-amz-target").unwrap_or("unknown"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_service_and_operation() {
        let counter = RequestCounter::new();
        let same = counter.clone();
        for target in ["DynamoDB_20120810.PutItem", "AmazonSQS.SendMessage", "DynamoDB_20120810.PutItem"] {
            counter.count(target);
        }
        assert_eq!(same.total(), 3);
        let expected = [("DynamoDB.PutItem".to_owned(), 2), ("SQS.SendMessage".to_owned(), 1)];
        assert_eq!(same.take(), BTreeMap::from(expected));
        assert_eq!(counter.total(), 0);
    }
}
