//! The suite can fail: for every law there is a store that breaks it, and a case that says so.
#![cfg(feature = "conformance")]

use std::collections::BTreeSet;

use broken::after_crash::*;
use broken::by_hand::*;
use broken::on_the_way_in::*;
use broken::on_the_way_out::*;
use broken::{BrokenHarness, Flaw};
use semel_store::conformance::{all_cases, run_case};

mod broken;

/// No flaw at all: what the others are compared with.
#[derive(Default)]
struct Sound;

impl Flaw for Sound {}

/// A test for each flaw: the named case must find it.
macro_rules! catches {
    ($($test:ident: $flaw:ty => $subject:ident::$case:ident,)*) => {
        $(
            #[test]
            fn $test() {
                let case = concat!(stringify!($subject), "::", stringify!($case));
                let verdict = run_case(case, BrokenHarness::<$flaw>::new());
                assert!(verdict.is_err(), "{case} passes though {} is broken", stringify!($flaw));
            }
        )*

        const SUBJECTS: &[&str] = &[$(stringify!($subject)),*];
    };
}

catches! {
    a_store_without_dedup: NoDedup => keys::the_second_publish_gets_the_first_job,
    a_store_without_dedup_in_a_batch: NoDedupWithinABatch => keys::a_duplicate_in_the_same_batch_gets_the_first_job,
    a_store_whose_keys_hold_too_long: LateExpiry => window_and_expiry::a_completed_jobs_key_holds_for_its_window,
    a_store_whose_keys_hold_too_short: EarlyExpiry => window_and_expiry::a_completed_jobs_key_holds_for_its_window,
    a_store_that_takes_any_payload: NoCollisions => collision::another_payload_is_refused_where_the_queue_says_so,
    a_store_without_fencing: NoFencing => fencing::a_stale_token_does_nothing_to_anothers_delivery,
    a_store_whose_tokens_start_over: TokensStartOver => fencing::tokens_increase_across_crashes,
    a_store_that_hides_repeats: RepeatsNotTold => fencing::a_repeated_settle_is_recognised,
    a_store_that_counts_deferrals: DeferBurnsAnAttempt => defer_and_hold::a_deferred_job_burns_no_attempt,
    a_store_that_does_not_count_failures: FailuresAreFree => retry::the_cap_ends_a_job,
    a_store_that_shows_no_attempts: AlwaysTheFirstAttempt => retry::attempts_never_pass_the_cap_however_they_end,
    a_store_that_never_holds: NoHold => defer_and_hold::backpressure_holds_the_queue_until_its_time,
    a_store_that_delivers_early: EarlyDelivery => schedule::a_delayed_job_goes_out_at_its_time_and_not_before,
    a_store_that_rescues_early: EarlyRescue => lease::a_rescue_takes_a_lease_at_its_deadline_and_not_before,
    a_store_that_prunes_early: EarlyPrune => prune::a_completed_job_is_dropped_after_its_retention,
    a_store_without_order: OrderReversed => lease::jobs_go_out_in_publish_order,
    a_store_without_priority: NoPriority => priority::priority_beats_age,
    a_store_without_groups: NoGroups => groups_and_order::nothing_overtakes_a_job_that_is_tried_again,
    a_store_without_a_breaker: NoGate => gate::a_breaker_opens_after_failures_in_a_row,
    a_store_without_a_rate: NoGate => gate::a_rate_lets_out_a_burst_and_then_one_by_one,
    a_store_without_a_batch_limit: NoBatchLimit => batches::a_batch_too_large_changes_nothing,
    a_store_that_stops_at_a_refusal: RefusalEndsTheBatch =>
        batches::a_refused_command_does_not_keep_the_others_from_being_done,
    a_store_that_applies_backwards: BatchBackwards => batches::a_queue_can_be_used_in_the_batch_that_makes_it,
    a_store_that_only_promises_replays: NoReplay => dead_letters_and_replay::a_replay_is_a_new_life_of_the_same_job,
    a_store_whose_cursors_skip: CursorSkips => list_and_cursors::a_walk_meets_every_job_once,
    a_store_whose_cursors_repeat: CursorRepeats => list_and_cursors::a_walk_goes_on_while_jobs_are_published,
    a_store_that_miscounts: MiscountedByOne => stats::every_state_is_counted,
    a_store_that_miscounts_fails_everywhere: MiscountedByOne => settle::an_ack_completes_the_job,
    a_store_that_wakes_late: TimesNamedLate => lease::next_due_is_never_late,
    a_store_that_never_closes: NeverCloses => crash_reopen::a_closed_store_says_so_and_has_kept_everything,
    a_store_that_loses_a_settle: ForgetsTheLastSettle => crash_reopen::an_ack_is_never_forgotten,
    a_store_that_loses_a_settle_fails_everywhere: ForgetsTheLastSettle => settle::a_received_job_is_settled_later,
    a_store_that_loses_a_publish: ForgetsTheLastPublish => publish::a_job_is_kept_as_it_was_sent,
    a_store_that_loses_a_cancellation: ForgetsWhatPeopleDid => crash_reopen::a_cancelled_or_buried_job_stays_so,
    a_store_that_loses_a_released_key: ForgetsWhatPeopleDid => crash_reopen::a_released_key_stays_released,
    a_store_that_loses_a_rescue: ForgetsRescues => crash_reopen::the_answer_to_a_rescue_is_durable,
    a_store_that_brings_back_the_pruned: ForgetsPrunes => prune::what_is_dropped_stays_dropped,
    a_store_that_loses_schedules: ForgetsSchedules => schedule::schedules_are_kept_and_listed_by_name,
    a_store_that_resumes_by_itself: CrashResumes => records::a_paused_queue_delivers_nothing_until_it_is_resumed,
    a_store_that_buries_by_cancelling: BuriesByCancelling => bury::a_waiting_job_can_be_buried,
    a_store_that_purges_keys: PurgesKeys => purge::a_purged_dead_letter_leaves_its_key,
    a_store_without_archives: NoArchive => purge::an_archive_keeps_dead_letters_until_they_are_purged,
    a_store_whose_changes_drop_secrets: ChangesDropSecrets => secrets::a_changed_queue_keeps_its_secrets,
    a_store_that_lets_all_move_a_schedule: NobodyIsOutrun => schedule::of_many_who_move_a_schedule_on_one_does,
    a_store_that_loses_replay_tasks: ForgetsReplayTasks => replays::replays_are_kept_and_listed_by_id,
    a_store_whose_crash_burns_attempts: CrashBurnsAttempts => crash_reopen::a_job_in_flight_goes_out_again,
}

#[test]
fn the_same_store_without_a_flaw_passes_every_case() {
    let failure = |(case, _): (&'static str, _)| {
        run_case(case, BrokenHarness::<Sound>::new()).err().map(|why| (case, why))
    };
    let failures: Vec<_> = all_cases().into_iter().filter_map(failure).collect();
    assert_eq!(failures, [], "a flaw must be the only difference");
}

#[test]
fn every_subject_of_the_suite_has_caught_something() {
    let subjects: BTreeSet<_> = all_cases().iter().filter_map(|(name, _)| name.split("::").next()).collect();
    assert_eq!(SUBJECTS.iter().copied().collect::<BTreeSet<_>>(), subjects);
}

#[test]
fn no_case_is_listed_twice() {
    let names: BTreeSet<_> = all_cases().iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), all_cases().len());
}

#[test]
#[should_panic(expected = "there is no case")]
fn a_case_that_does_not_exist_is_no_pass() {
    semel_store::conformance::run("publish::nothing", BrokenHarness::<Sound>::new());
}
