//! I6: attempts stay within their cap and are counted exactly, backpressure burns none, nothing is delivered before its
//! time and no lease is ended before its.

use semel_core::ids::JobId;
use semel_core::time::Timestamp;

use super::{Findings, Invariant::I6};
use crate::book::{Act, Book, Deed, Fate, JobTrace, Span};
use crate::history::{Delivered, Say};
use crate::survey::{Found, Survey};

pub(super) fn check(book: &Book, survey: &Survey, findings: &mut Findings) {
    for (id, job) in book.jobs() {
        let unheard = u32::from(book.may_have_expired_unheard(job));
        for (span, delivered) in job.deliveries() {
            check_delivery(book, id, job, unheard, span, delivered, findings);
        }
        job.acts.iter().filter(|act| matches!(act.deed, Deed::Rescued)).for_each(|rescue| {
            check_rescue(id, job, &rescue.span, findings);
        });
        if let Some(found) = survey.jobs.get(&id) {
            check_found(book, id, job, unheard, found, findings);
        }
    }
}

/// Lowest and highest number of something that has certainly, or possibly, happened.
#[derive(Debug, Default, Clone, Copy)]
struct Range {
    low: u32,
    high: u32,
}

impl Range {
    fn note(&mut self, certain: bool, possible: bool) {
        self.low += u32::from(certain);
        self.high += u32::from(certain || possible);
    }

    fn holds(self, n: u32) -> bool {
        (self.low..=self.high).contains(&n)
    }
}

fn check_delivery(
    book: &Book,
    id: JobId,
    job: &JobTrace,
    unheard: u32,
    span: &Span,
    delivered: &Delivered,
    findings: &mut Findings,
) {
    let cap = promised_cap(book, job);
    if delivered.max_attempts != cap || delivered.attempt > cap {
        findings.add(I6, [id], || {
            format!("attempt {} of {}, {cap} were promised", delivered.attempt, delivered.max_attempts)
        });
    }
    let (mut attempts, deferrals) = counts(job, Some((span, delivered)));
    attempts.high += unheard;
    if !attempts.holds(delivered.attempt.saturating_sub(1)) {
        findings.add(I6, [id], || format!("attempt {} after {attempts:?} that count", delivered.attempt));
    }
    if !deferrals.holds(delivered.deferrals) {
        findings
            .add(I6, [id], || format!("{} deferrals were shown after {deferrals:?}", delivered.deferrals));
    }
    let due = due_before(book, id, job, delivered);
    if span.until < due {
        findings.add(I6, [id], || format!("delivered {} before it was due", due.since(span.until)));
    }
}

fn check_found(book: &Book, id: JobId, job: &JobTrace, unheard: u32, found: &Found, findings: &mut Findings) {
    let (mut attempts, deferrals) = counts(job, None);
    attempts.high += unheard;
    if !attempts.holds(found.attempts) || found.attempts > promised_cap(book, job) {
        findings.add(I6, [id], || format!("it has used {} attempts, {attempts:?} count", found.attempts));
    }
    if !deferrals.holds(found.deferrals) {
        findings.add(I6, [id], || format!("it was deferred {} times, {deferrals:?} count", found.deferrals));
    }
}

fn promised_cap(book: &Book, job: &JobTrace) -> u32 {
    job.subject
        .as_ref()
        .and_then(|subject| book.promise(&subject.queue))
        .map_or(u32::MAX, |promise| promise.cap)
}

/// How many attempts and deferrals the job had used: before a delivery, or at the end.
fn counts(job: &JobTrace, before: Option<(&Span, &Delivered)>) -> (Range, Range) {
    let (mut attempts, mut deferrals) = (Range::default(), Range::default());
    let mut seen = Vec::new();
    for act in &job.acts {
        let began = before.is_none_or(|(span, _)| act.span.invoked < span.answered);
        let over = before.is_none_or(|(span, _)| act.span.precedes(span));
        if matches!(act.deed, Deed::Rescued) {
            attempts.note(over, began);
        }
        // One settle takes effect per token, however often it is repeated and whoever of its senders was answered.
        let Some((token, say)) = act.settle() else { continue };
        let earlier = before.is_none_or(|(_, delivered)| token < delivered.token);
        if say == Say::Receive || !earlier || seen.contains(&token) {
            continue;
        }
        seen.push(token);
        let certain = job.acts.iter().any(|other| settles(other, token, say));
        let range = if say.counts() { &mut attempts } else { &mut deferrals };
        range.note(certain, true);
        if !certain {
            // Senders of unknown fate may have said different things under one token: either may be the one.
            note_other_words(job, token, say, &mut attempts, &mut deferrals);
        }
    }
    (attempts, deferrals)
}

fn settles(act: &Act, token: semel_core::Token, say: Say) -> bool {
    act.fate == Fate::Ok && act.settle() == Some((token, say))
}

fn note_other_words(
    job: &JobTrace,
    token: semel_core::Token,
    first: Say,
    attempts: &mut Range,
    deferrals: &mut Range,
) {
    let other = job
        .acts
        .iter()
        .filter_map(Act::settle)
        .find(|(t, say)| *t == token && say.counts() != first.counts());
    if let Some((_, say)) = other.filter(|(_, say)| *say != Say::Receive) {
        let range = if say.counts() { attempts } else { deferrals };
        range.note(job.acts.iter().any(|act| settles(act, token, say)), true);
    }
}

/// The latest time that the job had been told to wait for, before a delivery.
fn due_before(book: &Book, id: JobId, job: &JobTrace, delivered: &Delivered) -> Timestamp {
    let settled = job.acts.iter().filter_map(Act::effective_settle);
    let told = settled.filter(|(token, _, _)| *token < delivered.token).filter_map(|(_, _, reply)| reply.due);
    let subject = job.subject.as_ref();
    let publishes = subject.map_or(&[][..], |subject| book.publishes_of(subject));
    // Several publishes of unknown fate may have made it: then only the earliest of their times is certain.
    let makers = publishes.iter().filter(|p| p.may_have_made(id) && p.digest == delivered.digest);
    let planned =
        makers.map(|p| p.answer.map_or(p.span.from, |answer| answer.created_at).plus(p.delay)).min();
    told.chain(planned).max().unwrap_or_default()
}

/// A lease is ended by a rescue only after its deadline, or after the last extension that had been granted.
fn check_rescue(id: JobId, job: &JobTrace, rescue: &Span, findings: &mut Findings) {
    let before = job.deliveries().filter(|(span, _)| span.precedes(rescue) && span.round == rescue.round);
    let Some((_, current)) = before.max_by_key(|(_, delivered)| delivered.token) else { return };
    // A delivery at the same time may be the one that was rescued: then nothing can be said.
    let newer = |(span, other): (&Span, &Delivered)| other.token > current.token && !rescue.precedes(span);
    if job.deliveries().any(newer) {
        return;
    }
    let Some(ends) = lease_end(job, current, rescue) else { return };
    if rescue.until < ends {
        findings.add(I6, [id], || format!("its lease was ended {} early", ends.since(rescue.until)));
    }
}

/// When a lease certainly ended before a rescue: its deadline, or the last extension; `None` if it may have been moved
/// by something whose effect or order is not known.
fn lease_end(job: &JobTrace, current: &Delivered, rescue: &Span) -> Option<Timestamp> {
    let mut ends = (0, current.deadline);
    for act in job.acts.iter().filter(|act| act.fate != Fate::Failed && act.span.invoked < rescue.answered) {
        match act.deed {
            Deed::Settle { token, say: Say::Receive, .. } if token == current.token => return None,
            Deed::Extend { token, until } if token == current.token => {
                let until = until.filter(|_| act.span.precedes(rescue))?;
                ends = ends.max((act.span.answered, until));
            }
            _ => {}
        }
    }
    Some(ends.1)
}

#[cfg(test)]
mod tests {
    use semel_core::lifecycle::State::{Completed, Dead, Pending};

    use super::super::stories::{CAP, Story, found};
    use super::*;
    use crate::history::Call;

    #[test]
    fn attempts_are_counted_up_to_the_cap() {
        let mut story = Story::new();
        story.publish(1, 1);
        for attempt in 1..CAP {
            story
                .deliver(1, u64::from(attempt), attempt)
                .settle(1, u64::from(attempt), Say::Nack, Pending, 50)
                .wait(50);
        }
        story
            .deliver(1, 9, CAP)
            .settle(1, 9, Say::Nack, Dead, 0)
            .found(1, found(1, Dead, CAP))
            .assert_holds();
    }

    #[test]
    fn an_attempt_past_the_cap_is_found() {
        let mut story = Story::new();
        story.publish(1, 1);
        for attempt in 1..=CAP {
            story.deliver(1, u64::from(attempt), attempt).settle(
                1,
                u64::from(attempt),
                Say::Nack,
                Pending,
                0,
            );
        }
        story.deliver(1, 9, CAP + 1).found(1, found(1, Pending, CAP)).assert_breaks(I6);
    }

    #[test]
    fn backpressure_burns_no_attempt() {
        let deferred = |attempt| {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 1, 1).settle(1, 1, Say::Defer, Pending, 0);
            let again = Delivered { deferrals: 1, ..story.delivered(1, 2, attempt) };
            story.deliver_as(again).found(1, Found { deferrals: 1, ..found(1, Pending, attempt - 1) });
            story
        };
        deferred(1).assert_holds();
        deferred(2).assert_breaks(I6);
    }

    #[test]
    fn an_attempt_that_was_answered_is_not_forgotten() {
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 1, 1).settle(1, 1, Say::Nack, Pending, 0);
        story.restart().deliver(1, 9, 1).found(1, found(1, Pending, 0)).assert_breaks(I6);
    }

    #[test]
    fn a_crash_burns_no_attempt_and_one_of_unknown_fate_may_count() {
        for (call, attempt, holds) in [
            (None, 1, true),
            (None, 2, false),
            (Some(Say::Nack), 1, true),
            (Some(Say::Nack), 2, true),
            (Some(Say::Nack), 3, false),
            (Some(Say::Defer), 2, false),
        ] {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 1, 1);
            if let Some(say) = call {
                story.invoke(Story::settle_call(1, 1, say));
            }
            story.restart().deliver(1, 9, attempt).found(1, found(1, Pending, attempt - 1));
            assert_eq!(story.check().breaks(I6), !holds, "{call:?} {attempt} {}", story.check());
        }
    }

    #[test]
    fn a_rescue_counts_an_attempt() {
        for (attempt, holds) in [(1, false), (2, true), (3, false)] {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 1, 1).wait(1000).rescue(1).deliver(1, 2, attempt);
            story.found(1, found(1, Pending, attempt - 1));
            assert_eq!(story.check().breaks(I6), !holds, "{attempt} {}", story.check());
        }
    }

    #[test]
    fn a_delivery_before_its_time_is_found() {
        for (wait, holds) in [(90, false), (110, true)] {
            let mut delayed = Story::new();
            let op = delayed.invoke(Story::publish_call(1, 100));
            let answer = delayed.published(1, false);
            delayed.ok(op, answer);
            delayed.wait(wait).deliver(1, 1, 1).found(1, found(1, Pending, 0));
            assert_eq!(delayed.check().breaks(I6), !holds, "{}", delayed.check());

            let mut retried = Story::new();
            retried
                .publish(1, 1)
                .deliver(1, 1, 1)
                .settle(1, 1, Say::Nack, Pending, 100)
                .wait(wait)
                .deliver(1, 2, 2);
            retried.found(1, found(1, Pending, 1));
            assert_eq!(retried.check().breaks(I6), !holds, "{}", retried.check());
        }
    }

    #[test]
    fn a_lease_that_is_ended_early_is_found() {
        let rescued_after = |wait: u64, extend: Option<u64>| {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 1, 1);
            if let Some(span) = extend {
                let until = story.now + span;
                story.extend(1, 1, until);
            }
            story.wait(wait).rescue(1).found(1, found(1, Pending, 1));
            story
        };
        rescued_after(1000, None).assert_holds();
        rescued_after(900, None).assert_breaks(I6);
        rescued_after(1500, Some(2000)).assert_breaks(I6);
        rescued_after(2000, Some(2000)).assert_holds();
    }

    #[test]
    fn a_wrong_count_in_the_store_is_found() {
        for (attempts, deferrals) in [(0, 0), (2, 0), (1, 1)] {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 1, 1).ack(1, 1);
            story.found(1, Found { deferrals, ..found(1, Completed, attempts) }).assert_breaks(I6);
        }
    }

    #[test]
    fn a_rescue_that_nobody_answered_may_have_counted() {
        for (wait, holds) in [(500, false), (1500, true)] {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 1, 1).wait(wait).invoke(Call::Rescue);
            story.restart().deliver(1, 9, 2).found(1, found(1, Pending, 1));
            assert_eq!(story.check().breaks(I6), !holds, "{}", story.check());
        }
    }

    #[test]
    fn an_extension_may_have_made_a_lease_shorter_before_a_rescue_that_nobody_answered() {
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 1, 1);
        let until = story.now + 300;
        story.extend(1, 1, until).wait(500).invoke(Call::Rescue);
        story.restart().deliver(1, 9, 2).found(1, found(1, Pending, 1)).assert_holds();
    }
}
