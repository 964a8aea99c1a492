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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_core::time::Timestamp;
    use holdfast_sim::{VirtualClock, block_on};

    use super::*;
    use crate::Options;

    #[test]
    fn nothing_is_written_once_the_writing_thread_has_died() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(Timestamp::ZERO));
        let embedded = Embedded::open(dir.path(), clock, Options::default()).unwrap();
        block_on(async {
            embedded.probe_write().await.unwrap();
            let bug = |_: &Connection| -> rusqlite::Result<()> { panic!("as by a bug") };
            assert!(embedded.writer.run(Lane::own(), bug).await.is_err());
            assert!(matches!(embedded.probe_write().await, Err(StoreError::Closed)));
        });
    }
}
