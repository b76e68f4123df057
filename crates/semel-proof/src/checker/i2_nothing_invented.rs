//! I2: nothing is delivered, or found in the store, that was never published; and its payload is the one published.

use semel_core::ids::JobId;

use super::{Findings, Invariant::I2};
use crate::book::{Book, Deed, JobTrace, Span, Subject};
use crate::history::Digest;
use crate::survey::{Found, Survey};

pub(super) fn check(book: &Book, survey: &Survey, findings: &mut Findings) {
    for (id, job) in book.jobs() {
        for act in &job.acts {
            if let Deed::Deliver { queue, delivered } = &act.deed {
                let subject = Subject::new(queue.clone(), delivered.key.clone(), delivered.digest);
                if !was_published(book, &subject, id, delivered.digest, Some(&act.span)) {
                    findings.add(I2, [id], || {
                        format!("{subject:?} was delivered and nobody had published it so")
                    });
                }
            }
        }
    }
    for (&id, found) in &survey.jobs {
        check_found(book, survey, id, found, findings);
    }
}

fn check_found(book: &Book, survey: &Survey, id: JobId, found: &Found, findings: &mut Findings) {
    let Some(digest) = found.digest else {
        if !may_be_stripped(book, survey, id, found) {
            findings.add(I2, [id], || "its payload is gone before its time".into());
        }
        return;
    };
    let subject = Subject::new(found.queue.clone(), found.key.clone(), digest);
    if !was_published(book, &subject, id, digest, None) {
        findings.add(I2, [id], || format!("{subject:?} is in the store and nobody published it so"));
    }
}

/// Whether some publish made this job, or may have, with this payload, and was invoked before the delivery was over.
fn was_published(
    book: &Book,
    subject: &Subject,
    id: JobId,
    digest: Digest,
    delivered: Option<&Span>,
) -> bool {
    book.publishes_of(subject).iter().any(|publish| {
        let in_time = delivered.is_none_or(|span| publish.span.invoked < span.answered);
        in_time && publish.digest == digest && publish.may_have_made(id)
    })
}

fn may_be_stripped(book: &Book, survey: &Survey, id: JobId, found: &Found) -> bool {
    let end = book.job(id).and_then(JobTrace::earliest_end);
    let keep = book.promise(&found.queue).map(|promise| promise.keep);
    end.zip(keep).is_some_and(|(end, keep)| end.plus(keep) <= survey.at)
}

#[cfg(test)]
mod tests {
    use semel_core::lifecycle::State::{Cancelled, Pending};

    use super::super::stories::{Story, found, job};
    use super::*;
    use crate::history::Answer;

    #[test]
    fn what_was_published_may_be_delivered_even_before_the_publisher_knows() {
        let mut story = Story::new();
        let publish = story.invoke(Story::publish_call(1, 0));
        story.deliver(1, 1, 1);
        let answer = story.published(1, false);
        story.ok(publish, answer);
        story.found(1, found(1, Pending, 0)).assert_holds();
    }

    #[test]
    fn a_publish_that_nobody_answered_may_be_delivered_after_the_crash() {
        let mut story = Story::new();
        story.invoke(Story::publish_call(1, 0));
        story.restart().deliver(1, 1, 1).repeat(1, 1).found(1, found(1, Pending, 0)).assert_holds();
    }

    #[test]
    fn a_delivery_that_nobody_published_is_found() {
        Story::new().deliver(1, 1, 1).found(1, found(1, Pending, 0)).assert_breaks(I2);
        // Neither may the publish come after the delivery.
        Story::new().deliver(1, 1, 1).publish(1, 1).found(1, found(1, Pending, 0)).assert_breaks(I2);
    }

    #[test]
    fn a_delivery_of_a_refused_publish_is_found() {
        let mut story = Story::new();
        let publish = story.invoke(Story::publish_call(1, 0));
        story.fail(publish);
        story.deliver(1, 1, 1).found(1, found(1, Pending, 0)).assert_breaks(I2);
    }

    #[test]
    fn a_wrong_payload_is_found_in_a_delivery_and_in_the_store() {
        let mut story = Story::new();
        story.publish(1, 1).found(1, found(1, Pending, 0));
        let wrong = crate::history::Delivered { digest: 99, ..story.delivered(1, 1, 1) };
        story.deliver_as(wrong).assert_breaks(I2);
        let wrong = Found { digest: Some(99), ..found(1, Pending, 0) };
        Story::new().publish(1, 1).found(1, wrong).assert_breaks(I2);
    }

    #[test]
    fn a_job_of_another_queue_is_found() {
        let mut story = Story::new();
        story.publish(1, 1).found(1, found(1, Pending, 0));
        let delivered = story.delivered(1, 1, 1);
        let other = semel_core::QueueName::try_from("other").unwrap();
        let lease = crate::history::Call::Lease { queue: other, duration: semel_core::Millis::from_secs(1) };
        let op = story.invoke(lease);
        story.ok(op, Answer::Leased(vec![delivered]));
        story.assert_breaks(I2);
    }

    #[test]
    fn a_job_in_the_store_that_nobody_published_is_found() {
        let mut story = Story::new();
        story.publish(1, 1).found(1, found(1, Pending, 0)).found(2, found(2, Pending, 0)).assert_breaks(I2);
        assert!(story.check().breaches.iter().any(|breach| breach.jobs == [job(2)]));
    }

    #[test]
    fn a_payload_goes_only_when_its_retention_is_over() {
        let stripped = Found { digest: None, ..found(1, Cancelled, 0) };
        let mut story = Story::new();
        story.publish(1, 1).cancel(1).found(1, stripped).wait(4000).assert_breaks(I2);
        story.wait(2000).assert_holds();
    }
}
