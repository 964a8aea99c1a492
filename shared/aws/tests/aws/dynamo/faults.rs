use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextMut, BeforeTransmitInterceptorContextMut,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It is executed, and its response is lost.
    ResponseLost,
    /// It is not executed, and the response is this error.
    Refused(&'static str),
    /// It is not executed, and the response reports all of it as unprocessed.
    Unprocessed,
}

/// Injects a fault into the first requests of one operation.
#[derive(Clone, Debug)]
pub(crate) struct Faulty(Arc<State>);

#[derive(Debug)]
struct State {
    operation: &'static str,
    fault: Fault,
    left: AtomicUsize,
    sent: AtomicUsize,
    /// The forged response to the current request. Tests send one at a time.
    forged: Mutex<Option<(u16, String)>>,
}

impl Faulty {
    pub(crate) fn new(operation: &'static str, fault: Fault, times: usize) -> Faulty {
        let (left, sent) = (AtomicUsize::new(times), AtomicUsize::new(0));
        Faulty(Arc::new(State { operation, fault, left, sent, forged: Mutex::new(None) }))
    }

    pub(crate) fn always(operation: &'static str, fault: Fault) -> Faulty {
        Faulty::new(operation, fault, usize::MAX)
    }

    /// How many requests of the operation were sent.
    pub(crate) fn sent(&self) -> usize {
        self.0.sent.load(Ordering::Relaxed)
    }
}

fn unprocessed(request: &[u8]) -> String {
    let request: serde_json::Value = serde_json::from_slice(request).unwrap();
    let items = &request["RequestItems"];
    serde_json::json!({"Responses": {}, "UnprocessedKeys": items, "UnprocessedItems": items}).to_string()
}

impl Intercept for Faulty {
    fn name(&self) -> &'static str {
        "Faulty"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if target.split('.').next_back() != Some(self.0.operation) {
            return Ok(());
        }
        self.0.sent.fetch_add(1, Ordering::Relaxed);
        let take_one = |left: usize| left.checked_sub(1);
        if self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_err() {
            return Ok(());
        }
        let forged = match self.0.fault {
            Fault::ResponseLost => (500, "{}".to_owned()),
            Fault::Refused(error) => (400, error.to_owned()),
            Fault::Unprocessed => (200, unprocessed(request.body().bytes().unwrap())),
        };
        *self.0.forged.lock().unwrap() = Some(forged);
        if !matches!(self.0.fault, Fault::ResponseLost) {
            // A harmless request is sent instead.
            request.headers_mut().insert("x-amz-target", "DynamoDB_20120810.ListTables");
            request.headers_mut().insert("content-length", "2");
            *request.body_mut() = "{}".into();
        }
        Ok(())
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some((status, body)) = self.0.forged.lock().unwrap().take() {
            let response = context.response_mut();
            *response.status_mut() = status.try_into()?;
            *response.body_mut() = body.into();
        }
        Ok(())
    }
}
