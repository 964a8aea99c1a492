//! Pages of one partition of the base table.

use std::collections::VecDeque;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures_util::future::join_all;
use holdfast_core::ports::{Order, Page, Query, Versioned};

use super::DynamoStore;
use super::fault::Fault;
use super::items::{Item, PK, SK, read, stored_key_item};
use super::spread::pks_of;
use super::terms::Terms;
use super::values::text;
use crate::call_error::CallError;

/// Where a query starts.
#[derive(Debug, PartialEq)]
enum Start {
    AtEdge,
    /// Behind this sort key.
    After(String),
    /// The query matches nothing.
    Nowhere,
}

/// DynamoDB takes one condition on the sort key and rejects a start outside of it.
fn start(query: &Query) -> Start {
    let Some(after) = &query.after else { return Start::AtEdge };
    if !after.is_empty() && after.starts_with(&query.prefix) {
        return Start::After(after.clone());
    }
    let behind_all = *after > query.prefix;
    match query.order {
        Order::Ascending if behind_all => Start::Nowhere,
        Order::Descending if !behind_all => Start::Nowhere,
        _ => Start::AtEdge,
    }
}

/// One of the shards over which a partition is spread, as far as it has been read.
struct Shard {
    terms: Terms,
    condition: String,
    start: Option<Item>,
    /// Read and not yet taken, with their sort keys.
    found: VecDeque<(String, Versioned)>,
    /// There is nothing behind `found`.
    ended: bool,
}

impl Shard {
    fn new(pk: &str, query: &Query, after: Option<&str>) -> Shard {
        let mut terms = Terms::default();
        let mut condition = terms.compare(PK, "=", PK, text(pk));
        if !query.prefix.is_empty() {
            let (sort, prefix) = (terms.name(SK), terms.value("prefix", text(&query.prefix)));
            condition = format!("{condition} AND begins_with({sort}, {prefix})");
        }
        let start = after.map(|after| stored_key_item(pk, after));
        Shard { terms, condition, start, found: VecDeque::new(), ended: false }
    }
}

/// The shard that has the next item. All of them must have one, or have ended.
fn next_shard(shards: &mut [Shard], order: Order) -> Option<&mut Shard> {
    let with_items = shards.iter_mut().filter(|shard| !shard.found.is_empty());
    match order {
        Order::Ascending => with_items.min_by(|a, b| a.found[0].0.cmp(&b.found[0].0)),
        Order::Descending => with_items.max_by(|a, b| a.found[0].0.cmp(&b.found[0].0)),
    }
}

impl DynamoStore {
    /// Reads the shards of the partition in turn, each only as far as it is needed.
    pub(super) async fn query_page(&self, query: Query) -> Result<Page, Fault> {
        let after = match start(&query) {
            Start::AtEdge => None,
            Start::After(sort) => Some(sort),
            Start::Nowhere => return Ok(Page { items: Vec::new(), next: None }),
        };
        let pks = pks_of(&query.partition, &query.prefix);
        let mut shards: Vec<Shard> = pks.iter().map(|pk| Shard::new(pk, &query, after.as_deref())).collect();
        // One more than the limit shows whether there is more.
        let wanted = query.limit.saturating_add(1);
        let mut items: Vec<Versioned> = Vec::new();
        while items.len() < wanted {
            let empty = shards.iter_mut().filter(|shard| shard.found.is_empty() && !shard.ended);
            let at_once = page_size(wanted - items.len(), pks.len());
            for filled in join_all(empty.map(|shard| self.fill(shard, query.order, at_once))).await {
                filled?;
            }
            let Some(next) = next_shard(&mut shards, query.order) else { break };
            items.extend(next.found.pop_front().map(|(_, found)| found));
        }
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        let next = items.last().filter(|_| more).map(|last| last.record.key().sort);
        Ok(Page { items, next })
    }

    /// Reads on until there is an item, or none is left.
    async fn fill(&self, shard: &mut Shard, order: Order, limit: usize) -> Result<(), Fault> {
        while shard.found.is_empty() && !shard.ended {
            let request = self.query_from(shard.start.take(), &shard.condition, &shard.terms, limit);
            let request = request.consistent_read(true).scan_index_forward(order == Order::Ascending);
            let answer = request.send().await.map_err(|error| CallError::new("Query", &error))?;
            for item in answer.items.unwrap_or_default() {
                let found = read(item)?;
                shard.found.push_back((found.record.key().sort, found));
            }
            // A response holds at most 1 MB, so there may be more behind it.
            shard.start = answer.last_evaluated_key;
            shard.ended = shard.start.is_none();
        }
        Ok(())
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

/// How much of a shard is read at once when `wanted` items are expected from all of them: some more than its share, so that it is
/// rarely asked again.
fn page_size(wanted: usize, shards: usize) -> usize {
    if shards == 1 { wanted } else { wanted.div_ceil(shards).saturating_mul(2) }
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
        let after = |sort: &str| Start::After(sort.to_owned());
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
