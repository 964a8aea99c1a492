//! Whether any key of the table or of an index gets more than it takes: the engine and the store as they are, over the SDK, on a
//! DynamoDB in memory that counts capacity units as the documentation says.
//!
//! `infra/docs/capacity.md` has the figures. To see all of them: `cargo test -p holdfast-e2e --features aws --test capacity -- --nocapture`.

mod deployment;
mod dynamo;
mod expressions;
mod meter;
mod report;
mod table;
mod workloads;

use report::{Line, Workload, details, report};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/capacity.md");

async fn all_workloads() -> Vec<Workload> {
    let mut all = vec![
        workloads::many_tenants("1,000 events/s of 100 tenants", 1_000.0).await,
        workloads::many_tenants("10,000 events/s of 100 tenants", 10_000.0).await,
        workloads::one_tenant("1,000 events/s of one tenant to one URL", 1_000.0, (1, 1, 10)).await,
        workloads::one_tenant("10,000 events/s of one tenant to 1,000 URLs", 10_000.0, (1_000, 10, 10)).await,
        workloads::one_tenant("10,000 events/s to one URL, `FirstBatchSize` 100", 10_000.0, (1, 10, 100))
            .await,
    ];
    all.extend(workloads::dead_url().await);
    all.extend(workloads::fan_out().await);
    all.push(workloads::outage().await);
    all.push(workloads::instances().await);
    all
}

#[tokio::test]
async fn no_key_gets_more_than_it_takes() {
    let (mut lines, mut over) = (Vec::new(), Vec::new());
    for workload in all_workloads().await {
        println!("{}", details(&workload));
        let (shown, exceeded) = report(&workload);
        lines.extend(shown);
        over.extend(exceeded);
    }
    let table: Vec<String> = lines.iter().map(Line::markdown).collect();
    println!("{}", table.join("\n"));
    assert!(over.is_empty(), "a key exceeds its limit:\n{}", over.join("\n"));
    let page = std::fs::read_to_string(PAGE).expect("the page of the figures");
    let written = Line::all_in(&page);
    let differs = lines.iter().zip(&written).any(|(line, written)| !line.is_about(written));
    assert!(
        !differs && lines.len() == written.len(),
        "capacity.md differs; its table should be the one above"
    );
}

#[tokio::test]
async fn moving_a_subscription_reads_what_is_alive_and_not_its_history() {
    let workload = workloads::moving().await;
    println!("{}", details(&workload));
    let read: f64 = workload.meter.totals().values().map(|units| units.read).sum();
    assert!(read < 100.0, "{read} units were read");
}
