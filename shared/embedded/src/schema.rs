//! The tables. A migration, once released, is never changed: a new one is added.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use crate::list::{Place, list_id};

/// The first migration makes this version of an empty file, and each further one the next. Files of earlier versions, which
/// were never released, are refused.
pub(crate) const OLDEST: u32 = 3;

pub(crate) const MIGRATIONS: &[&str] = &[
    // `records` is ordered by insertion and found by an index on its key: rows are often longer than a quarter of a page, and a
    // table ordered by key would put them on overflow pages. Every index entry ends with the row's id.
    //
    // `checksum` covers the key and the content of a row, not what is changed without writing the content.
    //
    // `format` is the version of the record's own format, so that a record of a newer release is not written over.
    //
    // `waiting_bytes` is the length of the body of a delivery that is waiting or parked. `backlog` has its sum for each list of a
    // URL's deliveries. Triggers keep it, so that no way of writing a record can miss it.
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

     CREATE TABLE records (
         id INTEGER PRIMARY KEY,
         partition TEXT NOT NULL,
         sort TEXT NOT NULL,
         version INTEGER NOT NULL,
         look_shard INTEGER,
         look_at INTEGER,
         by_tenant TEXT,
         by_url TEXT,
         by_subscription TEXT,
         list_sort TEXT,
         by_state TEXT,
         state_sort TEXT,
         remove_at INTEGER,
         waiting_bytes INTEGER,
         format INTEGER NOT NULL,
         data BLOB NOT NULL,
         checksum INTEGER NOT NULL
     );
     CREATE UNIQUE INDEX records_by_key ON records (partition, sort);
     CREATE INDEX records_by_look ON records (look_shard, look_at) WHERE look_at IS NOT NULL;
     CREATE INDEX records_by_tenant ON records (by_tenant, list_sort) WHERE by_tenant IS NOT NULL;
     CREATE INDEX records_by_url ON records (by_url, list_sort) WHERE by_url IS NOT NULL;
     CREATE INDEX records_by_subscription ON records (by_subscription, list_sort) WHERE by_subscription IS NOT NULL;
     CREATE INDEX records_by_state ON records (by_state, state_sort) WHERE by_state IS NOT NULL;
     CREATE INDEX records_by_removal ON records (remove_at) WHERE remove_at IS NOT NULL;

     CREATE TABLE backlog (by_url TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
     CREATE TRIGGER backlog_insert AFTER INSERT ON records WHEN new.waiting_bytes > 0 BEGIN
         INSERT INTO backlog VALUES (new.by_url, new.waiting_bytes)
             ON CONFLICT (by_url) DO UPDATE SET bytes = bytes + excluded.bytes;
     END;
     CREATE TRIGGER backlog_delete AFTER DELETE ON records WHEN old.waiting_bytes > 0 BEGIN
         UPDATE backlog SET bytes = bytes - old.waiting_bytes WHERE by_url = old.by_url;
         DELETE FROM backlog WHERE by_url = old.by_url AND bytes <= 0;
     END;
     CREATE TRIGGER backlog_update AFTER UPDATE OF by_url, waiting_bytes ON records
     WHEN old.waiting_bytes IS NOT new.waiting_bytes OR (old.waiting_bytes > 0 AND old.by_url IS NOT new.by_url) BEGIN
         UPDATE backlog SET bytes = bytes - old.waiting_bytes WHERE by_url = old.by_url AND old.waiting_bytes > 0;
         INSERT INTO backlog SELECT new.by_url, new.waiting_bytes WHERE new.waiting_bytes > 0
             ON CONFLICT (by_url) DO UPDATE SET bytes = bytes + excluded.bytes;
         DELETE FROM backlog WHERE by_url = old.by_url AND bytes <= 0;
     END;

     CREATE TABLE bodies (
         tenant TEXT NOT NULL,
         event_key TEXT NOT NULL,
         remove_at INTEGER NOT NULL,
         body BLOB NOT NULL,
         checksum INTEGER NOT NULL,
         PRIMARY KEY (tenant, event_key)
     );
     CREATE INDEX bodies_by_removal ON bodies (remove_at);

     -- `received` is the highest possible receive count at the time of the `opened`th opening of the database. The first receipt
     -- in each opening is not written before the database is closed, so each later opening may add one. An opening after a close
     -- has the same number as the one before.
     CREATE TABLE messages (
         id INTEGER PRIMARY KEY,
         queue INTEGER NOT NULL,
         group_id INTEGER NOT NULL,
         deliver_at INTEGER NOT NULL,
         body_bytes INTEGER NOT NULL,
         received INTEGER NOT NULL,
         opened INTEGER NOT NULL,
         payload BLOB NOT NULL,
         checksum INTEGER NOT NULL
     );
     -- Ends with the size of the body, so that opening can add up the sizes by group from the index alone.
     CREATE INDEX messages_by_group ON messages (queue, group_id, deliver_at, id, body_bytes);",
    // `ticket` says which messages ask for the same look at a record. `NULL`: it is not a ticket, it was sent by an earlier release, or it
    // was received and another one has taken its place.
    "ALTER TABLE messages ADD COLUMN ticket INTEGER;
     CREATE UNIQUE INDEX messages_by_ticket ON messages (queue, ticket) WHERE ticket IS NOT NULL;",
    // The tenant of a record is what its partition has after the first `#`. It is computed, so that no row has to be written for it, and
    // lets the sweep serve tenants by turns.
    "ALTER TABLE records ADD COLUMN look_tenant TEXT GENERATED ALWAYS AS (
         substr(partition, instr(partition, '#') + 1,
                instr(substr(partition, instr(partition, '#') + 1) || '#', '#') - 1)) VIRTUAL;
     DROP INDEX records_by_look;
     CREATE INDEX records_by_look ON records (look_shard, look_tenant, look_at) WHERE look_at IS NOT NULL;",
    // `stored` has the bytes of each tenant's bodies. A body is never changed, so two triggers keep it.
    "CREATE TABLE stored (tenant TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
     INSERT INTO stored SELECT tenant, sum(length(body)) FROM bodies GROUP BY tenant;
     CREATE TRIGGER stored_insert AFTER INSERT ON bodies BEGIN
         INSERT INTO stored VALUES (new.tenant, length(new.body))
             ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes;
     END;
     CREATE TRIGGER stored_delete AFTER DELETE ON bodies BEGIN
         UPDATE stored SET bytes = bytes - length(old.body) WHERE tenant = old.tenant;
         DELETE FROM stored WHERE tenant = old.tenant AND bytes <= 0;
     END;",
    // `counted_bytes` is what a record adds to `stored`, if it counts. Those of before do not.
    "ALTER TABLE records ADD COLUMN counted_bytes INTEGER;
     CREATE TRIGGER counted_insert AFTER INSERT ON records WHEN new.counted_bytes > 0 BEGIN
         INSERT INTO stored VALUES (new.look_tenant, new.counted_bytes)
             ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes;
     END;
     CREATE TRIGGER counted_delete AFTER DELETE ON records WHEN old.counted_bytes > 0 BEGIN
         UPDATE stored SET bytes = bytes - old.counted_bytes WHERE tenant = old.look_tenant;
         DELETE FROM stored WHERE tenant = old.look_tenant AND bytes <= 0;
     END;
     CREATE TRIGGER counted_update AFTER UPDATE OF counted_bytes ON records
     WHEN old.counted_bytes IS NOT new.counted_bytes BEGIN
         INSERT INTO stored VALUES (new.look_tenant, coalesce(new.counted_bytes, 0) - coalesce(old.counted_bytes, 0))
             ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes;
         DELETE FROM stored WHERE tenant = new.look_tenant AND bytes <= 0;
     END;",
    // Lists have numbers, made by the function `list_id` from their names, and a place that is a time and an id is a few bytes (`list_place`): keys
    // of lists took a third of the file. `waiting_list` has the name of the list under which `waiting_bytes` are counted, which rows that do not
    // wait do without.
    "CREATE TABLE records_with_numbers (
         id INTEGER PRIMARY KEY,
         partition TEXT NOT NULL,
         sort TEXT NOT NULL,
         version INTEGER NOT NULL,
         look_shard INTEGER,
         look_at INTEGER,
         look_tenant TEXT GENERATED ALWAYS AS (
             substr(partition, instr(partition, '#') + 1,
                    instr(substr(partition, instr(partition, '#') + 1) || '#', '#') - 1)) VIRTUAL,
         by_tenant INTEGER,
         by_url INTEGER,
         by_subscription INTEGER,
         list_sort,
         by_state INTEGER,
         state_sort,
         remove_at INTEGER,
         waiting_list TEXT,
         waiting_bytes INTEGER,
         counted_bytes INTEGER,
         format INTEGER NOT NULL,
         data BLOB NOT NULL,
         checksum INTEGER NOT NULL
     );
     INSERT INTO records_with_numbers (id, partition, sort, version, look_shard, look_at, by_tenant, by_url, by_subscription, list_sort,
                                       by_state, state_sort, remove_at, waiting_list, waiting_bytes, counted_bytes, format, data, checksum)
         SELECT id, partition, sort, version, look_shard, look_at, list_id(by_tenant), list_id(by_url), list_id(by_subscription),
                list_place(by_tenant, list_sort), list_id(by_state), list_place(by_state, state_sort), remove_at,
                CASE WHEN waiting_bytes > 0 THEN by_url END, waiting_bytes, counted_bytes, format, data, checksum
         FROM records;
     DROP TABLE records;
     ALTER TABLE records_with_numbers RENAME TO records;
     CREATE UNIQUE INDEX records_by_key ON records (partition, sort);
     CREATE INDEX records_by_look ON records (look_shard, look_tenant, look_at) WHERE look_at IS NOT NULL;
     CREATE INDEX records_by_tenant ON records (by_tenant, list_sort) WHERE by_tenant IS NOT NULL;
     CREATE INDEX records_by_url ON records (by_url, list_sort) WHERE by_url IS NOT NULL;
     CREATE INDEX records_by_subscription ON records (by_subscription, list_sort) WHERE by_subscription IS NOT NULL;
     CREATE INDEX records_by_state ON records (by_state, state_sort) WHERE by_state IS NOT NULL;
     CREATE INDEX records_by_removal ON records (remove_at) WHERE remove_at IS NOT NULL;
     ALTER TABLE backlog RENAME COLUMN by_url TO list;
     CREATE TRIGGER backlog_insert AFTER INSERT ON records WHEN new.waiting_bytes > 0 BEGIN
         INSERT INTO backlog VALUES (new.waiting_list, new.waiting_bytes)
             ON CONFLICT (list) DO UPDATE SET bytes = bytes + excluded.bytes;
     END;
     CREATE TRIGGER backlog_delete AFTER DELETE ON records WHEN old.waiting_bytes > 0 BEGIN
         UPDATE backlog SET bytes = bytes - old.waiting_bytes WHERE list = old.waiting_list;
         DELETE FROM backlog WHERE list = old.waiting_list AND bytes <= 0;
     END;
     CREATE TRIGGER backlog_update AFTER UPDATE OF waiting_list, waiting_bytes ON records
     WHEN old.waiting_bytes IS NOT new.waiting_bytes OR old.waiting_list IS NOT new.waiting_list BEGIN
         UPDATE backlog SET bytes = bytes - old.waiting_bytes WHERE list = old.waiting_list AND old.waiting_bytes > 0;
         INSERT INTO backlog SELECT new.waiting_list, new.waiting_bytes WHERE new.waiting_bytes > 0
             ON CONFLICT (list) DO UPDATE SET bytes = bytes + excluded.bytes;
         DELETE FROM backlog WHERE list = old.waiting_list AND bytes <= 0;
     END;
     CREATE TRIGGER counted_insert AFTER INSERT ON records WHEN new.counted_bytes > 0 BEGIN
         INSERT INTO stored VALUES (new.look_tenant, new.counted_bytes)
             ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes;
     END;
     CREATE TRIGGER counted_delete AFTER DELETE ON records WHEN old.counted_bytes > 0 BEGIN
         UPDATE stored SET bytes = bytes - old.counted_bytes WHERE tenant = old.look_tenant;
         DELETE FROM stored WHERE tenant = old.look_tenant AND bytes <= 0;
     END;
     CREATE TRIGGER counted_update AFTER UPDATE OF counted_bytes ON records
     WHEN old.counted_bytes IS NOT new.counted_bytes BEGIN
         INSERT INTO stored VALUES (new.look_tenant, coalesce(new.counted_bytes, 0) - coalesce(old.counted_bytes, 0))
             ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes;
         DELETE FROM stored WHERE tenant = new.look_tenant AND bytes <= 0;
     END;",
    // An insert counts by statements of its own (`counters`): with a trigger, SQLite copies every page that the insert changes, to undo it
    // if the trigger fails.
    "DROP TRIGGER backlog_insert;
     DROP TRIGGER counted_insert;
     DROP TRIGGER stored_insert;",
    // Records may be compressed (`compact`), which an earlier release cannot read. Those that are not stay as they are.
    "",
];

/// The version of the schema that this release writes.
pub(crate) const VERSION: u32 = OLDEST - 1 + MIGRATIONS.len() as u32;

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Applies the migrations that the file does not have yet.
pub(crate) fn migrate(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
    add_functions(connection)?;
    let found = version(connection)?;
    for (version, migration) in (OLDEST..).zip(migrations).filter(|(version, _)| *version > found) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

/// What migrations use. `NULL` has no number, and no place.
fn add_functions(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("list_id", 1, flags, |context| {
        Ok(context.get::<Option<String>>(0)?.map(|list| list_id(&list)))
    })?;
    connection.create_scalar_function("list_place", 2, flags, |context| {
        let (list, sort) = (context.get::<Option<String>>(0)?, context.get::<Option<String>>(1)?);
        Ok(list.zip(sort).map(|(list, sort)| Place::of(&list, &sort)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_file_is_brought_up_to_date() {
        let mut connection = Connection::open_in_memory().unwrap();
        let migrations =
            ["CREATE TABLE a (x); INSERT INTO a VALUES (1)", "ALTER TABLE a ADD COLUMN y DEFAULT 2"];
        migrate(&mut connection, &migrations[..1]).unwrap();
        assert_eq!(version(&connection).unwrap(), OLDEST);
        for _ in 0..2 {
            migrate(&mut connection, &migrations).unwrap();
            assert_eq!(version(&connection).unwrap(), OLDEST + 1);
        }
        let row = connection.query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(row, Ok((1, 2)));
    }

    #[test]
    fn a_migration_that_fails_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &["CREATE TABLE a (x); CREATE TABLE a (x)"]).unwrap_err();
        assert_eq!(version(&connection).unwrap(), 0);
        migrate(&mut connection, &["CREATE TABLE a (x)"]).unwrap();
    }
}
