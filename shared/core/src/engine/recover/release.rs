//! Releases parked deliveries when their URL is enabled: oldest first, in steps whose size follows from how the steps before went.

use std::time::Duration;

use super::super::tickets::{linked_after, release_ticket};
use super::super::{Change, Engine, Loaded, Result, Unavailable};
use crate::ids::{StepId, Tenant, UrlId};
use crate::ports::chain;
use crate::records::UrlRecord;
use crate::rules::health::UrlState;
use crate::rules::release::{Release, STEP_INTERVAL};
use crate::time::{Now, Timestamp};

/// What a release ticket led to.
enum Claim {
    /// The release has ended, or the ticket is a duplicate.
    Over,
    /// Not yet: the ticket is sent on.
    Early(Duration),
    Step(ReleaseStep),
}

/// A step that was claimed.
pub(super) struct ReleaseStep {
    pub(super) tenant: Tenant,
    pub(super) url_id: UrlId,
    pub(super) id: StepId,
    pub(super) step: u64,
    /// How many deliveries it may release.
    pub(super) size: u32,
    pub(super) began: Now,
}

/// What a step came to.
#[derive(Default)]
pub(super) struct Released {
    /// How many places of the step are taken.
    pub(super) count: u32,
    /// How many of these deliveries are due in the step: by their outcomes it is judged.
    pub(super) judged_by: u32,
    /// Nothing was parked.
    pub(super) found_nothing: bool,
}

impl Engine {
    /// `links`: where its ticket is in its chain.
    pub(crate) async fn release(
        &self,
        tenant: &Tenant,
        url_id: &UrlId,
        step: u64,
        links: u32,
        until_real: Timestamp,
    ) -> Result<()> {
        let step = match self.claim_release_step(tenant, url_id, step).await? {
            Claim::Over => return Ok(()),
            Claim::Early(wait) => {
                let ticket = linked_after(links, release_ticket(tenant, url_id, step, wait));
                self.send_tickets(ticket.into_iter().collect()).await;
                return Ok(());
            }
            Claim::Step(step) => step,
        };
        let released = self.release_step(&step, until_real).await;
        self.end_release_step(&step, &released, links).await;
        Ok(())
    }

    /// Claimed by a conditional write, so that a duplicated ticket does not double the pace. The steps before are judged in the same write.
    async fn claim_release_step(&self, tenant: &Tenant, url_id: &UrlId, step: u64) -> Result<Claim> {
        let Some(url) = self.repository.get_url(tenant, url_id).await? else { return Ok(Claim::Over) };
        let outcomes = match &url.record.releasing {
            Some(release) if release.step == step && release.next_step_at <= self.ports.clock.now() => {
                self.load_step_outcomes(tenant, url_id.as_str(), release).await?
            }
            _ => Default::default(),
        };
        let decide = |Loaded { record: mut url, .. }: Loaded<UrlRecord>| {
            let now = self.ports.clock.both();
            match (url.health.state, &mut url.releasing) {
                (UrlState::Disabled | UrlState::Frozen, _) => return Ok(Change::Keep(Claim::Over)),
                (UrlState::Enabled, Some(release)) if release.step != step => {
                    return Ok(Change::Keep(Claim::Over));
                }
                (UrlState::Enabled, Some(release)) if release.next_step_at > now.schedule => {
                    let wait = release.next_step_at.since(now.schedule);
                    return Ok(Change::Keep(Claim::Early(wait)));
                }
                (UrlState::Enabled, Some(release)) => {
                    let ceiling = self.settings.release_ceiling;
                    release.judge_steps(|step| outcomes.get(&step).cloned(), now.real, ceiling);
                    if release.is_behind() {
                        return Ok(Change::Keep(Claim::Early(STEP_INTERVAL)));
                    }
                }
                (UrlState::Enabled, None) => url.start_release(now),
            }
            let Some((step, size)) = url.claim_release_step(now, self.settings.http_timeout) else {
                return Ok(Change::Keep(Claim::Over));
            };
            let Some(release) = &url.releasing else { return Ok(Change::Keep(Claim::Over)) };
            let claimed = ReleaseStep {
                tenant: tenant.clone(),
                url_id: url_id.clone(),
                id: release.step_id(url_id.as_str(), step),
                step,
                size,
                began: now,
            };
            Ok::<_, Unavailable>(Change::Write(url, Vec::new(), Claim::Step(claimed)))
        };
        let claim = self.repository.update(UrlRecord::key(tenant, url_id), decide).await?;
        Ok(claim.unwrap_or(Claim::Over))
    }

    /// Stores how many the step released, and sends the ticket of the next one. If nothing is parked the release ends, unless a function may
    /// still act on the health that the URL had before.
    async fn end_release_step(&self, step: &ReleaseStep, released: &Released, links: u32) {
        let timeout = self.settings.function_timeout;
        let decide = |Loaded { record: mut url, .. }: Loaded<UrlRecord>| {
            let is_ours = |release: &Release| release.step_id(step.url_id.as_str(), step.step) == step.id;
            let Some(release) = url.releasing.as_mut().filter(|release| is_ours(release)) else {
                return Ok(Change::Keep(None));
            };
            if released.found_nothing && release.may_end(step.began.real, timeout) {
                url.end_release();
                return Ok(Change::Write(url, Vec::new(), None));
            }
            release.end_step(step.step, released.judged_by);
            let mut not_before = release.next_step_at;
            if released.found_nothing {
                let left = (release.enabled_at_real + timeout * 2).since(self.ports.clock.now_real());
                not_before = not_before.max(self.ports.clock.now() + self.ports.clock.to_schedule(left));
            }
            let next = (release.step, not_before);
            Ok::<_, Unavailable>(Change::Write(url, Vec::new(), Some(next)))
        };
        let key = UrlRecord::key(&step.tenant, &step.url_id);
        let next = match self.repository.update(key, decide).await {
            Ok(next) => next.flatten(),
            Err(error) => {
                // What it could have released and did not counts as failed.
                tracing::warn!(error = chain(&error), url_id = %step.url_id, "a step of a release was not counted");
                Some((step.step + 1, step.began.schedule + STEP_INTERVAL))
            }
        };
        // Without one it has ended, or began again with a ticket of its own.
        let Some((next, not_before)) = next else { return };
        let wait = not_before.since(self.ports.clock.now());
        let ticket = linked_after(links, release_ticket(&step.tenant, &step.url_id, next, wait));
        self.send_tickets(ticket.into_iter().collect()).await;
    }
}
