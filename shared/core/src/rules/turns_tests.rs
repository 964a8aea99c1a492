use proptest::prelude::*;

use super::*;

type Names = Turns<&'static str, u64>;

fn in_line(things: &[(&'static str, u64)]) -> Names {
    let mut turns = Turns::default();
    for (tenant, one) in things {
        turns.push(tenant, *one, 1);
    }
    turns
}

fn drain(turns: &mut Names) -> Vec<u64> {
    std::iter::from_fn(|| turns.next(|_| true)).map(|(_, one)| one).collect()
}

/// `count` tenants that have more in line than is served, and have been served for a while.
fn backlogs(count: u64, cost: u64) -> Turns<u64, u64> {
    let mut turns = Turns::default();
    for tenant in 1..=count {
        for n in 0..100 {
            turns.push(&tenant, n, cost);
        }
    }
    for _ in 0..count * 20 {
        turns.next(|_| true);
    }
    turns
}

#[test]
fn tenants_take_turns_and_each_is_served_in_order() {
    let mut turns = in_line(&[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)]);
    assert_eq!(turns.in_line(&"a"), 3);
    assert_eq!(drain(&mut turns), [1, 4, 5, 2, 6, 3]);
    assert!(turns.is_empty() && turns.in_line(&"a") == 0);
}

#[test]
fn a_tenant_that_may_not_have_a_turn_keeps_its_place() {
    let mut turns = in_line(&[("a", 1), ("b", 2), ("b", 3)]);
    assert_eq!(turns.next(|tenant| *tenant != "a"), Some(("b", 2)));
    assert!(!turns.any(|tenant| *tenant == "c"));
    assert_eq!(drain(&mut turns), [1, 3]);
}

#[test]
fn a_small_request_goes_before_all_backlogs() {
    let mut turns = backlogs(300, 25);
    for n in 0..HEAD_START {
        turns.push(&0, n, 1);
        assert_eq!(turns.next(|_| true), Some((0, n)), "it has had {n} of its head start");
    }
    // Then it is in line with the others, until it has had as much as the next request of one of them costs.
    let next: Vec<u64> = std::iter::from_fn(|| {
        turns.push(&0, 0, 1);
        turns.next(|_| true).map(|(tenant, _)| tenant)
    })
    .take(26)
    .collect();
    assert!(next.iter().any(|tenant| *tenant != 0), "{next:?}");
}

#[test]
fn a_small_request_goes_before_large_ones_that_came_with_it() {
    let mut turns = Turns::default();
    for tenant in 1..=300 {
        turns.push(&tenant, 0, 25);
    }
    turns.push(&0, 0, 2);
    assert_eq!(turns.next(|_| true), Some((0, 0)));
}

#[test]
fn a_tenant_gains_nothing_by_coming_back_all_the_time() {
    let mut turns = backlogs(9, 5);
    // As soon as it has been served, it comes back; the others have a backlog all the time.
    let mut gained = 0;
    turns.push(&0, 0, 5);
    for _ in 0..1_000 {
        let (tenant, _) = turns.next(|_| true).unwrap();
        gained += if tenant == 0 { 5 } else { 0 };
        turns.push(&tenant, 0, 5);
    }
    assert!((500..=500 + HEAD_START).contains(&gained), "{gained} of 5,000");
}

#[test]
fn what_costs_too_much_for_now_keeps_its_place() {
    let mut turns = Turns::default();
    for (tenant, cost) in [("large", 20), ("small", 2), ("large", 1), ("small", 3)] {
        turns.push(&tenant, cost, cost);
    }
    assert_eq!(turns.next_cost(&"large"), Some(20));
    assert_eq!(turns.next_within(8), Some(("small", 2)));
    assert_eq!(turns.next_within(8), Some(("small", 3)));
    assert_eq!(turns.next_within(8), None);
    assert!(turns.in_line(&"large") > 0);
    assert_eq!(turns.next_within(u64::MAX), Some(("large", 20)));
    assert_eq!(turns.next_within(8), Some(("large", 1)));
}

#[test]
fn what_a_turn_cost_in_the_end_counts() {
    let mut turns = in_line(&[("a", 1), ("a", 2), ("b", 3), ("b", 4), ("b", 5), ("b", 6)]);
    assert_eq!(turns.next(|_| true), Some(("a", 1)));
    turns.charge(&"a", 2);
    assert_eq!(drain(&mut turns), [3, 4, 5, 2, 6]);
    // Also of one that has nothing in line any more.
    let mut turns = in_line(&[("a", 1), ("b", 2)]);
    drain(&mut turns);
    turns.charge(&"a", 2);
    for (tenant, one) in [("a", 3), ("b", 4), ("b", 5)] {
        turns.push(&tenant, one, 1);
    }
    assert_eq!(drain(&mut turns), [4, 5, 3]);
}

#[test]
fn a_charge_of_nothing_changes_nothing() {
    let mut turns = in_line(&[("a", 1), ("b", 2)]);
    turns.charge(&"a", 0);
    turns.charge(&"c", 0);
    assert_eq!(turns.tenants.len(), 2);
    assert_eq!(drain(&mut turns), [1, 2], "a has not lost its place");
}

#[test]
fn it_is_known_who_has_something_in_line() {
    let mut turns = in_line(&[("a", 1)]);
    assert!(!turns.is_empty() && turns.any(|tenant| *tenant == "a") && !turns.any(|tenant| *tenant == "b"));
    drain(&mut turns);
    assert!(turns.is_empty() && !turns.any(|_| true));
}

#[test]
fn a_tenant_that_might_not_have_turns_does_not_catch_up() {
    let mut turns = Turns::default();
    for n in 0..2_000 {
        turns.push(&"a", n, 1);
        turns.push(&"b", n, 1);
    }
    for _ in 0..1_000 {
        turns.next(|tenant| *tenant == "b");
    }
    let next: Vec<_> = (0..100).filter_map(|_| turns.next(|_| true)).map(|(tenant, _)| tenant).collect();
    let of_b = next.iter().filter(|tenant| **tenant == "b").count() as u64;
    assert!(of_b >= (100 - HEAD_START) / 2 - 1, "{of_b}");
}

#[test]
fn what_is_no_longer_wanted_is_not_served() {
    let mut turns = in_line(&[("a", 1), ("a", 2), ("b", 3)]);
    turns.remove(&"a", |one| *one == 1);
    assert_eq!(turns.in_line(&"a"), 1);
    turns.remove(&"b", |_| true);
    turns.remove(&"c", |_| true);
    assert!(turns.in_line(&"b") == 0);
    assert_eq!(drain(&mut turns), [2]);
}

/// A tenant that was served steadily, with no other in line, came after 32 turns of each of those that came then.
#[test]
fn a_tenant_that_was_served_alone_is_not_behind_the_backlogs_of_those_that_come_later() {
    let mut turns = Turns::default();
    for n in 0..1_000 {
        turns.push(&0, n, 1);
        turns.next(|_| true);
    }
    for tenant in 1..=1_000 {
        for n in 0..100 {
            turns.push(&tenant, n, 1);
        }
    }
    turns.push(&0, 0, 1);
    let before = std::iter::from_fn(|| turns.next(|_| true)).take_while(|(tenant, _)| *tenant != 0);
    assert_eq!(before.count(), 1_000, "one turn of each that came before it");
}

#[test]
fn tenants_with_nothing_in_line_are_forgotten() {
    let mut turns = Turns::default();
    let waits = u64::MAX;
    turns.push(&waits, (), 1);
    for tenant in 0..10_000u64 {
        turns.push(&tenant, (), 1);
        turns.next(|tenant| *tenant != waits);
    }
    assert_eq!((turns.tenants.len(), turns.idle.len(), turns.order.len()), (MAX_IDLE + 1, MAX_IDLE, 1));
    for _ in 0..100 {
        turns.push(&1, (), 1);
        turns.next(|tenant| *tenant != waits);
    }
    turns.next(|_| true);
    assert!(turns.tenants.len() <= 2, "those that others have overtaken");
}

/// Some tenants always want more, others ask for a little now and then.
#[derive(Clone, Debug)]
enum Step {
    Push(u8, u64),
    Charge(u8, u64),
    Next,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8, 1..40u64).prop_map(|(tenant, cost)| Step::Push(tenant, cost)),
        1 => (0..6u8, 1..40u64).prop_map(|(tenant, more)| Step::Charge(tenant, more)),
        4 => Just(Step::Next),
    ]
}

proptest! {
    /// Everything is served, once and in the order of its tenant, and the collections agree with each other.
    #[test]
    fn nothing_is_lost_or_repeated(steps in prop::collection::vec(step(), 0..200)) {
        let mut turns = Turns::default();
        let mut expected: HashMap<u8, VecDeque<usize>> = HashMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(tenant, cost) => {
                    turns.push(&tenant, number, cost);
                    expected.entry(tenant).or_default().push_back(number);
                }
                Step::Charge(tenant, more) => turns.charge(&tenant, more),
                Step::Next => match turns.next(|_| true) {
                    Some((tenant, one)) => {
                        prop_assert_eq!(expected.get_mut(&tenant).unwrap().pop_front(), Some(one));
                    }
                    None => prop_assert!(expected.values().all(VecDeque::is_empty)),
                },
            }
            prop_assert_eq!(turns.order.len() + turns.idle.len(), turns.tenants.len());
        }
        while let Some((tenant, one)) = turns.next(|_| true) {
            prop_assert_eq!(expected.get_mut(&tenant).unwrap().pop_front(), Some(one));
        }
        prop_assert!(expected.values().all(VecDeque::is_empty));
    }

    /// However the others ask, a tenant with a backlog gets its share, less what one head start and one request of each other takes.
    #[test]
    fn a_backlog_gets_its_share(asked in prop::collection::vec((1..5u8, 1..40u64), 200..400)) {
        let mut turns = Turns::default();
        let mut got = HashMap::<u8, u64>::new();
        for _ in 0..4_000 {
            turns.push(&0, 10, 10);
        }
        for (tenant, cost) in asked {
            turns.push(&tenant, cost, cost);
            for _ in 0..2 {
                let (tenant, cost) = turns.next(|_| true).unwrap();
                *got.entry(tenant).or_default() += cost;
            }
        }
        let mine = got.remove(&0).unwrap_or(0);
        for (tenant, others) in got {
            prop_assert!(mine + HEAD_START + 80 >= others, "{} got {}, the backlog {}", tenant, others, mine);
        }
    }
}
