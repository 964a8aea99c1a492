use holdfast_core::ports::StoreError;

use crate::Embedded;

impl Embedded {
    /// Writes one small row, and returns once it is on the disk: for a check of readiness.
    pub async fn probe_write(&self) -> Result<(), StoreError> {
        let write = "INSERT INTO meta (name, value) VALUES ('probes', 1)
                     ON CONFLICT (name) DO UPDATE SET value = value + 1";
        self.writer.run(move |connection| connection.prepare_cached(write)?.execute([]).map(drop)).await?;
        Ok(())
    }
}
