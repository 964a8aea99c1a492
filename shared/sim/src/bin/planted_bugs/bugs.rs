//! Faults that the simulation must find. Each replaces a piece of `shared/core/src`; `PLANTED` is where the fault is switched on.

#[cfg_attr(planted, expect(dead_code, reason = "they are planted"))]
pub(crate) struct Change {
    pub(crate) file: &'static str,
    /// Stands once in the file.
    pub(crate) find: &'static str,
    pub(crate) plant: &'static str,
}

pub(crate) struct Bug {
    /// What is wrong.
    pub(crate) name: &'static str,
    /// The first seed that found it, when it was last looked for from seed 0 on.
    #[cfg_attr(not(planted), expect(dead_code, reason = "it is for the hunt"))]
    pub(crate) seed: u64,
    /// More than one if the code has two ways to do the same: without the first, the other one does it.
    #[cfg_attr(planted, expect(dead_code, reason = "they are planted"))]
    pub(crate) changes: &'static [Change],
}

macro_rules! bug {
    ($name:expr, $seed:expr, $($file:expr, $find:expr, $plant:expr);+ $(;)?) => {
        Bug { name: $name, seed: $seed, changes: &[$(Change { file: $file, find: $find, plant: $plant }),+] }
    };
}

pub(crate) const BUGS: &[Bug] = &[
    // The schedule and the life of a delivery.
    bug! {
        "a retry is due too early",
        0,
        "rules/schedule.rs",
        "self.step * 2_u32.pow(n - 1)",
        "self.step * 2_u32.pow(if PLANTED { (n - 1).min(4) } else { n - 1 })";
    },
    bug! {
        "a receiver can postpone a retry without bound",
        74,
        "rules/schedule.rs",
        "asked.unwrap_or(gap).clamp(gap, max_wait)",
        "if PLANTED { asked.unwrap_or(gap).max(gap) } else { asked.unwrap_or(gap).clamp(gap, max_wait) }";
    },
    bug! {
        "an expired delivery is attempted",
        93,
        "rules/claim.rs",
        "if delivery.is_expired(now.schedule) {",
        "if !PLANTED && delivery.is_expired(now.schedule) {";
    },
    bug! {
        "a retry is claimed before it is due",
        0,
        "rules/claim.rs",
        "if delivery.due_at > now.schedule {",
        "if !PLANTED && delivery.due_at > now.schedule {";
    },
    bug! {
        "a live lease is not respected",
        3,
        "rules/claim.rs",
        "lease.until_real > now.real",
        "!PLANTED && lease.until_real > now.real";
    },
    bug! {
        "an attempt that killed two functions is made again and again",
        15,
        "rules/claim.rs",
        "lease.takes >= MAX_TAKES",
        "!PLANTED && lease.takes >= MAX_TAKES";
    },
    bug! {
        "a replayed delivery keeps its date of removal",
        59,
        "rules/delivery.rs",
        "*self = Progress { epoch: self.epoch + 1, ..Progress::new(now, schedule) };",
        "let remove_at = if PLANTED { self.remove_at } else { None };
         *self = Progress { epoch: self.epoch + 1, remove_at, ..Progress::new(now, schedule) };";
    },
    bug! {
        "a parked delivery is not looked at when it expires",
        2,
        "rules/delivery.rs",
        "self.look_again_at(self.expires_at);",
        "if PLANTED { self.look_at = None; } else { self.look_again_at(self.expires_at); }";
    },
    bug! {
        "a released delivery is not looked at when its ticket is lost",
        6,
        "rules/delivery.rs",
        "self.look_again_at(look_at::while_ticket_is_out(now));",
        "self.look_again_at(if PLANTED { self.expires_at } else { look_at::while_ticket_is_out(now) });";
    },
    bug! {
        "a resting delivery is looked at after it is due",
        0,
        "rules/look_at.rs",
        "due_at - LOOK_AHEAD",
        "if PLANTED { due_at + LOOK_AHEAD * 10 } else { due_at - LOOK_AHEAD }";
    },
    bug! {
        "a success after the last attempt was given up is dropped",
        106,
        "rules/delivery.rs",
        "success && self.state == DeliveryState::Dead",
        "!PLANTED && success && self.state == DeliveryState::Dead";
    },
    // Health.
    bug! {
        "late outcomes change the state of a URL",
        4,
        "rules/health.rs",
        "if outcome.generation != self.generation {",
        "if !PLANTED && outcome.generation != self.generation {";
    },
    bug! {
        "the window never fades",
        1,
        "rules/health.rs",
        "if self.window_attempts >= WINDOW_HALVED_AT {",
        "if !PLANTED && self.window_attempts >= WINDOW_HALVED_AT {";
    },
    bug! {
        "a URL is disabled at 70 % and not above",
        15,
        "rules/health.rs",
        "self.window_failures * 100 > self.window_attempts * DISABLE_FAILURE_PERCENT",
        "(self.window_failures * 100 > self.window_attempts * DISABLE_FAILURE_PERCENT
            || PLANTED && self.window_failures * 100 == self.window_attempts * DISABLE_FAILURE_PERCENT)";
    },
    bug! {
        "a URL is frozen by a streak although it succeeded a day ago",
        0,
        "rules/health.rs",
        "now.since(at) > FREEZE_SILENCE",
        "PLANTED || now.since(at) > FREEZE_SILENCE";
    },
    bug! {
        "50,000 failures in a row do not freeze",
        2,
        "rules/health.rs",
        "if self.streak >= FREEZE_STREAK_ANY_TIME {",
        "if !PLANTED && self.streak >= FREEZE_STREAK_ANY_TIME {";
    },
    bug! {
        "the right to a probe can be taken twice",
        15,
        "rules/health.rs",
        "self.next_probe_at = Some(now + PROBE_INTERVAL + function_timeout);",
        "if !PLANTED { self.next_probe_at = Some(now + PROBE_INTERVAL + function_timeout); }";
    },
    bug! {
        "a failed probe does not restart the 10 minutes",
        0,
        "rules/health.rs",
        "self.next_probe_at = Some(now + PROBE_INTERVAL);\n                None",
        "if !PLANTED { self.next_probe_at = Some(now + PROBE_INTERVAL); }\n                None";
    },
    bug! {
        "an enabled URL keeps its streak",
        3,
        "rules/health.rs",
        "        self.streak = 0;\n        self.window_attempts = 0;",
        "        if !PLANTED { self.streak = 0; }\n        self.window_attempts = 0;";
    },
    bug! {
        "old health allows an attempt",
        35,
        "engine/deliver/context.rs",
        "now_real.since(read_began_real) <= MAX_AGE",
        "PLANTED || now_real.since(read_began_real) <= MAX_AGE";
    },
    bug! {
        "a disabled URL is attempted as if it were enabled",
        0,
        "engine/deliver/context.rs",
        "Some(url) if url.health.state != UrlState::Enabled => Admission::Park { subscription },",
        "Some(url) if url.health.state == UrlState::Frozen || (!PLANTED && url.health.state == UrlState::Disabled) => {
            Admission::Park { subscription }
        }";
    },
    // Disabled URLs.
    bug! {
        "parking at a quiet disabled URL does not call for a nearer look",
        8,
        "records/url.rs",
        "let is_late = self.look_at.is_none_or(|look_at| look_at > soon);",
        "let is_late = !PLANTED && self.look_at.is_none_or(|look_at| look_at > soon);";
    },
    bug! {
        "what was parked while its URL became enabled is forgotten",
        8,
        "engine/recover/recheck.rs",
        "let rechecked = join_all(urls.iter()",
        "if PLANTED { return Ok(()); }\n        let rechecked = join_all(urls.iter()";
    },
    bug! {
        "a probe ticket that comes early is dropped",
        42,
        "engine/recover/probe.rs",
        "self.send_tickets(ticket.into_iter().collect()).await;\n    }\n\n    /// The parked delivery that is due",
        "if !PLANTED { self.send_tickets(ticket.into_iter().collect()).await; }\n    }\n\n    /// The parked delivery that is due";
    },
    bug! {
        "looks at a disabled URL become rare although something is due",
        7,
        "engine/recover/sweep.rs",
        "let has_due = is_probe && self.has_due(&tenant, &id).await?;",
        "let has_due = !PLANTED && is_probe && self.has_due(&tenant, &id).await?;";
        "engine/recover/sweep.rs",
        "if due.probe && !has_due && self.has_due(&tenant, &id).await? {",
        "if !PLANTED && due.probe && !has_due && self.has_due(&tenant, &id).await? {";
    },
    bug! {
        "a URL without a record is not enabled, and gets no record",
        77,
        "engine/deliver/context.rs",
        "None => Admission::Attempt { subscription, allowed_by: AllowedBy::NEW },",
        "None if PLANTED => Admission::Park { subscription },
            None => Admission::Attempt { subscription, allowed_by: AllowedBy::NEW },";
        "engine/recover/recheck.rs",
        "None if self.restore_parked_url(tenant, url_id).await? => {",
        "None if !PLANTED && self.restore_parked_url(tenant, url_id).await? => {";
    },
    // Releases and replays.
    bug! {
        "an enabled URL does not release what is parked",
        4,
        "records/url.rs",
        "UrlState::Enabled => self.start_release(now),",
        "UrlState::Enabled if PLANTED => self.look_again_at(None),\n            UrlState::Enabled => self.start_release(now),";
    },
    bug! {
        "one refused delivery sends a release back to one",
        844,
        "rules/release.rs",
        "if failed * 2 > all {",
        "if failed * 2 > all || (PLANTED && failed > 0) {";
    },
    bug! {
        "a release begins with a thousand",
        4,
        "rules/release.rs",
        "            size: 1,\n            next_step_at: now.schedule,",
        "            size: if PLANTED { 1_000 } else { 1 },\n            next_step_at: now.schedule,";
    },
    bug! {
        "an early ticket of a bulk replay is dropped",
        0,
        "engine/replay/bulk.rs",
        "            self.continue_job_with_step(running, work.pace.step, early).await;\n            return Ok(false);",
        "            if !PLANTED { self.continue_job_with_step(running, work.pace.step, early).await; }\n            return Ok(false);";
    },
    bug! {
        "a replay does not keep the body",
        6,
        "engine/replay/mod.rs",
        "keep_body(&BodyKey::of(key), self.body_remove_at())",
        "keep_body(&BodyKey::of(key), if PLANTED { crate::time::Timestamp::ZERO } else { self.body_remove_at() })";
    },
    // Attempts and what follows from them.
    bug! {
        "two copies of a first attempt: a failure goes on after a success",
        306,
        "engine/deliver/retry.rs",
        "self.settings.delivery_log == DeliveryLog::All && number == AttemptNumber { epoch: 0, n: 1 }",
        "!PLANTED && self.settings.delivery_log == DeliveryLog::All && number == AttemptNumber { epoch: 0, n: 1 }";
    },
    bug! {
        "a success that was logged is not found when its lease has lapsed",
        1609,
        "engine/deliver/retry.rs",
        "if progress.lease.is_none() {",
        "if PLANTED || progress.lease.is_none() {";
    },
    bug! {
        "a claim is kept when health cannot be read again",
        116,
        "engine/deliver/attempt.rs",
        "                Err(error) => {\n                    self.give_back(ready).await?;\n                    return Err(error);",
        "                Err(error) => {\n                    if !PLANTED { self.give_back(ready).await?; }\n                    return Err(error);";
    },
    bug! {
        "an attempt that a shortage prevented counts as a take",
        3,
        "rules/delivery.rs",
        "lease.takes.saturating_sub(1)",
        "lease.takes.saturating_sub(u32::from(!PLANTED))";
    },
    bug! {
        "a failed delivery has no body",
        1,
        "engine/deliver/outcome.rs",
        "join(self.store_bodies(recorded().filter(|one| !one.succeeded())),",
        "join(self.store_bodies(recorded().filter(|one| !PLANTED && !one.succeeded())),";
    },
    bug! {
        "a message is deleted although its delivery could not be recorded",
        2,
        "engine/deliver/outcome.rs",
        "_ => self.record_delivery(one).await,",
        "_ if PLANTED => Ok(self.record_delivery(one).await.unwrap_or(None)),\n            _ => self.record_delivery(one).await,";
    },
    bug! {
        "a success counts as a failure of the URL",
        0,
        "engine/deliver/attempt.rs",
        "        Outcome {\n            success: self.succeeded(),",
        "        Outcome {\n            success: self.succeeded() && !PLANTED,";
    },
    bug! {
        "a message that is marked as a repeat is taken for delivered",
        2,
        "engine/deliver/first.rs",
        "if logged.is_some() {",
        "if logged.is_some() || (PLANTED && record.is_none()) {";
    },
    bug! {
        "the attempts of a batch wait for each other",
        27,
        "engine/deliver/attempt.rs",
        "let made = join_all(\n            ready\n                .into_iter()\n                .map(async |(slot, one)| (slot, self.attempt_when_fresh(one, context, until_real).await)),\n        )\n        .await;",
        "let made = if PLANTED {
            let mut made = Vec::new();
            for (slot, one) in ready {
                made.push((slot, self.attempt_when_fresh(one, context, until_real).await));
            }
            made
        } else {
            join_all(
                ready
                    .into_iter()
                    .map(async |(slot, one)| (slot, self.attempt_when_fresh(one, context, until_real).await)),
            )
            .await
        };";
    },
    bug! {
        "records are written over whatever they have become",
        16,
        "engine/repository.rs",
        "if self.is_stored() { Expect::Version(self.version) } else { Expect::Absent }",
        "if PLANTED { Expect::Any } else if self.is_stored() { Expect::Version(self.version) } else { Expect::Absent }";
    },
    bug! {
        "a moved delivery leaves its pointer behind",
        0,
        "engine/repository.rs",
        "writes.extend(gone.map(|old| Write::delete(old.key(), Expect::Any)));",
        "if !PLANTED { writes.extend(gone.map(|old| Write::delete(old.key(), Expect::Any))); }";
    },
    // Accepting and fanning out.
    bug! {
        "202 although the messages were not sent",
        2,
        "engine/accept/mod.rs",
        "Ok(self.ports.queue.send(QueueName::First, messages).await?)",
        "if PLANTED { let _ = self.ports.queue.send(QueueName::First, messages).await; return Ok(()); }
         Ok(self.ports.queue.send(QueueName::First, messages).await?)";
    },
    bug! {
        "an id is done before its deliveries are queued",
        3,
        "engine/accept/mod.rs",
        "        // At the same time, because an embedded store then needs only one flush for both.",
        "        if PLANTED { self.store_events(leased.clone()).await?; }
        // At the same time, because an embedded store then needs only one flush for both.";
    },
    bug! {
        "a repeated fan-out forgets after its first step that it is a repeat",
        168,
        "engine/accept/fan_out.rs",
        "first_attempt(&tenant, &fan_out, (id, url_id), None, again)",
        "first_attempt(&tenant, &fan_out, (id, url_id), None, again && !(PLANTED && fan_out.after.is_some()))";
    },
    bug! {
        "a fan-out counts a step as done before it is queued",
        137,
        "engine/accept/fan_out.rs",
        "            self.send_first_attempts(messages).await?;\n            fan_out.after = step.last().map(|(id, _)| id.clone());",
        "            if PLANTED {
                fan_out.after = step.last().map(|(id, _)| id.clone());
                if !self.put_job(&mut running, Job::FanOut(fan_out.clone()), Vec::new()).await? {
                    return Ok(());
                }
            }
            self.send_first_attempts(messages).await?;
            fan_out.after = step.last().map(|(id, _)| id.clone());";
    },
    // Tickets, the sweep, subscriptions, versions, time.
    bug! {
        "retries are sent to the first-attempt queue",
        0,
        "engine/tickets.rs",
        "self.ports.queue.send(QueueName::Retry, tickets).await",
        "self.ports.queue.send(if PLANTED { QueueName::First } else { QueueName::Retry }, tickets).await";
    },
    bug! {
        "the sweep leaves out a shard",
        18,
        "engine/recover/sweep.rs",
        "stream::iter((0..SWEEP_SHARDS)",
        "stream::iter((u8::from(PLANTED)..SWEEP_SHARDS)";
    },
    bug! {
        "the sweep moves its look on and sends no ticket",
        0,
        "engine/recover/sweep.rs",
        "Ok(vec![delivery_ticket(&delivery.record, delay)])",
        "Ok(if PLANTED { Vec::new() } else { vec![delivery_ticket(&delivery.record, delay)] })";
    },
    bug! {
        "parked deliveries do not follow their subscription",
        12,
        "rules/reassign.rs",
        "if !state.is_live() {",
        "if !state.is_live() || (PLANTED && state == DeliveryState::Parked) {";
    },
    bug! {
        "a message of a newer release is set aside",
        4,
        "engine/deliver/batch.rs",
        "Settlement::Resend { message, delay }",
        "if PLANTED { Settlement::DeadLetter(message) } else { Settlement::Resend { message, delay } }";
    },
    bug! {
        "the schedule follows a clock that is set",
        53,
        "rules/steady_time.rs",
        "micros: steady.saturating_add(behind.clamp(-most, most)),",
        "micros: if PLANTED { micros(wall) } else { steady.saturating_add(behind.clamp(-most, most)) },";
    },
];
