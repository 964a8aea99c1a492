//! What the sweep should look at. Tenants take turns, so that one with a million overdue records does not delay the records of another.

use holdfast_core::ports::{StoreError, Versioned, chain};
use holdfast_core::records::VERSION;
use holdfast_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::EmbeddedStore;
use super::pages::row_count;
use crate::lane::OWN;
use crate::rows;

/// How many tenants are asked for their most overdue record in one read.
const TENANTS_AT_A_TIME: usize = 64;
/// How many records one read brings.
const ROWS_AT_A_TIME: usize = 16;

pub(super) const NEXT_TENANT: &str = "SELECT look_tenant, look_at FROM records
     WHERE look_shard = ?1 AND look_at IS NOT NULL AND look_tenant > ?2
     ORDER BY look_tenant, look_at LIMIT 1";
pub(super) const NEXT_ROWS: &str =
    "SELECT data, version, partition, sort, checksum, look_at, id FROM records
     WHERE look_shard = ?1 AND look_tenant = ?2 AND look_at <= ?3 AND (look_at, id) >= (?4, ?5) AND format <= ?6
     ORDER BY look_at, id LIMIT ?7";

/// The place of a record in the index: when it is to be looked at, and its row.
type Place = (i64, i64);

/// A tenant with overdue records.
#[derive(Clone)]
struct Overdue {
    tenant: String,
    /// Of its next record, at the earliest.
    from: Place,
}

impl EmbeddedStore {
    /// The most overdue records of each tenant. All tenants get the same number, as far as they have so many; if there are more tenants
    /// than records are wanted, those with the most overdue record come first.
    pub(super) async fn overdue_by_turns(
        &self,
        shard: u8,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Versioned>, StoreError> {
        let mut tenants = self.overdue_tenants(shard, until).await?;
        tenants.sort_by_key(|tenant| tenant.from);
        tenants.truncate(limit);
        let mut found = Vec::new();
        while !tenants.is_empty() && found.len() < limit {
            let mut more = Vec::new();
            let share = ((limit - found.len()) / tenants.len()).clamp(1, ROWS_AT_A_TIME);
            for mut tenant in tenants {
                let wanted = share.min(limit - found.len());
                if wanted == 0 {
                    break;
                }
                let of = tenant.clone();
                let read = move |connection: &Connection| next_rows(connection, shard, until, &of, wanted);
                let rows = self.readers.read(OWN, read).await?;
                if let Some(((look_at, id), _)) = rows.last().filter(|_| rows.len() == wanted) {
                    tenant.from = (*look_at, id + 1);
                    more.push(tenant);
                }
                found.extend(rows);
            }
            tenants = more;
        }
        found.sort_by_key(|(place, _)| *place);
        Ok(found.into_iter().filter_map(|(_, read)| readable(read)).collect())
    }

    async fn overdue_tenants(&self, shard: u8, until: Timestamp) -> Result<Vec<Overdue>, StoreError> {
        let mut all = Vec::new();
        let mut after = Some(String::new());
        while let Some(last) = after {
            let read = move |connection: &Connection| next_tenants(connection, shard, until, last);
            let (some, next) = self.readers.read(OWN, read).await?;
            all.extend(some);
            after = next;
        }
        Ok(all)
    }
}

/// One corrupt record must not keep the sweep from the others.
fn readable(read: Result<Versioned, StoreError>) -> Option<Versioned> {
    read.inspect_err(|error| tracing::error!(error = chain(error), "sweep.unreadable_record")).ok()
}

/// Of the next tenants in the index, those with something overdue, and the last one if there may be more. Each takes one step in the index,
/// however many records it has.
fn next_tenants(
    connection: &Connection,
    shard: u8,
    until: Timestamp,
    mut last: String,
) -> rusqlite::Result<(Vec<Overdue>, Option<String>)> {
    let mut next = connection.prepare_cached(NEXT_TENANT)?;
    let mut tenants = Vec::new();
    for _ in 0..TENANTS_AT_A_TIME {
        let found = next.query_row(params![shard, last], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((tenant, look_at)) = found else { return Ok((tenants, None)) };
        last = tenant;
        if look_at <= until.as_millis() {
            tenants.push(Overdue { tenant: last.clone(), from: (look_at, i64::MIN) });
        }
    }
    Ok((tenants, Some(last)))
}

type Row = (Place, Result<Versioned, StoreError>);

/// A tenant's next records, without those of a newer release.
fn next_rows(
    connection: &Connection,
    shard: u8,
    until: Timestamp,
    of: &Overdue,
    limit: usize,
) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(NEXT_ROWS)?;
    let (look_at, id) = of.from;
    let values = params![shard, of.tenant, until.as_millis(), look_at, id, VERSION, row_count(limit)];
    let rows = statement.query_map(values, |row| Ok(((row.get(5)?, row.get(6)?), rows::read(row)?)))?;
    rows.collect()
}
