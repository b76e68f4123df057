//! I3: per queue, key and window at most one job exists, and every answer names it.

use std::collections::HashMap;

use semel_core::ids::JobId;
use semel_core::key::{self, Key};
use semel_core::name::QueueName;

use super::{Findings, Invariant::I3};
use crate::book::{Book, JobTrace, PublishTrace, Subject};
use crate::survey::{Found, Survey};

pub(super) fn check(book: &Book, survey: &Survey, findings: &mut Findings) {
    for (subject, publishes) in book.publishes().filter(|(subject, _)| subject.key().is_some()) {
        check_answers(book, subject, publishes, findings);
        check_verdicts(publishes, findings);
        check_lookup(survey, subject, publishes, findings);
    }
    check_found(book, survey, findings);
}

/// Two answers may name two jobs only if the first had ended, and its window with it, before the second was published.
fn check_answers(book: &Book, subject: &Subject, publishes: &[PublishTrace], findings: &mut Findings) {
    let mut named: Vec<_> = publishes.iter().filter_map(|p| Some((p.answer?, &p.span))).collect();
    named.sort_by_key(|(answer, span)| (answer.id, span.answered));
    for pair in named.windows(2) {
        let ((first, _), (second, _)) = (pair[0], pair[1]);
        if first.id != second.id && !may_be_over(book, subject, first.id, second.created_at) {
            findings.add(I3, [first.id, second.id], || {
                format!("{subject:?} was answered with two jobs while the first held the key")
            });
        }
        let went_back = named.iter().any(|(newer, span)| newer.id > first.id && span.precedes(pair[0].1));
        if went_back {
            findings
                .add(I3, [first.id], || format!("{subject:?} was answered with this job after a newer one"));
        }
    }
}

/// Whether the key of a job may have been free again at `at`.
fn may_be_over(book: &Book, subject: &Subject, id: JobId, at: semel_core::Timestamp) -> bool {
    let end = book.job(id).and_then(JobTrace::earliest_end);
    let window = book.promise(&subject.queue).map(|promise| promise.window);
    end.zip(window).is_some_and(|(end, window)| end.plus(window) <= at)
}

/// A payload is said to be that of the first publish exactly if it is.
fn check_verdicts(publishes: &[PublishTrace], findings: &mut Findings) {
    for publish in publishes {
        let Some(answer) = publish.answer else { continue };
        let made: Vec<_> = publishes.iter().filter(|p| p.may_have_made(answer.id)).collect();
        let truth = made.iter().any(|first| (first.digest == publish.digest) == answer.matches);
        if !made.is_empty() && !truth {
            findings.add(I3, [answer.id], || format!("the payload was said to match: {}", answer.matches));
        }
    }
}

/// A key leads to the newest job that was answered for it, if that is still there.
fn check_lookup(survey: &Survey, subject: &Subject, publishes: &[PublishTrace], findings: &mut Findings) {
    let Some(key) = subject.key() else { return };
    let Some(found) = survey.keys.get(&(subject.queue.clone(), key.clone())) else { return };
    let newest = publishes.iter().filter_map(|p| Some(p.answer?.id)).max();
    let newest = newest.filter(|id| survey.jobs.contains_key(id));
    if let Some(newest) = newest.filter(|newest| found.is_none_or(|found| found < *newest)) {
        findings.add(I3, [newest].into_iter().chain(*found), || {
            format!("{subject:?} is in the store, and its key does not lead to it")
        });
    }
    if let Some(id) = found.filter(|id| !survey.jobs.contains_key(id)) {
        findings.add(I3, [id], || format!("{subject:?} leads to a job that is not listed"));
    }
}

/// In the store itself: of two jobs with one key the older had ended, and its window with it, before the newer came.
fn check_found(book: &Book, survey: &Survey, findings: &mut Findings) {
    let mut by_key: HashMap<(&QueueName, &Key), Vec<(JobId, &Found)>> = HashMap::new();
    for (&id, found) in &survey.jobs {
        if let Some(key) = &found.key {
            by_key.entry((&found.queue, key)).or_default().push((id, found));
        }
    }
    for ((queue, _), jobs) in by_key.iter_mut().filter(|(_, jobs)| jobs.len() > 1) {
        let Some(promise) = book.promise(queue) else { continue };
        jobs.sort_by_key(|(id, _)| *id);
        for pair in jobs.windows(2) {
            let ((older, first), (newer, second)) = (pair[0], pair[1]);
            let held = !first.released && key::holds(first.finished_at, promise.window, second.created_at);
            if held {
                findings.add(I3, [older, newer], || {
                    "two jobs of one key are in the store within one window".into()
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_core::lifecycle::State::{Cancelled, Completed, Pending};
    use semel_core::time::Timestamp;

    use super::super::stories::{Story, found, job, key, queue};
    use super::*;
    use crate::history::Answer;

    #[test]
    fn every_answer_names_the_one_job() {
        let mut story = Story::new();
        story.publish(1, 1).repeat(1, 1).restart().repeat(1, 1).found(1, found(1, Pending, 0)).assert_holds();
    }

    fn second(story: &mut Story) {
        let again = story.invoke(Story::publish_call(1, 0));
        let answer = story.published(7, false);
        story.ok(again, answer);
    }

    #[test]
    fn two_jobs_for_one_key_are_found() {
        let mut story = Story::new();
        story.publish(1, 1).found(1, found(1, Pending, 0));
        second(&mut story);
        let newer = Found { key: Some(key(1)), digest: Some(1), ..found(7, Pending, 0) };
        story.found(7, newer).assert_breaks(I3);
    }

    #[test]
    fn a_key_is_free_when_its_window_is_over_and_not_before() {
        for (wait, holds) in [(9000, false), (11_000, true)] {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 1, 1).ack(1, 1).wait(wait);
            let created_at = Timestamp::from_millis(story.now);
            second(&mut story);
            let first = Found { digest: None, ..found(1, Completed, 1) };
            let newer = Found { created_at, key: Some(key(1)), digest: Some(1), ..found(7, Pending, 0) };
            story.found(1, first).found(7, newer);
            assert_eq!(story.check().breaks(I3), !holds, "{}", story.check());
        }
    }

    #[test]
    fn an_answer_that_goes_back_to_an_older_job_is_found() {
        let mut story = Story::new();
        story.publish(1, 1).cancel(1).wait(11_000);
        second(&mut story);
        let created_at = Timestamp::from_millis(story.now);
        let newer = Found { created_at, key: Some(key(1)), digest: Some(1), ..found(7, Pending, 0) };
        story.found(7, newer).assert_holds();
        story.repeat(1, 1).assert_breaks(I3);
    }

    #[test]
    fn two_jobs_in_the_store_are_found_even_if_nobody_was_told() {
        let mut story = Story::new();
        story.publish(1, 1).found(1, found(1, Pending, 0));
        story.invoke(Story::publish_call(1, 0));
        let newer = Found { key: Some(key(1)), digest: Some(1), ..found(7, Pending, 0) };
        story.restart().found(7, newer).assert_breaks(I3);
    }

    #[test]
    fn a_key_that_does_not_lead_to_its_job_is_found() {
        let mut story = Story::new();
        story.publish(1, 1).found(1, found(1, Pending, 0));
        story.survey.keys.insert((queue(), key(1)), Some(job(1)));
        story.assert_holds();
        story.survey.keys.insert((queue(), key(1)), None);
        story.assert_breaks(I3);
    }

    #[test]
    fn a_key_that_leads_to_a_job_that_is_gone_is_found() {
        let mut story = Story::new();
        story.publish(1, 1).cancel(1).wait(11_000);
        story.survey.keys.insert((queue(), key(1)), None);
        story.assert_holds();
        story.survey.keys.insert((queue(), key(1)), Some(job(1)));
        story.assert_breaks(I3);
    }

    #[test]
    fn a_collision_that_is_called_a_match_is_found() {
        for (digest, matches, holds) in
            [(1, true, true), (2, false, true), (2, true, false), (1, false, false)]
        {
            let mut story = Story::new();
            story.publish(1, 1).found(1, found(1, Cancelled, 0)).cancel(1);
            let mut call = Story::publish_call(1, 0);
            if let crate::history::Call::Publish { digest: d, .. } = &mut call {
                *d = digest;
            }
            let op = story.invoke(call);
            let created_at = Timestamp::from_millis(story.now);
            story.ok(op, Answer::Published { id: job(1), created_at, deduplicated: true, matches });
            assert_eq!(story.check().breaks(I3), !holds, "{}", story.check());
        }
    }
}
