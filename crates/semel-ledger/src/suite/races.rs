//! What only shows when many ask at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::store::{Claim, Claimed, Expired, Hold, Holder, Owner, Release, Store};
use crate::{Consumer, Key, Scope, Step};

/// More than there are connections or threads anywhere, so that some wait.
const CROWD: usize = 24;

const LEASE: Duration = Duration::from_secs(600);

const TTL: Duration = Duration::from_secs(3600);

pub(super) async fn check(store: &Arc<dyn Store>) {
    one_of_many_claims_is_granted(store).await;
    one_of_many_takes_over(store).await;
    a_claim_and_its_loss_do_not_both_win(store).await;
    every_mark_has_one_first(store).await;
    the_schema_can_be_made_by_many(store).await;
}

fn scope(key: &str) -> Scope {
    let consumer = Consumer::new("races").expect("it is a name");
    // A run of its own each time, also on a store that outlives it.
    let key = Key::new(format!("{key}-{}", Owner::random())).expect("it is a key");
    Scope { consumer, key, step: Step::whole() }
}

fn claim(scope: &Scope, lease: Duration) -> Claim {
    Claim {
        scope: scope.clone(),
        owner: Owner::random(),
        fence: None,
        fingerprint: None,
        lease,
        expired: Expired::TakeOver { window: None },
        ttl: TTL,
    }
}

/// Claims by a crowd at once: who was granted it, and how many were told that somebody is at it.
async fn crowd(store: &Arc<dyn Store>, scope: &Scope) -> (Vec<Holder>, usize) {
    let claims = (0..CROWD).map(|_| {
        let (store, claim) = (store.clone(), claim(scope, LEASE));
        tokio::spawn(async move { (store.claim(&claim).await.expect("a claim is answered"), claim) })
    });
    let answers: Vec<_> =
        join_all(claims).await.into_iter().map(|done| done.expect("no claim panics")).collect();
    let busy = answers.iter().filter(|(answer, _)| matches!(answer, Claimed::Busy { .. })).count();
    let granted = answers.into_iter().filter_map(|(answer, claim)| match answer {
        Claimed::Granted(grant) => {
            Some(Holder { scope: claim.scope, owner: claim.owner, token: grant.token })
        }
        _ => None,
    });
    (granted.collect(), busy)
}

async fn one_of_many_claims_is_granted(store: &Arc<dyn Store>) {
    let scope = scope("crowd");
    let (granted, busy) = crowd(store, &scope).await;
    assert_eq!((granted.len(), busy), (1, CROWD - 1), "one of {CROWD} concurrent claims is granted");
    let done = store.complete(&granted[0], "\"done\"", TTL).await.expect("it is answered");
    assert_eq!(done, Hold::Held(()), "whoever was granted the claim completes it");
    let after = store.claim(&claim(&scope, LEASE)).await.expect("it is answered");
    assert!(matches!(after, Claimed::Done(_)), "then everybody is told: {after:?}");
}

async fn one_of_many_takes_over(store: &Arc<dyn Store>) {
    let scope = scope("takeover");
    let first = claim(&scope, LEASE);
    store.claim(&first).await.expect("it is answered");
    let holder = Holder { scope: scope.clone(), owner: first.owner, token: 1 };
    assert_eq!(store.release(&holder, Release::Recover).await.expect("it is answered"), Hold::Held(()));
    let (granted, busy) = crowd(store, &scope).await;
    assert_eq!((granted.len(), busy), (1, CROWD - 1), "one of {CROWD} takes an expired claim over");
    assert_eq!(granted[0].token, 2);
}

/// The holder completes at the moment at which another takes over: exactly one of the two has it.
async fn a_claim_and_its_loss_do_not_both_win(store: &Arc<dyn Store>) {
    for _ in 0..8 {
        let scope = scope("edge");
        let first = claim(&scope, Duration::ZERO);
        store.claim(&first).await.expect("it is answered");
        let holder = Holder { scope: scope.clone(), owner: first.owner, token: 1 };
        let second = claim(&scope, LEASE);
        let (completed, claimed) = tokio::join!(store.complete(&holder, "1", TTL), store.claim(&second));
        let completed = completed.expect("it is answered") == Hold::Held(());
        let taken = matches!(claimed.expect("it is answered"), Claimed::Granted(_));
        assert!(completed != taken, "completed: {completed}, taken over: {taken}");
    }
}

async fn every_mark_has_one_first(store: &Arc<dyn Store>) {
    let scopes: Vec<Scope> = (0..10).map(|n| scope(&format!("mark-{n}"))).collect();
    let marks = (0..CROWD).map(|turn| {
        let (store, mut scopes) = (store.clone(), scopes.clone());
        // Each in another order: whoever locks rows must not deadlock.
        scopes.rotate_left(turn % 10);
        tokio::spawn(async move { store.mark(&scopes, TTL).await.expect("marks are answered") })
    });
    let answers = join_all(marks).await.into_iter().map(|done| done.expect("no mark panics"));
    let firsts = answers.flatten().filter(|first| *first).count();
    assert_eq!(firsts, scopes.len(), "every scope is first once, however many mark it");
}

async fn the_schema_can_be_made_by_many(store: &Arc<dyn Store>) {
    let made = join_all((0..4).map(|_| store.ensure_schema())).await;
    assert!(made.iter().all(Result::is_ok), "{made:?}");
}
