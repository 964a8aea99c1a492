//! Everything that is accepted is accounted for, whatever happens to the server: the soak of the black-box suite in its short form.

use std::path::Path;

use holdfast_e2e::soak::{self, Plan};

#[tokio::test(flavor = "multi_thread")]
async fn everything_accepted_is_accounted_for_after_trouble_of_all_kinds() {
    let binary = Path::new(env!("CARGO_BIN_EXE_holdfast"));
    let report = soak::run(binary, &Plan::short(holdfast_e2e::clock::real_ms())).await.unwrap();
    println!("{report}");
    assert!(report.faults.is_empty(), "{report}");
    assert!(report.accepted > 100 && report.interruptions > 1, "too little to prove anything: {report}");
}
