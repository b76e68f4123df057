//! I1: every acknowledged publish ends in exactly one of completed, dead, cancelled. None is lost, and an end that was
//! answered stays.

use std::collections::BTreeSet;

use semel_core::ids::JobId;

use super::{Findings, Invariant::I1};
use crate::book::{Book, JobTrace};
use crate::survey::{Found, Survey};

pub(super) fn check(book: &Book, survey: &Survey, findings: &mut Findings) {
    for (_, publishes) in book.publishes() {
        let answered: BTreeSet<JobId> = publishes.iter().filter_map(|p| Some(p.answer?.id)).collect();
        for id in answered {
            if !survey.jobs.contains_key(&id) && !may_be_gone(book, survey, id) {
                findings.add(I1, [id], || "a publish was answered with this job, and it is gone".into());
            }
        }
    }
    for (id, job) in book.jobs() {
        check_ends(id, job, survey.jobs.get(&id), findings);
    }
    for (&id, found) in &survey.jobs {
        check_found(book, survey, id, found, findings);
    }
}

/// Whether the job may have ended so long ago that it, and its key, need not be kept any more.
fn may_be_gone(book: &Book, survey: &Survey, id: JobId) -> bool {
    let Some(job) = book.job(id) else { return false };
    let Some((subject, end)) = job.subject.as_ref().zip(job.earliest_end()) else { return false };
    let Some(promise) = book.promise(&subject.queue) else { return false };
    let key_is_over = subject.key().is_none() || end.plus(promise.window) <= survey.at;
    key_is_over && end.plus(promise.keep) <= survey.at
}

/// An end is answered once, it is the job's last word, and nothing is delivered after it.
fn check_ends(id: JobId, job: &JobTrace, found: Option<&Found>, findings: &mut Findings) {
    let Some((ended, state)) = job.certain_ends().min_by_key(|(span, _)| span.answered) else { return };
    if let Some((_, other)) = job.certain_ends().find(|(_, other)| *other != state) {
        findings
            .add(I1, [id], || format!("it was answered to be {} and to be {}", state.name(), other.name()));
    }
    if let Some(found) = found.filter(|found| found.state != state) {
        findings.add(I1, [id], || {
            format!("it was answered to be {} and is {}", state.name(), found.state.name())
        });
    }
    if job.deliveries().any(|(span, _)| ended.precedes(span)) {
        findings.add(I1, [id], || format!("it was delivered after it was answered to be {}", state.name()));
    }
}

/// A finished job was finished by somebody, and after draining every job is finished.
fn check_found(book: &Book, survey: &Survey, id: JobId, found: &Found, findings: &mut Findings) {
    if survey.drained && !found.state.is_finished() {
        findings.add(I1, [id], || format!("the store was drained and it is still {}", found.state.name()));
    }
    let Some(job) = book.job(id).filter(|_| found.state.is_finished()) else { return };
    let unheard = found.state == semel_core::State::Dead && book.may_have_expired_unheard(job);
    if !unheard && !job.acts.iter().any(|act| act.may_have_ended_in(found.state)) {
        findings.add(I1, [id], || format!("it is {}, and nobody ended it so", found.state.name()));
    }
}

#[cfg(test)]
mod tests {
    use semel_core::lifecycle::State::{Cancelled, Completed, Dead, Pending};

    use super::super::stories::{Story, found};
    use super::*;
    use crate::history::{Call, Say};

    #[test]
    fn three_ways_to_end() {
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 1, 1).ack(1, 1).found(1, found(1, Completed, 1));
        story.publish(2, 2).deliver(2, 2, 1).settle(2, 2, Say::Reject, Dead, 0).found(2, found(2, Dead, 1));
        story.publish(3, 3).cancel(3).found(3, found(3, Cancelled, 0));
        story.survey.drained = true;
        story.assert_holds();
    }

    #[test]
    fn a_publish_that_was_answered_and_is_gone_is_found() {
        Story::new().publish(1, 1).assert_breaks(I1);
        // Not even a job that has ended may go before its time.
        Story::new().publish(1, 1).cancel(1).assert_breaks(I1);
    }

    #[test]
    fn a_publish_that_nobody_answered_may_be_gone() {
        let mut story = Story::new();
        story.invoke(Story::publish_call(1, 0));
        story.restart().assert_holds();
    }

    #[test]
    fn a_job_may_go_when_its_retention_and_its_window_are_over() {
        let mut story = Story::new();
        story.publish(1, 1).cancel(1).wait(6000).assert_breaks(I1);
        story.wait(4000).assert_holds();
    }

    #[test]
    fn an_end_that_was_answered_stays() {
        Story::new()
            .publish(1, 1)
            .deliver(1, 1, 1)
            .ack(1, 1)
            .found(1, found(1, Pending, 1))
            .assert_breaks(I1);
        Story::new()
            .publish(1, 1)
            .cancel(1)
            .deliver(1, 1, 1)
            .found(1, found(1, Cancelled, 0))
            .assert_breaks(I1);
        let mut twice = Story::new();
        twice.publish(1, 1).deliver(1, 1, 1).ack(1, 1).cancel(1).found(1, found(1, Cancelled, 1));
        twice.assert_breaks(I1);
    }

    #[test]
    fn an_ack_that_nobody_answered_may_have_ended_it_or_not() {
        for state in [Completed, Pending] {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 1, 1).invoke(Story::settle_call(1, 1, Say::Ack));
            story.restart().found(1, found(1, state, u32::from(state == Completed))).assert_holds();
        }
    }

    #[test]
    fn an_end_that_nobody_brought_about_is_found() {
        Story::new().publish(1, 1).found(1, found(1, Completed, 0)).assert_breaks(I1);
        Story::new().publish(1, 1).found(1, found(1, Cancelled, 0)).assert_breaks(I1);
        Story::new().publish(1, 1).found(1, found(1, Dead, 0)).assert_breaks(I1);
    }

    #[test]
    fn a_rescue_that_nobody_answered_may_have_buried_it() {
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 1, 1).wait(2000).invoke(Call::Rescue);
        story.restart().found(1, found(1, Dead, 1)).assert_holds();
        // Not if the lease had not run out.
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 1, 1).wait(500).invoke(Call::Rescue);
        story.restart().found(1, found(1, Dead, 1)).assert_breaks(I1);
    }

    #[test]
    fn after_draining_nothing_is_unfinished() {
        let mut story = Story::new();
        story.publish(1, 1).found(1, found(1, Pending, 0)).assert_holds();
        story.survey.drained = true;
        story.assert_breaks(I1);
    }
}
