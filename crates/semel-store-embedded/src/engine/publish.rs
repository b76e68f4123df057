//! Publishing: find the job that holds the key, ask the rules, append at most one row.

use std::ops::ControlFlow;
use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::job::{Job, Progress};
use semel_core::key::Key;
use semel_core::publish::{self, Decision, Publish, Published, RELEASED_BY_PUBLISH};
use semel_core::refusal::Refusal;
use semel_store::{Command, Suppressed};

use super::{Engine, damaged};
use crate::fault::{Fault, No};
use crate::leases::{Place, Stub};
use crate::record;

impl Engine<'_> {
    /// Asks the key index about every key of the batches at once: a new key, the common case, is then decided without
    /// another look. `true` for what is not a publish with a key.
    pub(super) fn probe_keys(&self, batches: &[Vec<Command>]) -> Vec<bool> {
        let hash_of = |command: &Command| match command {
            Command::Publish(publish) => {
                let draft = publish.draft();
                let no = self.queues.number(&draft.queue)?;
                draft.key.as_ref().map(|key| self.hasher.hash(no, key.as_str()))
            }
            _ => None,
        };
        let hashes: Vec<Option<u64>> = batches.iter().flatten().map(hash_of).collect();
        let asked: Vec<u64> = hashes.iter().flatten().copied().collect();
        let mut answers = Vec::new();
        self.keys.probe(&asked, &mut answers);
        let mut answers = answers.into_iter();
        hashes.iter().map(|hash| hash.is_none() || answers.next().unwrap_or(true)).collect()
    }

    /// `known_new`: the index had no candidate for the key when the batch began.
    pub(super) fn publish(&mut self, publish: Publish, known_new: bool) -> Result<Published, No> {
        let name = &publish.draft().queue;
        let no = self.queues.number(name).ok_or_else(|| Refusal::QueueNotFound(name.clone()))?;
        publish::admit(&self.queue(no)?.rules, &publish, self.now)?;
        let hash = publish.draft().key.as_ref().map(|key| self.hasher.hash(no, key.as_str()));
        let newest = match (&publish.draft().key, hash) {
            (Some(key), Some(hash)) if !known_new || self.batch_hashes.contains(&hash) => {
                let key = key.clone();
                self.newest_with_key(no, &key, hash)?
            }
            _ => None,
        };
        match publish::decide(&self.queue(no)?.rules, &publish, newest.as_ref(), self.now)? {
            Decision::Create => self.create(no, publish, hash),
            Decision::Return { payload_matches } => self.suppress(no, &publish, newest, payload_matches),
            Decision::Revive { payload_matches } => {
                let id = newest.as_ref().map_or(JobId::ZERO, |job| job.id);
                self.replay(id)?;
                let revived = self.need_job(id)?.job;
                self.suppress(no, &publish, Some(revived), payload_matches)
            }
            Decision::Replace => {
                // Before the key is released: a refused publish changes nothing.
                self.require_room(hash)?;
                let id = newest.as_ref().map_or(JobId::ZERO, |job| job.id);
                self.release(id, RELEASED_BY_PUBLISH.to_owned())?;
                self.create(no, publish, hash)
            }
        }
    }

    /// The newest job published under a key, whether or not it still holds it.
    pub(super) fn newest_with_key(&mut self, no: u32, key: &Key, hash: u64) -> Result<Option<Job>, No> {
        if self.sabotage == Some(crate::Sabotage::NoDedup) {
            return Ok(None);
        }
        let db = &mut self.db;
        let mut fault = None;
        let found = self.keys.visit(hash, |raw| {
            let Some(id) = JobId::from_raw(raw) else { return ControlFlow::Continue(()) };
            let same = |rec: &[u8]| {
                record::decode_job(rec, id).map(|row| row.queue_no == no && row.key == Some(key.as_str()))
            };
            match db.job.get(id, same) {
                Ok(Some(Ok(true))) => ControlFlow::Break(id),
                Ok(Some(Ok(false)) | None) => ControlFlow::Continue(()),
                // A record that cannot be read might hold the key: the publish cannot be decided.
                Ok(Some(Err(damage))) => {
                    fault = Some(Fault::damaged("job", id, damage));
                    ControlFlow::Break(id)
                }
                Err(e) => {
                    fault = Some(Fault::Sqlite(e));
                    ControlFlow::Break(id)
                }
            }
        });
        match fault {
            Some(fault @ Fault::Damaged { .. }) => return Err(damaged(&fault)),
            Some(fault) => return Err(fault.into()),
            None => {}
        }
        match found? {
            ControlFlow::Break(id) => self.need_job(id).map(|loaded| Some(loaded.job)),
            ControlFlow::Continue(()) => Ok(None),
        }
    }

    fn require_room(&self, hash: Option<u64>) -> Result<(), Refusal> {
        let full = self.space.is_low() || (self.index_stuck && hash.is_some());
        if full { Err(Refusal::StorageFull) } else { Ok(()) }
    }

    fn create(&mut self, no: u32, publish: Publish, hash: Option<u64>) -> Result<Published, No> {
        self.require_room(hash)?;
        let id = self.ids.next(self.now);
        let spec = publish.into_spec(&self.queue(no)?.rules, self.now);
        record::encode_job(&mut self.buffer, id, no, &spec);
        self.db.job.insert(id, &self.buffer)?;
        self.last_id = id;
        self.unsealed += 1;
        if let Some(hash) = hash {
            self.keys.insert(hash, id.raw())?;
            self.batch_hashes.insert(hash);
        }
        let queue = self.queue_mut(no)?;
        queue.counts.unfinished += 1;
        if spec.is_plain() {
            queue.backlog.push(id);
        } else {
            let stub = Stub::new(id, no, &spec, Place::Waiting { live: false });
            self.enqueue(&stub, spec.run_at)?;
        }
        let progress = Progress::fresh(spec.run_at);
        let job = Job { id, spec: Arc::new(spec), progress, duplicates: 0 };
        Ok(publish::answer(&self.queue(no)?.rules, &job, false, true))
    }

    /// Answers with the first job and notes that it did. The note is not waited for: it rides on a later commit.
    fn suppress(
        &mut self,
        no: u32,
        publish: &Publish,
        first: Option<Job>,
        payload_matches: bool,
    ) -> Result<Published, No> {
        let mut job = first.ok_or_else(|| Fault::Broken("a key was found without its job".into()))?;
        let publisher = publish.draft().publisher.clone();
        self.note_suppressed(job.id, Suppressed { at: self.now, publisher, payload_matches });
        job.duplicates = job.duplicates.saturating_add(1);
        Ok(publish::answer(&self.queue(no)?.rules, &job, true, payload_matches))
    }
}
