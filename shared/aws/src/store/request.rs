use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    CancellationReason, Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
    Update,
};
use holdfast_core::records::Key;

use super::fault::Fault;
use super::items::{Item, key_item};
use super::terms::Terms;
use crate::call_error::CallError;

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
    /// Only in transactions: the SDK repeats single requests that are throttled.
    Throttled,
    Fault(Fault),
}

/// A failed condition returns the item as it is, so that the next try needs no read.
const ON_FAILURE: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

macro_rules! refusal {
    ($operation:literal, $kind:ident, $error:expr) => {
        match $error.as_service_error() {
            Some($kind::ConditionalCheckFailedException(failed)) => Refusal::Condition(failed.item.clone()),
            Some($kind::TransactionConflictException(_)) => Refusal::Busy,
            _ => Refusal::Fault(CallError::new($operation, &$error).into()),
        }
    };
}

impl Request {
    /// Returns the item as it was before an update.
    pub(super) async fn send(self, client: &Client, table: &str) -> Result<Option<Item>, Refusal> {
        let (names, values) = self.terms.into_maps();
        let on_failure = self.condition.is_some().then_some(ON_FAILURE);
        match self.action {
            Action::Put(item) => {
                let request = client.put_item().table_name(table).set_item(Some(item));
                let request = request.set_condition_expression(self.condition);
                let request = request.set_expression_attribute_names(names);
                let request = request.set_expression_attribute_values(values);
                let sent = request.set_return_values_on_condition_check_failure(on_failure).send().await;
                sent.map(|_| None).map_err(|e| refusal!("PutItem", PutItemError, e))
            }
            Action::Update { key, change } => {
                let request = client.update_item().table_name(table).set_key(Some(key_item(&key)));
                let request = request.update_expression(change).set_condition_expression(self.condition);
                let request = request.set_expression_attribute_names(names);
                let request = request.set_expression_attribute_values(values);
                let request = request.return_values(ReturnValue::AllOld);
                let sent = request.set_return_values_on_condition_check_failure(on_failure).send().await;
                sent.map(|done| done.attributes).map_err(|e| refusal!("UpdateItem", UpdateItemError, e))
            }
            Action::Delete(key) => {
                let request = client.delete_item().table_name(table).set_key(Some(key_item(&key)));
                let request = request.set_condition_expression(self.condition);
                let request = request.set_expression_attribute_names(names);
                let request = request.set_expression_attribute_values(values);
                let sent = request.set_return_values_on_condition_check_failure(on_failure).send().await;
                sent.map(|_| None).map_err(|e| refusal!("DeleteItem", DeleteItemError, e))
            }
        }
    }

    fn into_transact_item(self, table: &str) -> TransactWriteItem {
        let (names, values) = self.terms.into_maps();
        let on_failure = self.condition.is_some().then_some(ON_FAILURE);
        let item = TransactWriteItem::builder();
        let built = match self.action {
            Action::Put(content) => Put::builder()
                .table_name(table)
                .set_item(Some(content))
                .set_condition_expression(self.condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(on_failure)
                .build()
                .map(|put| item.put(put)),
            Action::Update { key, change } => Update::builder()
                .table_name(table)
                .set_key(Some(key_item(&key)))
                .update_expression(change)
                .set_condition_expression(self.condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(on_failure)
                .build()
                .map(|update| item.update(update)),
            Action::Delete(key) => Delete::builder()
                .table_name(table)
                .set_key(Some(key_item(&key)))
                .set_condition_expression(self.condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(on_failure)
                .build()
                .map(|delete| item.delete(delete)),
        };
        built.expect("a write with table and content").build()
    }
}

/// All or nothing. An error has the refusals, each with the place of its request. The SDK marks a transaction with a token, so that
/// its own repeat of a transaction that was made succeeds.
pub(super) async fn transact(
    requests: Vec<Request>,
    client: &Client,
    table: &str,
) -> Result<(), Vec<(usize, Refusal)>> {
    let items = requests.into_iter().map(|request| request.into_transact_item(table)).collect();
    let sent = client.transact_write_items().set_transact_items(Some(items)).send().await;
    sent.map(|_| ()).map_err(|error| match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            refusals(cancelled.cancellation_reasons())
        }
        _ => vec![(0, Refusal::Fault(CallError::new("TransactWriteItems", &error).into()))],
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
