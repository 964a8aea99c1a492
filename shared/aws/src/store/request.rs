use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
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
    /// Somebody else's transaction is writing it.
    Busy,
    /// Too much is asked of the table. Only in transactions: the SDK repeats single requests itself.
    Throttled,
    Fault(Fault),
}

/// Every failure answers the item as it is, so that no read is needed to go on.
const ON_FAILURE: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

macro_rules! refusal {
    ($operation:literal, $kind:ident, $error:expr) => {
        match $error {
            SdkError::ServiceError(error) => match error.into_err() {
                $kind::ConditionalCheckFailedException(failed) => Refusal::Condition(failed.item),
                $kind::TransactionConflictException(_) => Refusal::Busy,
                other => Refusal::Fault(Fault::call($operation, &other)),
            },
            other => Refusal::Fault(Fault::call($operation, &other)),
        }
    };
}

impl Request {
    /// Answers the item as it was before an update; nothing for the others, because nobody asks.
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

    fn into_transact_item(self, table: &str) -> Result<TransactWriteItem, Fault> {
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
        Ok(built.map_err(|e| Fault::call("TransactWriteItems", &e))?.build())
    }
}

/// All or nothing. Refused: why, for each request that is to blame, by its place. The SDK marks a transaction with a token, so
/// that its own repeat of one that was made is answered as made.
pub(super) async fn transact(
    requests: Vec<Request>,
    client: &Client,
    table: &str,
) -> Result<(), Vec<(usize, Refusal)>> {
    let items: Result<Vec<_>, _> = requests.into_iter().map(|r| r.into_transact_item(table)).collect();
    let items = items.map_err(|fault| vec![(0, Refusal::Fault(fault))])?;
    let sent = client.transact_write_items().set_transact_items(Some(items)).send().await;
    sent.map(|_| ()).map_err(|error| match error {
        SdkError::ServiceError(error) => match error.into_err() {
            TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                refusals(cancelled.cancellation_reasons.unwrap_or_default())
            }
            other => vec![(0, Refusal::Fault(Fault::call("TransactWriteItems", &other)))],
        },
        other => vec![(0, Refusal::Fault(Fault::call("TransactWriteItems", &other)))],
    })
}

fn refusals(reasons: Vec<CancellationReason>) -> Vec<(usize, Refusal)> {
    let codes: Vec<&str> = reasons.iter().map(|reason| reason.code().unwrap_or("?")).collect();
    let codes = codes.join(", ");
    let refusal = |reason: CancellationReason| match reason.code().unwrap_or("?") {
        "None" => None,
        "ConditionalCheckFailed" => Some(Refusal::Condition(reason.item)),
        "TransactionConflict" => Some(Refusal::Busy),
        "ThrottlingError" | "ProvisionedThroughputExceeded" => Some(Refusal::Throttled),
        _ => Some(Refusal::Fault(Fault::Cancelled { codes: codes.clone() })),
    };
    let all = reasons.into_iter().enumerate();
    let found: Vec<_> = all.filter_map(|(place, reason)| Some((place, refusal(reason)?))).collect();
    if found.is_empty() { vec![(0, Refusal::Fault(Fault::Cancelled { codes }))] } else { found }
}
