//! Effects that fail, and stores that do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel_ledger::{Error, Found, Intent, Memory, StoreErrorKind, Verdict};

use super::{HOUR, Moody, builder, call, charge, moody, refused, time_out};

fn applied() -> Verdict<String> {
    Verdict::Applied("ch_1".to_owned())
}

fn replayed() -> Verdict<String> {
    Verdict::Replayed("ch_1".to_owned())
}

#[tokio::test]
async fn an_intent_that_may_have_happened_is_recovered_with_the_same_key() {
    let ledger = builder(Memory::new()).build().unwrap();
    let (mut keys, call) = (Vec::new(), call());
    let failed = ledger.intent(&call).run(|intent| {
        keys.push((intent.downstream_key().to_owned(), intent.recovering().is_some(), intent.token()));
        time_out(intent)
    });
    assert!(matches!(failed.await, Err(Error::Effect(error)) if error == "timed out"));
    let verdict = ledger.intent(&call).run(|intent| {
        keys.push((intent.downstream_key().to_owned(), intent.recovering().is_some(), intent.token()));
        charge(intent)
    });
    assert_eq!(verdict.await.unwrap(), applied());
    let [(first, false, 1), (second, true, 2)] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!(first, second);
}

#[tokio::test]
async fn an_intent_that_did_not_happen_is_forgotten() {
    let ledger = builder(Memory::new()).build().unwrap();
    assert!(ledger.intent(&call()).run(refused).await.is_err());
    let again = |intent: Intent| {
        assert_eq!(intent.recovering(), None);
        charge(intent)
    };
    assert_eq!(ledger.intent(&call()).run(again).await.unwrap(), applied());
}

#[tokio::test]
async fn what_did_not_happen_now_may_have_happened_before() {
    let ledger = builder(Memory::new()).build().unwrap();
    assert!(ledger.intent(&call()).run(time_out).await.is_err());
    assert!(ledger.intent(&call()).run(refused).await.is_err());
    let again = |intent: Intent| {
        assert!(intent.recovering().is_some(), "the first attempt is still unresolved");
        charge(intent)
    };
    assert_eq!(ledger.intent(&call()).run(again).await.unwrap(), applied());
}

#[tokio::test]
async fn the_service_is_asked_before_anything_is_sent_again() {
    let ledger = builder(Memory::new()).build().unwrap();
    let found = |_| async { Ok(Found::Applied("ch_1".to_owned())) };
    // On the first attempt there is nothing to ask about.
    let asked = |_| async { Err("it was asked".to_owned()) };
    let first = ledger.intent(&call()).reconcile(asked).run(time_out).await;
    assert!(matches!(first, Err(Error::Effect(error)) if error == "timed out"));
    assert_eq!(ledger.intent(&call()).reconcile(found).run(refused).await.unwrap(), replayed());
}

#[tokio::test]
async fn a_service_that_cannot_say_leaves_an_unknown_outcome() {
    let ledger = builder(Memory::new()).build().unwrap();
    assert!(ledger.intent(&call()).run(time_out).await.is_err());
    let unknown = |_| async { Ok(Found::<String>::Unknown) };
    let verdict = ledger.intent(&call()).reconcile(unknown).run(charge).await.unwrap();
    assert!(matches!(verdict, Verdict::OutcomeUnknown { .. }));
    // The hook can be asked again.
    let found = |_| async { Ok(Found::Applied("ch_1".to_owned())) };
    assert_eq!(ledger.intent(&call()).reconcile(found).run(charge).await.unwrap(), replayed());
}

#[tokio::test]
async fn a_service_that_could_not_be_asked_is_asked_again() {
    let ledger = builder(Memory::new()).build().unwrap();
    assert!(ledger.intent(&call()).run(time_out).await.is_err());
    let unreachable = |_| async { Err("no route".to_owned()) };
    let failed = ledger.intent(&call()).reconcile(unreachable).run(charge).await;
    assert!(matches!(failed, Err(Error::Effect(error)) if error == "no route"));
    let clean = |_| async { Ok(Found::NotApplied) };
    assert_eq!(ledger.intent(&call()).reconcile(clean).run(charge).await.unwrap(), applied());
}

#[tokio::test]
async fn past_the_window_of_the_provider_an_intent_is_for_a_person() {
    let memory = Memory::new();
    let ledger = builder(memory.clone()).provider_window(24 * HOUR).build().unwrap();
    assert!(ledger.intent(&call()).run(time_out).await.is_err());
    memory.advance(24 * HOUR);
    let verdict = ledger.intent(&call()).run(charge).await.unwrap();
    assert!(matches!(verdict, Verdict::OutcomeUnknown { .. }));
    // Whoever can be asked need not remember.
    let clean = |_| async { Ok(Found::NotApplied) };
    assert_eq!(ledger.intent(&call()).reconcile(clean).run(charge).await.unwrap(), applied());
}

#[tokio::test]
async fn what_a_person_found_out_is_written_down() {
    let ledger = builder(Memory::new()).build().unwrap();
    assert!(ledger.at_most_once(&call()).run(time_out).await.is_err());
    assert_eq!(ledger.resolve::<String>(&call(), Found::NotApplied).await.unwrap(), None);
    assert_eq!(ledger.at_most_once(&call()).run(charge).await.unwrap(), applied());
    let late = ledger.resolve(&call(), Found::Applied("another".to_owned())).await.unwrap();
    assert_eq!(late, Some(replayed()), "what is recorded is not overwritten");
}

#[tokio::test]
async fn at_most_once_is_once_unless_it_certainly_did_not_happen() {
    let ledger = builder(Memory::new()).build().unwrap();
    assert!(ledger.at_most_once(&call()).run(refused).await.is_err());
    assert!(ledger.at_most_once(&call()).run(time_out).await.is_err());
    let verdict = ledger.at_most_once(&call()).run(charge).await.unwrap();
    assert!(matches!(verdict, Verdict::OutcomeUnknown { .. }));
}

#[tokio::test]
async fn a_store_that_fails_means_that_nothing_is_done() {
    let (store, ledger) = moody();
    store.fail_claims(1);
    let effects = AtomicU32::new(0);
    let effect = |intent| {
        effects.fetch_add(1, Ordering::SeqCst);
        charge(intent)
    };
    let refused = ledger.intent(&call()).run(effect).await.unwrap_err();
    assert!(matches!(&refused, Error::Store(error) if error.kind() == StoreErrorKind::Unavailable));
    assert!(refused.retryable());
    assert_eq!(effects.load(Ordering::SeqCst), 0);
    assert_eq!(ledger.intent(&call()).run(effect).await.unwrap(), applied());
}

#[tokio::test]
async fn a_result_that_was_not_recorded_at_first_is_tried_again_and_the_effect_is_not() {
    let (store, ledger) = moody();
    store.fail_completions(2);
    assert_eq!(ledger.intent(&call()).run(charge).await.unwrap(), applied());
    assert_eq!(ledger.intent(&call()).run(time_out).await.unwrap(), replayed());
}

#[tokio::test]
async fn a_recording_whose_answer_was_lost_is_found_recorded() {
    let (store, ledger) = moody();
    store.lose_answers(1);
    assert_eq!(ledger.intent(&call()).run(charge).await.unwrap(), applied());
}

#[tokio::test]
async fn an_effect_that_cannot_be_recorded_is_no_failed_effect() {
    let store = Moody::default();
    let ledger = builder(store.clone()).lease(Duration::from_millis(60)).build().unwrap();
    store.fail_completions(1000);
    let error = ledger.intent(&call()).run(charge).await.unwrap_err();
    assert!(matches!(error, Error::Unrecorded(_)), "{error}");
    store.fail_completions(0);
    store.memory.advance(HOUR);
    let recovered = |intent: Intent| {
        assert!(intent.recovering().is_some());
        charge(intent)
    };
    assert_eq!(ledger.intent(&call()).run(recovered).await.unwrap(), applied());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_not_waited_for() {
    let (store, _) = moody();
    store.be_silent();
    let ledger = builder(store).patience(Duration::from_secs(3)).build().unwrap();
    let error = ledger.intent(&call()).run(charge).await.unwrap_err();
    assert!(error.to_string().contains("no answer within 3s"), "{error}");
}

#[tokio::test]
async fn a_result_of_another_type_is_an_error_and_no_second_effect() {
    let ledger = builder(Memory::new()).build().unwrap();
    assert_eq!(ledger.intent(&call()).run(charge).await.unwrap(), applied());
    let number = |_| async { Ok::<u64, semel_ledger::Failure<String>>(2) };
    let error = ledger.intent(&call()).run(number).await.unwrap_err();
    assert!(matches!(error, Error::Result { action: "read", .. }), "{error}");
}
