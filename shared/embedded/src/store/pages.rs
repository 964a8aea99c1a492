//! List calls, each served by one index.

use holdfast_core::ports::{Count, IndexCount, IndexQuery, Order, Page, Query, StoreError, Versioned};
use holdfast_core::records::{ListIndex, Record};
use rusqlite::{Connection, Params, Row, params};

use crate::error::Failure;
use crate::list::{Place, list_id};
use crate::rows::{self, COLUMNS};

/// A read ends with the record that reaches this: to decode so much takes about a millisecond, during which other tasks wait.
pub(super) const MAX_READ_BYTES: usize = 64_000;

/// Sorts after every sort key.
const END: &str = "\u{10ffff}";

/// The text that sorts directly after `text`.
fn just_after(text: &str) -> String {
    format!("{text}\0")
}

/// A limit as SQLite takes it.
pub(super) fn row_count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn query(connection: &Connection, query: &Query) -> Result<Page, Failure> {
    let mut from = query.prefix.clone();
    let mut to = format!("{}{END}", query.prefix);
    match (&query.after, query.order) {
        (None, _) => {}
        (Some(after), Order::Ascending) => from = from.max(just_after(after)),
        (Some(after), Order::Descending) => to = to.min(after.clone()),
    }
    let sql = query_sql(query.order);
    let values = params![query.partition, from, to, row_count(query.limit).saturating_add(1)];
    page(connection, &sql, values, query.limit, |row| row.get(3), |_| true)
}

pub(super) fn query_sql(order: Order) -> String {
    let direction = match order {
        Order::Ascending => "ASC",
        Order::Descending => "DESC",
    };
    format!(
        "SELECT {COLUMNS} FROM records WHERE partition = ?1 AND sort >= ?2 AND sort < ?3
         ORDER BY sort {direction} LIMIT ?4"
    )
}

fn columns(index: ListIndex) -> (&'static str, &'static str) {
    match index {
        ListIndex::ByTenant => ("by_tenant", "list_sort"),
        ListIndex::ByUrl => ("by_url", "list_sort"),
        ListIndex::BySubscription => ("by_subscription", "list_sort"),
        ListIndex::ByState => ("by_state", "state_sort"),
    }
}

pub(super) fn query_index(connection: &Connection, query: &IndexQuery) -> Result<Page, Failure> {
    let place = |sort: &String| Place::of(&query.partition, sort);
    let mut from = query.from.as_ref().map_or(Place::First, place);
    let mut to = query.to.as_ref().map_or_else(Place::end, place);
    // Two records may have the same place in a list, so a cursor names the row too.
    let after = query.after.as_deref().map(|cursor| read_cursor(&query.partition, cursor)).transpose()?;
    let (after, id) = match query.order {
        Order::Ascending => {
            let (after, id) = after.unwrap_or((Place::First, i64::MIN));
            from = from.max(after.clone());
            (after, id)
        }
        Order::Descending => {
            let (after, id) = after.unwrap_or((Place::end(), i64::MAX));
            to = to.min(after.next());
            (after, id)
        }
    };
    let sql = query_index_sql(query.index, query.order);
    let list = list_id(&query.partition);
    let values = params![list, from, to, after, id, row_count(query.limit).saturating_add(1)];
    let cursor = |row: &Row<'_>| Ok(format!("{} {}", row.get::<_, Place>(5)?.sort(), row.get::<_, i64>(6)?));
    page(connection, &sql, values, query.limit, cursor, |found| is_in_list(found, query))
}

/// Another list may have the same number. What a newer release wrote is not known to be in any.
fn is_in_list(found: &Versioned, query: &IndexQuery) -> bool {
    let place = || found.record.index_entries().in_list(query.index);
    matches!(found.record, Record::Newer { .. }) || place().is_some_and(|(list, _)| list == query.partition)
}

pub(super) fn query_index_sql(index: ListIndex, order: Order) -> String {
    let (column, list_sort) = columns(index);
    let (direction, beyond) = match order {
        Order::Ascending => ("ASC", '>'),
        Order::Descending => ("DESC", '<'),
    };
    format!(
        "SELECT {COLUMNS}, {list_sort}, id FROM records
         WHERE {column} = ?1 AND {list_sort} >= ?2 AND {list_sort} < ?3 AND ({list_sort} {beyond} ?4 OR id {beyond} ?5)
         ORDER BY {list_sort} {direction}, id {direction} LIMIT ?6"
    )
}

/// Reads only the index, and stops one entry after the limit.
pub(super) fn count_index(connection: &Connection, count: &IndexCount) -> Result<Count, Failure> {
    let sql = count_index_sql(count.index);
    let from = count.from.as_ref().map_or(Place::First, |sort| Place::of(&count.partition, sort));
    let values = params![list_id(&count.partition), from, row_count(count.limit).saturating_add(1)];
    let mut statement = connection.prepare_cached(&sql)?;
    let found: i64 = statement.query_row(values, |row| row.get(0))?;
    let limit = row_count(count.limit);
    Ok(Count { count: found.min(limit).unsigned_abs(), more: found > limit })
}

pub(super) fn count_index_sql(index: ListIndex) -> String {
    let (column, list_sort) = columns(index);
    format!(
        "SELECT count(*) FROM
             (SELECT 1 FROM records WHERE {column} = ?1 AND {list_sort} >= ?2 LIMIT ?3)"
    )
}

fn read_cursor(partition: &str, cursor: &str) -> Result<(Place, i64), StoreError> {
    let read = || {
        let (sort, id) = cursor.rsplit_once(' ')?;
        Some((Place::of(partition, sort), id.parse().ok()?))
    };
    read().ok_or_else(|| StoreError::Invalid("not a cursor of this list".to_owned()))
}

/// One page of a query that asks for one row more than the page holds. It ends early if its records are large.
fn page(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    limit: usize,
    cursor: impl Fn(&Row<'_>) -> rusqlite::Result<String>,
    is_wanted: impl Fn(&Versioned) -> bool,
) -> Result<Page, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut items = Vec::new();
    let mut bytes = 0;
    let mut last = None;
    while let Some(row) = rows.next()? {
        if items.len() == limit || bytes >= MAX_READ_BYTES {
            return Ok(Page { items, next: last });
        }
        last = Some(cursor(row)?);
        bytes += rows::document_bytes(row)?;
        let found = rows::read(row)??;
        if is_wanted(&found) {
            items.push(found);
        }
    }
    Ok(Page { items, next: None })
}
