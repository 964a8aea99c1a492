//! Makes a data folder with very many URLs and deliveries of the tenant `default`, for tests of pages and lists:
//! `cargo run -p holdfast-embedded --example large_folder FOLDER URLS DELIVERIES NOW_MS`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::Store;
use holdfast_core::records::Record;
use holdfast_core::time::Timestamp;
use holdfast_embedded::{Embedded, Options};
use holdfast_sim::{Bulk, VirtualClock};

const AT_A_TIME: usize = 5_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let [folder, urls, deliveries, now_ms] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| {
        "give a folder, the number of URLs, the number of deliveries and the time in milliseconds since 1970"
    })?;
    let now = Timestamp::from_millis(now_ms.parse()?);
    let bulk = Bulk {
        tenant: "default".into(),
        urls: urls.parse()?,
        deliveries: deliveries.parse()?,
        now,
        // None has expired, so the sweep of a server leaves them as they are.
        span: Duration::from_secs(40 * 3_600),
    };
    let folder = PathBuf::from(folder);
    let embedded = Embedded::open(&folder, Arc::new(VirtualClock::new(now)), Options::default())?;
    let mut records = bulk.records().peekable();
    while records.peek().is_some() {
        let some: Vec<Record> = records.by_ref().take(AT_A_TIME).collect();
        let refused = embedded.store.put_each(some).await?;
        assert!(refused.is_empty(), "the folder has records of a newer release");
    }
    embedded.close();
    Ok(())
}
