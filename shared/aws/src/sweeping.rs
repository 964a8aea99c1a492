use holdfast_core::engine::{Engine, SweepReport, Unavailable};

use crate::deadline::Deadline;

#[derive(Debug, thiserror::Error)]
pub enum SweepFailed {
    #[error("the sweep failed; the next one continues")]
    Unavailable(#[source] Unavailable),
    /// Not one sweep was completed, so how late it is remains unknown.
    #[error("the sweep did not end in time; the next one continues")]
    Late,
}

/// Sweeps repeatedly while there is more to look at and time is left. Returns the total.
pub async fn sweep(engine: &Engine, deadline: Deadline) -> Result<SweepReport, SweepFailed> {
    let mut total: Option<SweepReport> = None;
    loop {
        let left = deadline.until_work_ends(engine.clock());
        if left.is_zero() {
            break;
        }
        let Ok(swept) = tokio::time::timeout(left, engine.sweep()).await else { break };
        let report = swept.map_err(SweepFailed::Unavailable)?;
        let before = total.unwrap_or_default();
        total = Some(SweepReport {
            looked_at: before.looked_at + report.looked_at,
            oldest_overdue: before.oldest_overdue.max(report.oldest_overdue),
            more: report.more,
            failed: before.failed + report.failed,
        });
        if !report.more {
            break;
        }
    }
    total.ok_or(SweepFailed::Late)
}
