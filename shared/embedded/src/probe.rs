use holdfast_core::ports::StoreError;
use rusqlite::Connection;

use crate::Embedded;
use crate::lane::Lane;

impl Embedded {
    /// Writes one small row, and returns once it is on the disk: for a check of readiness.
    pub async fn probe_write(&self) -> Result<(), StoreError> {
        let write = "INSERT INTO meta (name, value) VALUES ('probes', 1)
                     ON CONFLICT (name) DO UPDATE SET value = value + 1";
        let write = move |connection: &Connection| connection.prepare_cached(write)?.execute([]).map(drop);
        Ok(self.writer.run(Lane::own(), write).await?)
    }
}
