//! Every read is answered by an index: SQLite says so itself, and never looks through a table.

use holdfast_core::ports::Order;
use holdfast_core::records::ListIndex;
use rusqlite::Connection;

use super::{GET_BODY, overdue, pages, purge};
use crate::backlog;
use crate::database::Database;
use crate::rows;

/// The steps of a query that reach a table.
fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let values = vec![rusqlite::types::Null; explain.parameter_count()];
    let steps = explain.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect()
}

fn queries() -> Vec<(String, &'static str)> {
    let both = [Order::Ascending, Order::Descending];
    let mut queries: Vec<(String, &str)> =
        both.iter().map(|order| (pages::query_sql(*order), "records_by_key")).collect();
    for (index, name) in [
        (ListIndex::ByTenant, "records_by_tenant"),
        (ListIndex::ByUrl, "records_by_url"),
        (ListIndex::BySubscription, "records_by_subscription"),
        (ListIndex::ByState, "records_by_state"),
    ] {
        queries.extend(both.iter().map(|order| (pages::query_index_sql(index, *order), name)));
        queries.push((pages::count_index_sql(index), name));
    }
    let others = [
        (rows::GET, "records_by_key"),
        (GET_BODY, "sqlite_autoindex_bodies_1"),
        (overdue::NEXT_TENANT, "records_by_look"),
        (overdue::NEXT_ROWS, "records_by_look"),
        (purge::REMOVE_RECORDS, "records_by_removal"),
        (purge::OLD_BODIES, "bodies_by_removal"),
        (backlog::BYTES_BY_URL, "PRIMARY KEY"),
        (backlog::SUM_OF_BYTES, "PRIMARY KEY"),
        (backlog::STORED_BYTES, "PRIMARY KEY"),
    ];
    queries.extend(others.map(|(sql, index)| (sql.to_owned(), index)));
    queries
}

#[test]
fn every_read_names_its_index_and_none_scans_or_sorts_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    for (sql, index) in queries() {
        let plan = plan(&database.connection, &sql);
        assert!(
            plan.iter().any(|step| step.starts_with("SEARCH") && step.contains(index)),
            "{sql}: {plan:?}"
        );
        for step in &plan {
            // What was found is counted: that looks through the result, not the table.
            let is_scan = step.starts_with("SCAN") && !step.starts_with("SCAN (subquery");
            assert!(!is_scan && !step.contains("TEMP B-TREE"), "{sql}: {plan:?}");
        }
    }
    let scanned = plan(&database.connection, "SELECT data FROM records WHERE version = 1 ORDER BY sort");
    assert!(scanned.iter().any(|step| step.starts_with("SCAN")), "a scan is seen: {scanned:?}");
}
