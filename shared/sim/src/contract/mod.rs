//! What every adapter promises, written against the ports, so that memory, embedded and AWS cannot drift apart.
//!
//! An adapter's test file has a function that makes a fresh harness, and the line
//! `holdfast_sim::contract_tests!(that_function);`, which makes a test of each case.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test suite: what does not hold panics")]

pub mod backlog;
pub mod bodies;
pub mod concurrency;
pub mod counting;
pub mod fairness;
pub mod lists;
pub mod queue;
mod samples;
pub mod states;
pub mod store;
pub mod sweep;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::ports::{Backlog, Clock, Inbox, NotCounted, Queue, QueueName, Received, Store};

/// How long a received message stays invisible in the queues of a harness, unless it says otherwise.
pub const VISIBILITY: Duration = Duration::from_secs(360);

/// A fresh store and fresh queues, and power over their time.
pub trait Harness: Sync {
    fn store(&self) -> Arc<dyn Store>;
    fn queue(&self) -> Arc<dyn Queue>;
    fn inbox(&self) -> Arc<dyn Inbox>;
    fn clock(&self) -> Arc<dyn Clock>;

    /// Only hosts that count what waits have one.
    fn backlog(&self) -> Arc<dyn Backlog> {
        Arc::new(NotCounted)
    }

    /// Lets real time pass, and the schedule's time with it.
    fn advance(&self, wait: Duration);

    /// How long a received message stays invisible in these queues.
    fn visibility(&self) -> Duration {
        VISIBILITY
    }

    /// How exact time is here: a grain before a moment, nothing of it must be seen yet.
    fn grain(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// How long a wait on the schedule's clock takes in real time, which is what [`Harness::advance`] lets pass.
    fn real(&self, schedule: Duration) -> Duration {
        schedule
    }

    /// Drives a case to its end, on this thread. Cases call it from several threads at once.
    fn run(&self, case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        crate::block_on(case);
    }
}

/// Everything that can be received now. A receive may answer fewer than it could, so it is repeated until it answers none.
async fn receive_all(harness: &dyn Harness, queue: QueueName) -> Vec<Received> {
    let mut all = Vec::new();
    loop {
        let received = harness.inbox().receive(queue, 10).await.unwrap();
        if received.is_empty() {
            return all;
        }
        all.extend(received);
    }
}

/// As the queue part of [`contract_tests!`](crate::contract_tests), without fairness: for queues whose fairness cannot be
/// tried on a test machine.
#[macro_export]
macro_rules! queue_contract_tests {
    ($make:ident) => {
        $crate::contract_tests!(@module $make, queue, [
            a_delayed_message_is_received_at_its_time_and_not_before,
            the_longest_delay_holds,
            a_received_message_is_invisible_and_then_received_again,
            a_deleted_message_is_gone,
            a_void_receipt_deletes_nothing,
            a_late_delete_still_counts_if_the_message_was_not_received_again,
            a_postponed_message_comes_back_after_its_wait,
            a_void_receipt_postpones_nothing,
            a_ticket_sent_while_the_same_one_is_handled_is_received_too,
            no_more_are_received_than_asked_for,
            concurrent_messages_are_each_received_once,
            queues_do_not_mix,
            every_byte_of_a_body_survives,
            every_kind_of_message_survives,
        ]);
    };
}

/// For hosts that count what waits.
#[macro_export]
macro_rules! backlog_contract_tests {
    ($make:ident) => {
        $crate::contract_tests!(@module $make, backlog, [
            deliveries_count_their_body_while_they_wait_or_are_parked,
            deliveries_of_one_event_count_its_body_each,
            a_delivery_that_moves_takes_its_bytes_along,
            tenants_wait_for_themselves,
            first_attempts_count_while_they_are_queued,
            records_count_as_stored_while_they_are_kept,
        ]);
    };
}

/// Makes a test of each case of the contract. Takes the name of a function that makes a fresh [`Harness`].
#[macro_export]
macro_rules! contract_tests {
    ($make:ident) => {
        $crate::queue_contract_tests!($make);
        $crate::contract_tests!(@module $make, fairness, [
            a_backlog_of_one_group_does_not_hold_up_another,
            a_tenant_with_many_groups_does_not_hold_up_another,
            two_tenants_with_the_same_url_are_two,
        ]);
        $crate::store_contract_tests!($make);
    };
    (@module $make:ident, $module:ident, [$($case:ident),* $(,)?]) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    let harness = super::$make();
                    $crate::contract::Harness::run(&harness, Box::pin($crate::contract::$module::$case(&harness)));
                }
            )*
        }
    };
}

/// The store part of [`contract_tests!`](crate::contract_tests).
#[macro_export]
macro_rules! store_contract_tests {
    ($make:ident) => {
        $crate::contract_tests!(@module $make, store, [
            get_answers_in_the_order_of_the_keys,
            every_kind_of_record_survives,
            absent_is_expected_in_vain_of_what_is_there,
            a_version_is_expected_in_vain_once_it_changed,
            versions_count_from_one,
            deletes_have_expectations_too,
            a_transaction_is_made_whole_or_not_at_all,
            limits_are_enforced,
            a_key_is_written_once_in_a_transaction,
            put_each_writes_over_what_is_there,
            of_two_records_with_the_same_key_the_last_one_wins,
            strange_text_survives,
            outcomes_of_an_unknown_url_are_not_counted,
            outcomes_of_another_generation_do_not_count,
        ]);
        $crate::contract_tests!(@module $make, lists, [
            parked_pointers_are_ordered_by_due_time,
            a_query_keeps_to_its_prefix,
            a_partition_of_many_comes_in_order,
            a_page_says_whether_it_is_the_last,
            a_query_misses_nothing_while_items_are_added,
            deliveries_are_listed_by_tenant_url_and_subscription,
            live_deliveries_of_a_subscription_stand_apart,
            a_list_has_bounds,
            records_of_one_delivery_are_neighbours_in_a_list,
            records_at_the_same_place_of_a_list_are_all_listed,
            a_list_misses_nothing_while_items_are_added,
            an_unknown_cursor_is_refused,
            a_page_of_large_records_is_whole,
            a_long_list_comes_in_one_page,
        ]);
        $crate::contract_tests!(@module $make, states, [
            deliveries_enter_and_leave_states,
            urls_enter_and_leave_states,
            outcomes_move_a_url_between_states,
            subscriptions_stand_in_the_list_of_their_url,
            replays_stand_in_the_list_of_their_tenant,
            events_stand_in_the_list_of_their_tenant_once_they_are_done,
            events_stand_in_the_list_of_their_subject,
            a_state_is_in_order_and_comes_in_pages,
            counting_ends_at_its_limit,
            a_query_may_start_where_nothing_is,
        ]);
        $crate::contract_tests!(@module $make, sweep, [
            the_most_overdue_come_first,
            what_was_looked_at_is_not_overdue_again,
            what_is_finished_is_never_overdue,
            every_record_is_in_one_shard,
        ]);
        $crate::contract_tests!(@module $make, bodies, [
            a_body_can_be_stored_again,
            many_bodies_are_stored_and_read_together,
            a_large_body_survives,
            a_body_can_be_removed,
            an_unknown_body_cannot_be_kept,
        ]);
        $crate::contract_tests!(@module $make, concurrency, [
            concurrent_outcomes_are_all_counted,
            a_change_of_state_is_recorded_once,
            one_of_many_claims_wins,
            one_of_many_equal_claims_wins,
        ]);
        $crate::contract_tests!(@module $make, counting, [
            counting_and_writing_do_not_undo_each_other,
            counts_made_at_once_follow_one_another,
            a_write_keeps_what_was_counted_since_the_read,
            a_change_by_hand_sets_the_counters,
            a_state_changes_in_the_middle_of_a_batch,
            random_batches_count_as_the_rule_says,
        ]);
    };
}
