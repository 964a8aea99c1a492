use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
    Update,
};
use aws_sdk_dynamodb::{Client, Error};
use holdfast_core::records::Key;

use super::fault::Fault;
use super::items::{Item, key_item};
use super::terms::Terms;
use crate::call_error::{CallError, Cause};

#[derive(Clone)]
pub(super) enum Action {
    Put(Item),
    Update { key: Key, change: String },
    Delete(Key),
}

/// One conditional write, to be sent alone or in a transaction.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) action: Action,
    pub(super) condition: Option<String>,
    pub(super) terms: Terms,
}

/// Why a write was not made.
pub(super) enum Refusal {
    /// The condition does not hold; the item as it is, if there is one.
    Condition(Option<Item>),
    /// Another transaction is writing it.
    Busy,
    /// A partition or the table takes no more at the moment. The SDK has repeated the request already.
    Throttled,
    Fault(Fault),
}

/// Completes one of the SDK's six builders of conditional writes, which have no trait in common.
macro_rules! complete {
    ($builder:expr, $request:ident, $table:ident) => {{
        let (names, values) = $request.terms.into_maps();
        // A failed condition returns the item as it is, so that the next try needs no read.
        let on_failure = $request.condition.is_some().then_some(ReturnValuesOnConditionCheckFailure::AllOld);
        $builder
            .table_name($table)
            .set_condition_expression($request.condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .set_return_values_on_condition_check_failure(on_failure)
    }};
}

impl Request {
    /// Returns the item as it was before an update.
    pub(super) async fn send(self, client: &Client, table: &str) -> Result<Option<Item>, Refusal> {
        match self.action {
            Action::Put(item) => {
                let sent = complete!(client.put_item().set_item(Some(item)), self, table).send().await;
                sent.map(|_| None).map_err(|error| refusal("PutItem", error))
            }
            Action::Update { key, change } => {
                let update = client.update_item().set_key(Some(key_item(&key))).update_expression(change);
                let update = update.return_values(ReturnValue::AllOld);
                let sent = complete!(update, self, table).send().await;
                sent.map(|done| done.attributes).map_err(|error| refusal("UpdateItem", error))
            }
            Action::Delete(key) => {
                let delete = client.delete_item().set_key(Some(key_item(&key)));
                let sent = complete!(delete, self, table).send().await;
                sent.map(|_| None).map_err(|error| refusal("DeleteItem", error))
            }
        }
    }

    fn into_transact_item(self, table: &str) -> TransactWriteItem {
        let item = TransactWriteItem::builder();
        let built = match self.action {
            Action::Put(content) => {
                let put = Put::builder().set_item(Some(content));
                complete!(put, self, table).build().map(|put| item.put(put))
            }
            Action::Update { key, change } => {
                let update = Update::builder().set_key(Some(key_item(&key))).update_expression(change);
                complete!(update, self, table).build().map(|update| item.update(update))
            }
            Action::Delete(key) => {
                let delete = Delete::builder().set_key(Some(key_item(&key)));
                complete!(delete, self, table).build().map(|delete| item.delete(delete))
            }
        };
        built.expect("a write with table and content").build()
    }
}

fn refusal<E>(operation: &'static str, error: SdkError<E>) -> Refusal
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    Error: From<SdkError<E>>,
{
    let failed = CallError::new(operation, &error);
    match error.into() {
        Error::ConditionalCheckFailedException(failed) => Refusal::Condition(failed.item),
        Error::TransactionConflictException(_) => Refusal::Busy,
        _ => Refusal::of(failed),
    }
}

impl Refusal {
    /// By its code, whatever the operation.
    fn of(error: CallError) -> Refusal {
        match error.cause {
            Cause::Throttled => Refusal::Throttled,
            Cause::TimedOut | Cause::Other => Refusal::Fault(error.into()),
        }
    }
}

/// All or nothing. An error has the refusals, each with the place of its request. The SDK marks a transaction with a token, so that
/// its own repeat of a transaction that was made succeeds.
pub(super) async fn send_all(
    mut requests: Vec<Request>,
    client: &Client,
    table: &str,
) -> Result<(), Vec<(usize, Refusal)>> {
    if requests.len() < 2 {
        let Some(alone) = requests.pop() else { return Ok(()) };
        return alone.send(client, table).await.map(drop).map_err(|refusal| vec![(0, refusal)]);
    }
    let items = requests.into_iter().map(|request| request.into_transact_item(table)).collect();
    let sent = client.transact_write_items().set_transact_items(Some(items)).send().await;
    sent.map(|_| ()).map_err(|error| match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            refusals(cancelled.cancellation_reasons())
        }
        _ => vec![(0, Refusal::of(CallError::new("TransactWriteItems", &error)))],
    })
}

fn refusals(reasons: &[CancellationReason]) -> Vec<(usize, Refusal)> {
    let codes: Vec<&str> = reasons.iter().map(|reason| reason.code().unwrap_or("?")).collect();
    let codes = codes.join(", ");
    let refusal = |reason: &CancellationReason| match reason.code().unwrap_or("?") {
        "None" => None,
        "ConditionalCheckFailed" => Some(Refusal::Condition(reason.item.clone())),
        "TransactionConflict" => Some(Refusal::Busy),
        "ThrottlingError" | "ProvisionedThroughputExceeded" => Some(Refusal::Throttled),
        _ => Some(Refusal::Fault(Fault::Cancelled { codes: codes.clone() })),
    };
    let all = reasons.iter().enumerate();
    let found: Vec<_> = all.filter_map(|(place, reason)| Some((place, refusal(reason)?))).collect();
    if found.is_empty() { vec![(0, Refusal::Fault(Fault::Cancelled { codes }))] } else { found }
}
