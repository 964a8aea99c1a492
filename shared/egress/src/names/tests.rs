use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::time::advance;

use super::*;
use crate::lookup::Answer;

const DEADLINE: Duration = Duration::from_secs(2);

/// Names that begin with `hang` get no answer, with `none` no address, with `broken` a shortage; `ttl-N` live for N seconds, and all
/// others for a minute.
#[derive(Default)]
struct Zone {
    asked: AtomicUsize,
    under_way: AtomicUsize,
    max_under_way: AtomicUsize,
}

/// Counts a look-up as under way until it ends or is cancelled.
struct UnderWay<'a>(&'a Zone);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Zone {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Lookup for Zone {
    async fn addresses(&self, name: &str) -> Result<Answer, LookupError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_under_way.fetch_max(now, Ordering::SeqCst);
        let _under_way = UnderWay(self);
        // Others that want the same name come in between.
        tokio::task::yield_now().await;
        let kind = name.split(['.', '-']).next().unwrap();
        match kind {
            "hang" => std::future::pending().await,
            "none" => Err(LookupError::NoAddress("no records".into())),
            "broken" => Err(LookupError::Shortage(Shortage::Files)),
            _ => {
                let ttl = name.strip_prefix("ttl-").map_or(60, |seconds| seconds.parse().unwrap());
                Ok(Answer { addresses: vec![[192, 0, 2, 7].into()], ttl: Duration::from_secs(ttl) })
            }
        }
    }
}

fn names(limits: LookupLimits) -> (Arc<Zone>, Names) {
    let zone = Arc::new(Zone::default());
    (Arc::clone(&zone), Names::new(zone, limits, DEADLINE))
}

/// Without the limit on look-ups per second, which has tests of its own.
fn unhurried() -> LookupLimits {
    LookupLimits { max_per_second: 1_000_000, ..LookupLimits::default() }
}

fn tenant(number: usize) -> Tenant {
    Tenant::from(format!("tenant-{number}").as_str())
}

const BUSY: Outcome = Err(NameError::Shortage(Shortage::Resolver));
const HANGS: Outcome = Err(NameError::Hangs(DEADLINE));

#[tokio::test(start_paused = true)]
async fn one_look_up_per_name_at_a_time() {
    let (zone, names) = names(unhurried());
    let (a, b) = (tenant(1), tenant(2));
    let all =
        join_all((0..700).map(|at| names.resolve(Some(if at % 2 == 0 { &a } else { &b }), "ok.example")))
            .await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(zone.asked(), 1);
    let all = join_all((0..700).map(|_| names.resolve(Some(&a), "hang.example"))).await;
    assert!(all.iter().all(|outcome| *outcome == HANGS), "{all:?}");
    assert_eq!(zone.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn answers_live_for_their_time_within_bounds_and_failures_for_seconds() {
    for (name, seconds) in [
        ("ttl-60", 60),
        ("ttl-0", 1),
        ("ttl-86400", 300),
        ("none.example", 3),
        ("hang.example", 3),
        // A shortage of ours says nothing about the name.
        ("broken.example", 0),
    ] {
        let (zone, names) = names(unhurried());
        let first = names.resolve(None, name).await;
        if seconds > 0 {
            advance(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
            assert_eq!(names.resolve(None, name).await, first, "{name}");
            assert_eq!(zone.asked(), 1, "{name} was asked again too early");
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(names.resolve(None, name).await, first, "{name}");
        assert_eq!(zone.asked(), 2, "{name} was not asked again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_is_cancelled_with_the_last_attempt_that_waits_for_it() {
    let (zone, names) = names(LookupLimits { max_per_tenant: 1, ..unhurried() });
    let tenant = tenant(1);
    let under_way = || zone.under_way.load(Ordering::SeqCst);
    let mut first = Box::pin(names.resolve(Some(&tenant), "hang.example"));
    let mut second = Box::pin(names.resolve(Some(&tenant), "hang.example"));
    for waiting in [&mut first, &mut second] {
        assert!(waiting.now_or_never().is_none());
    }
    drop(first);
    assert_eq!(under_way(), 1);
    assert_eq!(names.resolve(Some(&tenant), "ok.example").await, BUSY);
    drop(second);
    assert_eq!(under_way(), 0);
    assert!(names.resolve(Some(&tenant), "ok.example").await.is_ok(), "the place was not given back");
    assert!(lock(&names.state).entries.len() == 1, "the cancelled look-up is remembered");
}

#[tokio::test(start_paused = true)]
async fn hanging_names_of_one_tenant_leave_room_for_others() {
    let (zone, names) = names(unhurried());
    let (attacker, victim) = (tenant(1), tenant(2));
    let hanging: Vec<String> = (0..500).map(|at| format!("hang-{at}.example")).collect();
    let attack = join_all(hanging.iter().map(|name| names.resolve(Some(&attacker), name)));
    let healthy: Vec<String> = (0..100).map(|at| format!("ok-{at}.example")).collect();
    let victims = async {
        for name in &healthy {
            assert!(names.resolve(Some(&victim), name).await.is_ok(), "{name}");
        }
    };
    let (attacked, ()) = futures_util::future::join(attack, victims).await;
    assert_eq!(attacked.iter().filter(|outcome| **outcome == HANGS).count(), 32);
    assert_eq!(attacked.iter().filter(|outcome| **outcome == BUSY).count(), 468);
    assert!(zone.max_under_way.load(Ordering::SeqCst) <= 33);
}

#[tokio::test(start_paused = true)]
async fn look_ups_of_all_tenants_are_limited_and_a_new_tenant_still_gets_some() {
    let (zone, names) = names(unhurried());
    let tenants: Vec<Tenant> = (0..6).map(tenant).collect();
    let hanging: Vec<(&Tenant, String)> = tenants
        .iter()
        .flat_map(|tenant| (0..100).map(move |at| (tenant, format!("hang-{at}.{tenant}"))))
        .collect();
    let mut attack =
        Box::pin(join_all(hanging.iter().map(|(tenant, name)| names.resolve(Some(tenant), name))));
    assert!((&mut attack).now_or_never().is_none());
    assert!(names.resolve(Some(&tenant(99)), "ok.example").await.is_ok());
    let attacked = attack.await;
    assert!(attacked.contains(&BUSY) && attacked.contains(&HANGS));
    assert!(zone.max_under_way.load(Ordering::SeqCst) <= 256);
}

/// Starts look-ups of this many names of a tenant without waiting for them.
fn flood<'a>(
    names: &'a Names,
    tenant: &'a Tenant,
    kind: &'a str,
    count: usize,
) -> BoxFuture<'a, Vec<Outcome>> {
    let all = (0..count)
        .map(move |at| async move { names.resolve(Some(tenant), &format!("{kind}-{at}.{tenant}")).await });
    let mut all = join_all(all).boxed();
    assert!((&mut all).now_or_never().is_none());
    all
}

#[tokio::test(start_paused = true)]
async fn look_ups_per_second_are_limited_and_wait_for_their_turn() {
    let limits = LookupLimits { max_per_tenant: 1_000, max_in_all: 1_000, ..LookupLimits::default() };
    let (zone, names) = names(limits);
    let started = Instant::now();
    let greedy = tenant(1);
    let outcomes = flood(&names, &greedy, "ok", 1_000).await;
    assert!(started.elapsed() <= MAX_WAIT, "{:?}", started.elapsed());
    assert!(outcomes.iter().all(|outcome| outcome.is_ok() || *outcome == BUSY));
    let served = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(served, zone.asked());
    assert!((120..=300).contains(&served), "{served} look-ups in three windows");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_had_no_look_up_has_one_though_twenty_others_want_all() {
    for kind in ["ok", "hang"] {
        let (zone, names) = names(LookupLimits::default());
        let attackers: Vec<Tenant> = (0..20).map(tenant).collect();
        let victims: Vec<Tenant> = (100..108).map(tenant).collect();
        let attack = join_all(attackers.iter().map(|attacker| flood(&names, attacker, kind, 100)));
        let others = async {
            // The charges for look-ups that hang are in the third second.
            for second in 0..4 {
                let started = Instant::now();
                for victim in &victims {
                    let name = format!("ok-{second}.{victim}");
                    assert!(names.resolve(Some(victim), &name).await.is_ok(), "{kind}: {name}");
                }
                assert!(
                    started.elapsed() < BUDGET_WINDOW,
                    "{kind}, second {second}: {:?}",
                    started.elapsed()
                );
                advance(Duration::from_secs(1)).await;
            }
        };
        futures_util::future::join(attack, others).await;
        assert!(zone.max_under_way.load(Ordering::SeqCst) <= 256);
    }
}

#[test]
fn what_hanging_names_cost_takes_nothing_from_the_part_that_is_kept() {
    let (hangs, other) = (tenant(1), tenant(2));
    let mut sent = Usage::default();
    for _ in 0..32 {
        sent.charge(Some(&hangs), REPEATED_LOOKUPS, 100);
    }
    assert_eq!((sent.of(Some(&hangs)), sent.total), (96, 75));
    assert!(!sent.has_room(Some(&hangs), 100));
    assert!(sent.has_room(Some(&other), 100));
    sent.add(Some(&other), 25);
    sent.charge(Some(&hangs), REPEATED_LOOKUPS, 100);
    assert_eq!(sent.total, 100);
    assert!(!sent.has_room(Some(&tenant(3)), 100));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_renewed_is_used_though_it_has_expired() {
    let (zone, names) = names(LookupLimits { max_per_tenant: 1, ..unhurried() });
    let tenant = tenant(1);
    let known = names.resolve(Some(&tenant), "ttl-60").await;
    assert!(known.is_ok());
    advance(Duration::from_secs(61)).await;
    let hanging = flood(&names, &tenant, "hang", 1);
    let started = Instant::now();
    assert_eq!(names.resolve(Some(&tenant), "ttl-60").await, known);
    assert!(started.elapsed() <= BUDGET_WINDOW);
    assert_eq!(zone.asked(), 2, "only the one that hangs and the one before");
    drop(hanging);
    advance(MAX_EXPIRED).await;
    let _hanging = flood(&names, &tenant, "hang", 1);
    assert_eq!(names.resolve(Some(&tenant), "ttl-60").await, BUSY, "it expired too long ago");
}

#[tokio::test(start_paused = true)]
async fn a_limited_number_of_names_is_remembered() {
    let (zone, names) = names(LookupLimits { max_names: 10, ..unhurried() });
    for at in 0..100 {
        assert!(names.resolve(None, &format!("ok-{at}")).await.is_ok());
        assert!(lock(&names.state).entries.len() <= 10);
    }
    assert_eq!(zone.asked(), 100);
    assert!(names.resolve(None, "ok-99").await.is_ok());
    assert_eq!(zone.asked(), 100, "the latest name was forgotten");
}
