//! One tenant never hurts another: the attacks of the black-box suite in their short form.

use std::path::Path;

use holdfast_e2e::isolation::{self, Outcome, Size};

/// One attack at a time, so that each is measured alone.
#[tokio::test(flavor = "multi_thread")]
async fn one_tenant_never_hurts_another() {
    let binary = Path::new(env!("CARGO_BIN_EXE_holdfast"));
    let mut faults = Vec::new();
    println!("{}", Outcome::HEADING);
    for attack in isolation::all() {
        let started = tokio::time::Instant::now();
        let (summary, found) = match attack.run(binary, Size::Short).await {
            Ok(outcome) => (outcome.row(), outcome.faults),
            Err(error) => (format!("{}: not run", attack.name), vec![format!("{error:#}")]),
        };
        println!("{summary} ({:.1} s)", started.elapsed().as_secs_f64());
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", attack.name)));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
