//! One turn of a worker at a queue: it leases, acknowledges, and takes both down.

use std::time::Instant;

use semel_core::time::Millis;
use semel_proof::history::{Answer, Call, Delivered, Say};
use serde_json::json;

use super::Stage;
use crate::kit::http::Client;
use crate::kit::plan::queue_name;
use crate::kit::wire::{Delivery, Leased, Settled};

/// Longer than it takes to acknowledge everything.
const LEASE_SECONDS: u64 = 10;

/// What came.
pub(crate) struct Turn {
    pub(crate) jobs: usize,
    /// How many of them may have been done before, by their own account.
    pub(crate) marked: usize,
    pub(crate) came: Instant,
}

/// Waits at most so many seconds for jobs.
pub(crate) fn take(stage: &Stage, client: &mut Client, queue: &str, wait: u64) -> Turn {
    let duration = Millis::from_secs(LEASE_SECONDS);
    let op = stage.witness.invoke(&[Call::Lease { queue: queue_name(queue), duration }]);
    let body = json!({"max": 256, "wait": wait, "leaseSeconds": LEASE_SECONDS}).to_string();
    let leased: Leased = client.post(&format!("/v1/queues/{queue}/lease"), &body).unwrap().read();
    let came = Instant::now();
    let marked = leased.jobs.iter().filter(|job| job.possibly_applied).count();
    let jobs: Vec<_> = leased.jobs.iter().map(Delivery::delivered).collect();
    stage.witness.ok(op, Answer::Leased(jobs.clone()));
    jobs.iter().for_each(|job| acknowledge(stage, client, job));
    Turn { jobs: jobs.len(), marked, came }
}

fn acknowledge(stage: &Stage, client: &mut Client, job: &Delivered) {
    let (id, token) = (job.id, job.token);
    let op = stage.witness.invoke(&[Call::Settle { id, token, say: Say::Ack }]);
    let answer = client.post(&format!("/v1/jobs/{id}/ack"), &json!({"lease": token.to_string()}).to_string());
    stage.witness.ok(op, answer.unwrap().read::<Settled>().answer(false));
}
