//! The tables. A migration, once released, is never changed: a new one is added.

/// Version n of the schema is what the first n migrations make of an empty file.
pub(crate) const MIGRATIONS: &[&str] = &[
    // `records` is ordered by arrival and found by an index on its key, because rows are often longer than a quarter of a
    // page, which an ordered-by-key table would put on pages of their own. An index entry ends with the row's id.
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
         remove_at INTEGER,
         data BLOB NOT NULL
     );
     CREATE UNIQUE INDEX records_by_key ON records (partition, sort);
     CREATE INDEX records_by_look ON records (look_shard, look_at) WHERE look_at IS NOT NULL;
     CREATE INDEX records_by_tenant ON records (by_tenant, list_sort) WHERE by_tenant IS NOT NULL;
     CREATE INDEX records_by_url ON records (by_url, list_sort) WHERE by_url IS NOT NULL;
     CREATE INDEX records_by_subscription ON records (by_subscription, list_sort) WHERE by_subscription IS NOT NULL;
     CREATE INDEX records_by_removal ON records (remove_at) WHERE remove_at IS NOT NULL;

     CREATE TABLE bodies (
         tenant TEXT NOT NULL,
         event_key TEXT NOT NULL,
         remove_at INTEGER NOT NULL,
         body BLOB NOT NULL,
         PRIMARY KEY (tenant, event_key)
     );
     CREATE INDEX bodies_by_removal ON bodies (remove_at);

     -- `received` is how often the message may have been received when the database was opened for the `opened`th time; it
     -- may have been received once more in each opening since, because only later receipts are written down.
     CREATE TABLE messages (
         id INTEGER PRIMARY KEY,
         queue INTEGER NOT NULL,
         deliver_at INTEGER NOT NULL,
         received INTEGER NOT NULL,
         opened INTEGER NOT NULL,
         payload BLOB NOT NULL
     );
     CREATE INDEX messages_by_time ON messages (queue, deliver_at);",
    // What is there already is put into its topic as the record would do it.
    "ALTER TABLE records ADD COLUMN topic TEXT;
     ALTER TABLE records ADD COLUMN topic_sort TEXT;

     UPDATE records SET
         topic = 'topic#' || json_extract(CAST(data AS TEXT), '$.key.tenant') || '#' ||
                 json_extract(CAST(data AS TEXT), '$.state'),
         topic_sort = list_sort
     WHERE json_extract(CAST(data AS TEXT), '$.kind') = 'delivery'
       AND json_extract(CAST(data AS TEXT), '$.state') IN ('waiting', 'parked', 'dead');

     UPDATE records SET
         topic = 'topic#' || json_extract(CAST(data AS TEXT), '$.tenant') || '#url-' ||
                 json_extract(CAST(data AS TEXT), '$.state'),
         topic_sort = json_extract(CAST(data AS TEXT), '$.id')
     WHERE json_extract(CAST(data AS TEXT), '$.kind') = 'url'
       AND json_extract(CAST(data AS TEXT), '$.state') IN ('disabled', 'frozen');

     CREATE INDEX records_by_topic ON records (topic, topic_sort) WHERE topic IS NOT NULL;",
];

/// The version of the schema that this Holdfast writes.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;
