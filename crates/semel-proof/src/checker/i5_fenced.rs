//! I5: a stale token never changes anything, and the tokens of a job strictly increase, also across restarts.

use semel_core::ids::{JobId, Token};

use super::{Findings, Invariant::I5};
use crate::book::{Book, Deed, Fate, JobTrace, Span};
use crate::survey::Survey;

pub(super) fn check(book: &Book, survey: &Survey, findings: &mut Findings) {
    for (id, job) in book.jobs() {
        check_tokens(id, job, findings);
        check_settles(id, job, findings);
        let settled = survey.jobs.get(&id).and_then(|found| found.settled);
        // A delivery that nobody heard of can be ended by a rescue, and by nothing else.
        let known = settled.is_none_or(|token| delivery(job, token).is_some() || was_rescued(job));
        if !known && !book.may_have_expired_unheard(job) {
            findings.add(I5, [id], || "it was settled with a token that nobody was given".into());
        }
    }
}

fn check_tokens(id: JobId, job: &JobTrace, findings: &mut Findings) {
    let all: Vec<_> = job.deliveries().collect();
    for (i, (span, delivered)) in all.iter().enumerate() {
        for (earlier, before) in &all[..i] {
            if before.token == delivered.token {
                findings.add(I5, [id], || format!("two deliveries have the token {}", delivered.token));
            } else if (earlier.precedes(span) && before.token > delivered.token)
                || (span.precedes(earlier) && before.token < delivered.token)
            {
                findings.add(I5, [id], || format!("{} was not above {}", delivered.token, before.token));
            }
        }
    }
}

/// A settle takes effect once per token, and only while its delivery is the current one.
fn check_settles(id: JobId, job: &JobTrace, findings: &mut Findings) {
    let mut ended: Vec<Token> = Vec::new();
    for act in &job.acts {
        let Some((token, say, _)) = act.effective_settle() else { continue };
        match delivery(job, token) {
            None => findings.add(I5, [id], || format!("{token} settled it, and nobody was given that token")),
            Some(span) if is_stale(job, token, span, &act.span) => {
                findings.add(I5, [id], || format!("{token} was stale and settled it all the same"));
            }
            Some(_) if say.ends_delivery() && ended.contains(&token) => {
                findings.add(I5, [id], || format!("{token} settled it twice"));
            }
            Some(_) => {}
        }
        if say.ends_delivery() {
            ended.push(token);
        }
    }
}

fn delivery(job: &JobTrace, token: Token) -> Option<&Span> {
    job.deliveries().find(|(_, delivered)| delivered.token == token).map(|(span, _)| span)
}

fn was_rescued(job: &JobTrace) -> bool {
    job.acts.iter().any(|act| matches!(act.deed, Deed::Rescued))
}

/// Whether the delivery was certainly over when the settle was sent: delivered again, rescued or called off.
fn is_stale(job: &JobTrace, token: Token, delivered: &Span, settle: &Span) -> bool {
    job.acts.iter().filter(|act| act.fate == Fate::Ok && act.span.precedes(settle)).any(|act| {
        match &act.deed {
            Deed::Deliver { delivered, .. } => delivered.token > token,
            Deed::Rescued => delivered.precedes(&act.span),
            Deed::Cancel => true,
            Deed::Settle { .. } | Deed::Extend { .. } => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use semel_core::lifecycle::State::{Cancelled, Completed, Pending};

    use super::super::stories::{Story, found};
    use super::*;
    use crate::history::{Answer, Say};
    use crate::survey::Found;

    #[test]
    fn a_token_settles_its_own_delivery() {
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 5, 1).settle(1, 5, Say::Receive, Pending, 0).settle(
            1,
            5,
            Say::Nack,
            Pending,
            0,
        );
        story.restart().deliver(1, 9, 2).ack(1, 9);
        let settled = Some(Token::from_raw(9));
        story.found(1, Found { settled, ..found(1, Completed, 2) }).assert_holds();
    }

    #[test]
    fn a_token_that_does_not_increase_is_found() {
        for token in [4, 5] {
            let mut story = Story::new();
            story.publish(1, 1).deliver(1, 5, 1).restart().deliver(1, token, 1);
            story.found(1, found(1, Pending, 0)).assert_breaks(I5);
        }
    }

    #[test]
    fn two_leases_at_once_may_be_heard_of_in_any_order() {
        let mut story = Story::new();
        story.publish(1, 1);
        let (slow, late) = (story.invoke(Story::lease_call()), story.delivered(1, 3, 1));
        story.wait(1500).rescue(1).deliver(1, 4, 2);
        story.ok(slow, Answer::Leased(vec![late]));
        story.found(1, found(1, Pending, 1)).assert_holds();
    }

    #[test]
    fn a_settle_after_the_job_was_taken_over_is_found() {
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 5, 1).wait(1500).rescue(1).deliver(1, 6, 2).ack(1, 5);
        story.found(1, found(1, Completed, 2)).assert_breaks(I5);
    }

    #[test]
    fn a_settle_after_its_lease_was_ended_is_found() {
        let mut rescued = Story::new();
        rescued.publish(1, 1).deliver(1, 5, 1).wait(1500).rescue(1).ack(1, 5);
        rescued.found(1, found(1, Completed, 2)).assert_breaks(I5);
        let mut cancelled = Story::new();
        cancelled.publish(1, 1).deliver(1, 5, 1).cancel(1).settle(1, 5, Say::Nack, Pending, 0);
        cancelled.found(1, found(1, Cancelled, 1)).assert_breaks(I5);
    }

    #[test]
    fn a_second_settle_with_one_token_is_found() {
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 5, 1).settle(1, 5, Say::Defer, Pending, 0).ack(1, 5);
        story.found(1, Found { deferrals: 1, ..found(1, Completed, 1) }).assert_breaks(I5);
    }

    #[test]
    fn a_repeat_that_changes_nothing_is_fine() {
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 5, 1).ack(1, 5);
        let again = story.invoke(Story::settle_call(1, 5, Say::Ack));
        story.ok(again, Answer::Settled { state: Completed, due: None, repeated: true });
        story.found(1, found(1, Completed, 1)).assert_holds();
    }

    #[test]
    fn a_token_that_nobody_was_given_is_found() {
        Story::new().publish(1, 1).ack(1, 5).found(1, found(1, Completed, 1)).assert_breaks(I5);
        let mut story = Story::new();
        story.publish(1, 1).deliver(1, 5, 1).invoke(Story::settle_call(1, 5, Say::Ack));
        let settled = Some(Token::from_raw(6));
        story.restart().found(1, Found { settled, ..found(1, Completed, 1) }).assert_breaks(I5);
    }
}
