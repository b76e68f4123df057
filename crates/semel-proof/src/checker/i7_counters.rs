//! I7: the counters are those of the listing.

use std::collections::BTreeMap;

use semel_core::lifecycle::State;
use semel_core::name::QueueName;

use super::{Findings, Invariant::I7};
use crate::survey::Survey;

pub(super) fn check(survey: &Survey, findings: &mut Findings) {
    let mut listed = by_state(survey);
    for stats in &survey.stats.queues {
        for state in State::ALL {
            let counted = stats.count(state);
            let listed = listed.remove(&(&stats.queue, state)).unwrap_or_default();
            if counted != listed {
                findings.add(I7, [], || {
                    format!(
                        "{} counts {counted} {} jobs, the listing has {listed}",
                        stats.queue,
                        state.name()
                    )
                });
            }
        }
    }
    for ((queue, state), listed) in listed {
        findings.add(I7, [], || format!("{queue} has {listed} {} jobs and no counters", state.name()));
    }
    for &id in &survey.listed_twice {
        findings.add(I7, [id], || "one walk along the listing met a job twice".into());
    }
}

fn by_state(survey: &Survey) -> BTreeMap<(&QueueName, State), u64> {
    let mut listed = BTreeMap::new();
    for job in survey.jobs.values() {
        *listed.entry((&job.queue, job.state)).or_default() += 1;
    }
    listed
}

/// Counters as they should be.
#[cfg(test)]
pub(super) fn count(survey: &Survey) -> semel_store::Stats {
    let mut queues: Vec<semel_store::QueueStats> = Vec::new();
    for ((queue, state), n) in by_state(survey) {
        if queues.last().is_none_or(|last| last.queue != *queue) {
            queues.push(semel_store::QueueStats::empty(queue.clone()));
        }
        let stats = queues.last_mut().unwrap();
        match state {
            State::Pending => stats.pending = n,
            State::Processing => stats.processing = n,
            State::AwaitingAck => stats.awaiting_ack = n,
            State::Completed => stats.completed = n,
            State::Dead => stats.dead = n,
            State::Cancelled => stats.cancelled = n,
        }
    }
    semel_store::Stats { queues }
}

#[cfg(test)]
mod tests {
    use super::super::stories::{Story, found};
    use super::*;

    fn two_jobs() -> Story {
        let mut story = Story::new();
        story.publish(1, 1).publish(2, 2).deliver(2, 1, 1).ack(2, 1);
        story.found(1, found(1, State::Pending, 0)).found(2, found(2, State::Completed, 1));
        story
    }

    #[test]
    fn counters_of_the_listing_hold() {
        two_jobs().assert_holds();
    }

    #[test]
    fn a_counter_that_is_off_by_one_is_found() {
        let mut story = two_jobs();
        story.survey.stats = count(&story.survey);
        story.survey.stats.queues[0].completed += 1;
        story.assert_breaks(I7);
    }

    #[test]
    fn a_queue_without_counters_is_found() {
        let mut story = two_jobs();
        let other = QueueName::try_from("other").unwrap();
        story.survey.stats.queues.push(semel_store::QueueStats::empty(other));
        story.assert_breaks(I7);
    }

    #[test]
    fn a_job_listed_twice_is_found() {
        let mut story = two_jobs();
        story.survey.listed_twice.push(super::super::stories::job(1));
        story.assert_breaks(I7);
    }
}
