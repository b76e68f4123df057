//! Publishing: a new job, or the one that holds the key.

use std::collections::VecDeque;
use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::publish::{self, Decision, Publish, Published, RELEASED_BY_PUBLISH};
use semel_core::queue::Rules;
use semel_core::refusal::Refusal;
use semel_core::time::Timestamp;

use super::tables::{Stored, Tables};
use crate::command::{Answer, Reply};
use crate::query::{SUPPRESSED_MAX, Suppressed};

impl Tables {
    pub(super) fn publish(&mut self, publish: Publish, now: Timestamp) -> Answer {
        let rules = Arc::clone(&self.found_queue(&publish.draft().queue)?.rules);
        let (decision, newest) = self.decide(&rules, &publish, now)?;
        let published = match (decision, newest) {
            (Decision::Return { payload_matches }, Some(id)) => {
                self.suppress(&rules, id, &publish, payload_matches, now)
            }
            (Decision::Revive { payload_matches }, Some(id)) => {
                self.revive(id, now)?;
                self.suppress(&rules, id, &publish, payload_matches, now)
            }
            (Decision::Replace, Some(id)) => {
                self.change(id, |stored| stored.job.progress.released = Some(RELEASED_BY_PUBLISH.into()));
                self.create(&rules, publish, now)
            }
            // Every other decision needs a job that holds the key.
            (_, _) => self.create(&rules, publish, now),
        };
        Ok(Reply::Published(published))
    }

    /// What is to be done, and the newest job under the key, if there is one.
    fn decide(
        &self,
        rules: &Rules,
        publish: &Publish,
        now: Timestamp,
    ) -> Result<(Decision, Option<JobId>), Refusal> {
        publish::admit(rules, publish, now)?;
        let draft = publish.draft();
        let queue = self.found_queue(&draft.queue)?.id;
        let newest = draft.key.as_ref().and_then(|key| self.newest(queue, key)).map(|stored| &stored.job);
        Ok((publish::decide(rules, publish, newest, now)?, newest.map(|job| job.id)))
    }

    fn create(&mut self, rules: &Rules, publish: Publish, now: Timestamp) -> Published {
        let spec = publish.into_spec(rules, now);
        let job = publish::create(self.ids.next(now), spec);
        let published = publish::answer(rules, &job, false, true);
        let spec = Arc::clone(&job.spec);
        let queue =
            self.queues.get(&spec.queue).expect("a publish is admitted only to a queue that exists").id;
        self.insert(Stored { job, queue, lease: None, open: !spec.gated, suppressed: VecDeque::new() });
        self.open_next(&spec);
        published
    }

    /// Answers with a job that is there, and keeps a trace of who asked.
    fn suppress(
        &mut self,
        rules: &Rules,
        id: JobId,
        publish: &Publish,
        payload_matches: bool,
        now: Timestamp,
    ) -> Published {
        let trace = Suppressed { at: now, publisher: publish.draft().publisher.clone(), payload_matches };
        self.change(id, |stored| {
            stored.job.duplicates = stored.job.duplicates.saturating_add(1);
            stored.suppressed.push_back(trace);
            if stored.suppressed.len() > SUPPRESSED_MAX {
                stored.suppressed.pop_front();
            }
            publish::answer(rules, &stored.shown(), true, payload_matches)
        })
    }
}
