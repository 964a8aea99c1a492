//! Pages of one partition of the base table.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use holdfast_core::ports::{Order, Page, Query, Versioned};
use holdfast_core::records::Key;

use super::DynamoStore;
use super::fault::Fault;
use super::items::{Item, PK, SK, key_item, read};
use super::terms::Terms;
use super::values::text;
use crate::call_error::CallError;

/// Where a query starts.
#[derive(Debug, PartialEq)]
enum Start {
    AtEdge,
    After(Item),
    /// The query matches nothing.
    Nowhere,
}

/// DynamoDB takes one condition on the sort key and rejects a start outside of it.
fn start(query: &Query) -> Start {
    let Some(after) = &query.after else { return Start::AtEdge };
    if !after.is_empty() && after.starts_with(&query.prefix) {
        return Start::After(key_item(&Key::new(query.partition.clone(), after.as_str())));
    }
    let behind_all = *after > query.prefix;
    match query.order {
        Order::Ascending if behind_all => Start::Nowhere,
        Order::Descending if !behind_all => Start::Nowhere,
        _ => Start::AtEdge,
    }
}

impl DynamoStore {
    pub(super) async fn query_page(&self, query: Query) -> Result<Page, Fault> {
        let mut start = match start(&query) {
            Start::AtEdge => None,
            Start::After(key) => Some(key),
            Start::Nowhere => return Ok(Page { items: Vec::new(), next: None }),
        };
        let mut terms = Terms::default();
        let mut condition = terms.compare(PK, "=", PK, text(&query.partition));
        if !query.prefix.is_empty() {
            let (sort, prefix) = (terms.name(SK), terms.value("prefix", text(&query.prefix)));
            condition = format!("{condition} AND begins_with({sort}, {prefix})");
        }
        // One more than the limit shows whether there is more.
        let wanted = query.limit.saturating_add(1);
        let mut items: Vec<Versioned> = Vec::new();
        loop {
            let request = self.query_from(start, &condition, &terms, wanted - items.len());
            let request = request.consistent_read(true).scan_index_forward(query.order == Order::Ascending);
            let answer = request.send().await.map_err(|error| CallError::new("Query", &error))?;
            for item in answer.items.unwrap_or_default() {
                items.push(read(item)?);
            }
            // A response holds at most 1 MB, so there may be more behind it.
            start = answer.last_evaluated_key;
            if items.len() >= wanted || start.is_none() {
                break;
            }
        }
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        let next = items.last().filter(|_| more).map(|last| last.record.key().sort);
        Ok(Page { items, next })
    }

    /// A query of the base table, or of the index that the caller sets.
    pub(super) fn query_from(
        &self,
        start: Option<Item>,
        condition: &str,
        terms: &Terms,
        limit: usize,
    ) -> QueryFluentBuilder {
        let (names, values) = terms.clone().into_maps();
        self.client
            .query()
            .table_name(&self.table)
            .key_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(prefix: &str, after: &str, order: Order) -> Start {
        let query = Query::of("p", 1).prefix(prefix).after(Some(after.to_owned()));
        start(&Query { order, ..query })
    }

    #[test]
    fn a_query_starts_inside_its_prefix_or_at_its_edge_or_nowhere() {
        let after = |sort: &str| Start::After(key_item(&Key::new("p".to_owned(), sort)));
        assert_eq!(from("b#", "b#5", Order::Ascending), after("b#5"));
        assert_eq!(from("b#", "b#5", Order::Descending), after("b#5"));
        assert_eq!(from("", "x", Order::Ascending), after("x"));
        assert_eq!(from("b#", "a", Order::Ascending), Start::AtEdge);
        assert_eq!(from("b#", "a", Order::Descending), Start::Nowhere);
        assert_eq!(from("b#", "c", Order::Ascending), Start::Nowhere);
        assert_eq!(from("b#", "c", Order::Descending), Start::AtEdge);
        assert_eq!(from("", "", Order::Ascending), Start::AtEdge);
        assert_eq!(from("", "", Order::Descending), Start::Nowhere);
    }
}
