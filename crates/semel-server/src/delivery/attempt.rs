//! One delivery by webhook, from the call to the settle.

use std::sync::Arc;
use std::time::Duration;

use semel_core::lease::Delivery;
use semel_core::lifecycle::State;
use semel_core::outcome::{DeferScope, Outcome, of_error, receipt_of};
use semel_core::settle::{REASON_MAX, Report, Settle};
use semel_core::time::Millis;
use semel_store::StoreError;
use semel_store::group_commit::CommitError;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::call::{Call, Caller};
use super::message::Message;
use super::target::Target;
use super::told;
use crate::service::Service;
use crate::stop::Stop;

/// First wait before a settle that did not get through is tried again; each is twice the one before.
const AGAIN_FIRST: Duration = Duration::from_millis(20);
/// Longest such wait.
const AGAIN_MOST: Duration = Duration::from_secs(2);

/// How long the settle of a job that is done may wait for a commit that others cause. A crash meanwhile does what a crash
/// just before the settle would: the job is delivered again.
const PATIENCE: Duration = Duration::from_millis(10);

/// What the end of a delivery means for its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Something may have become ready: the job itself later, or what it held up.
    Look,
    /// The job is done and held up nobody.
    Nothing,
}

/// Calls the webhook and settles the delivery by its answer. `release` says that there is no time left to wait for it;
/// `unhurried`, that the queue has nothing else to do than to wait for the settle.
pub(super) async fn attempt(
    service: &Service,
    caller: &Caller,
    target: Arc<Target>,
    delivery: Delivery,
    release: Stop,
    unhurried: bool,
) -> After {
    let now = service.store.now();
    let message = Message::new(&target, &delivery, service.peers.possibly_applied(&delivery), now);
    let timeout = target.timeout(delivery.spec.overrides.timeout);
    let call = Call { url: target.endpoint.clone(), headers: message.headers, body: message.body, timeout };
    let tracing = service.telemetry.delivering(&delivery);
    let began = Instant::now();
    let answered = tokio::select! {
        answered = caller.call(call) => Some(answered),
        () = release.stopped() => None,
    };
    let took = Millis::from_millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    let queue = &delivery.spec.queue;
    service.metrics.delivered(queue, took);
    let mut report = Report { duration: Some(took), ..Report::default() };
    let outcome = match answered {
        Some(Ok(answer)) => {
            report.status_code = Some(answer.status);
            report.effect = answer.semel_effect.as_deref().and_then(receipt_of);
            answer.outcome(target.mode, service.store.now())
        }
        Some(Err(error)) => of_error(&error),
        None => released("the server shut down before the endpoint answered"),
    };
    debug!(job = %delivery.id, %queue, attempt = delivery.attempt, status = report.status_code, ?took, "delivered");
    let tracing = tracing.map(|tracing| tracing.answered(&delivery, &outcome, report.status_code));
    count_hold(service, &target, &delivery, &outcome);
    if let Some(journal) = &service.options.journal {
        journal.note(told::line(service.store.now(), &target, &delivery, &report, &outcome));
    }
    let held_up_others = target.is_gated || delivery.probe;
    let patient =
        unhurried && !held_up_others && is_done(&outcome) && !service.news.ends.is_awaited(delivery.id);
    let state = settle(service, &delivery, outcome, report, patient).await;
    tracing.into_iter().for_each(|tracing| tracing.settled(&delivery, state));
    if state == Some(State::Completed) && !held_up_others { After::Nothing } else { After::Look }
}

/// Gives a delivery back that was leased for a webhook which is no longer there.
pub(super) async fn put_back(service: &Service, delivery: &Delivery) {
    settle(service, delivery, released("the queue no longer pushes"), Report::default(), false).await;
}

fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done { .. })
}

/// A call that is given up, or never made, for a reason of the server's own burns no attempt: the worker did nothing wrong.
fn released(reason: &str) -> Outcome {
    Outcome::Backpressure {
        retry_after: Some(Millis::ZERO),
        scope: Some(DeferScope::Job),
        reason: Some(reason.to_owned()),
    }
}

fn count_hold(service: &Service, target: &Target, delivery: &Delivery, outcome: &Outcome) {
    if let Outcome::Backpressure { scope, .. } = outcome
        && scope.unwrap_or(target.defer_scope) == DeferScope::Queue
    {
        service.metrics.held(&delivery.spec.queue);
    }
}

/// Settles, and goes on trying while the lease lasts: the answer of the worker must not be lost because a disk was slow.
async fn settle(
    service: &Service,
    delivery: &Delivery,
    outcome: Outcome,
    report: Report,
    patient: bool,
) -> Option<State> {
    let settle = checked(delivery, outcome, report)?;
    let mut wait = AGAIN_FIRST;
    loop {
        let settled = match patient {
            true => service.commit.settle_patiently(settle.clone(), tokio::time::sleep(PATIENCE)).await,
            false => service.commit.settle(settle.clone()).await,
        };
        match settled {
            Ok(settled) => return Some(settled.state),
            Err(CommitError::Refused(refusal)) => {
                // Cancelled meanwhile, or taken over: what the worker answered no longer counts.
                debug!(job = %delivery.id, code = refusal.code(), "the settle was refused");
                return None;
            }
            Err(error) if lasts(service, delivery, &error) => {
                debug!(job = %delivery.id, %error, "the settle is tried again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(AGAIN_MOST);
            }
            Err(error) => {
                warn!(job = %delivery.id, %error, "the outcome of a delivery could not be stored; it will be delivered again");
                return None;
            }
        }
    }
}

fn lasts(service: &Service, delivery: &Delivery, error: &CommitError) -> bool {
    let may_pass = match error {
        CommitError::Overloaded(_) => true,
        CommitError::Store(error) => error.retryable(),
        CommitError::Refused(_) => false,
    };
    let ends = matches!(error, CommitError::Store(StoreError::Closed | StoreError::Failed(_)));
    may_pass && !ends && service.store.now() < delivery.deadline
}

/// What an endpoint says is cut to what is kept, so a settle made here always passes its checks.
fn checked(delivery: &Delivery, outcome: Outcome, report: Report) -> Option<Settle> {
    let cut = |text: String| text.chars().take(REASON_MAX).collect::<String>();
    let outcome = match outcome {
        Outcome::Failed { error } => Outcome::Failed { error: cut(error) },
        Outcome::Rejected { error } => Outcome::Rejected { error: cut(error) },
        other => other,
    };
    match Settle::new(delivery.id, Some(delivery.token), outcome, report) {
        Ok(settle) => Some(settle),
        Err(error) => {
            warn!(job = %delivery.id, %error, "the outcome of a delivery makes no sense; it will be delivered again");
            None
        }
    }
}
