//! One tenant never hurts another: the attacks of the black-box suite in their short form.

use std::path::Path;

use holdfast_e2e::isolation::{self, Size};

/// One attack at a time, so that each is measured alone.
#[tokio::test(flavor = "multi_thread")]
async fn one_tenant_never_hurts_another() {
    let binary = Path::new(env!("CARGO_BIN_EXE_holdfast"));
    let mut faults = Vec::new();
    for attack in isolation::all() {
        let started = tokio::time::Instant::now();
        let outcome = attack.run(binary, Size::Short).await.unwrap();
        println!("{:.1} s  {}", started.elapsed().as_secs_f64(), outcome.summary());
        faults.extend(outcome.faults.into_iter().map(|fault| format!("{}: {fault}", attack.name)));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
