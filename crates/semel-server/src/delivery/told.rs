//! What became of a delivery, for the journal of dev mode.

use std::fmt::Display;
use std::time::Duration;

use semel_core::lease::Delivery;
use semel_core::outcome::Outcome;
use semel_core::settle::Report;
use semel_core::time::Timestamp;

use super::target::Target;
use crate::journal::{Gloss, Line, Tone};

/// The line of a delivery. The query of the webhook is left out: it may hold a secret.
pub(super) fn line(
    at: Timestamp,
    target: &Target,
    delivery: &Delivery,
    report: &Report,
    outcome: &Outcome,
) -> Line {
    let queue = &delivery.spec.queue;
    Line {
        at,
        what: "push".into(),
        place: format!("{queue} -> {}", target.endpoint.shown()),
        status: report.status_code,
        took: report.duration.map(|took| Duration::from_millis(took.millis())),
        gloss: Some(gloss(&delivery.id, (delivery.attempt, delivery.max_attempts), outcome)),
    }
}

/// What an outcome means for a job, on this attempt of so many.
pub fn gloss(id: &dyn Display, (attempt, max_attempts): (u32, u32), outcome: &Outcome) -> Gloss {
    match outcome {
        Outcome::Done { .. } => Gloss::new(Tone::Work, format!("done {id}")),
        Outcome::Received => Gloss::new(Tone::Work, format!("received {id}")),
        Outcome::Backpressure { reason, .. } => {
            Gloss::new(Tone::Work, format!("later {id}: {}", reason.as_deref().unwrap_or("no reason")))
        }
        Outcome::Failed { error } if attempt >= max_attempts => {
            Gloss::new(Tone::Trouble, format!("dead letter {id}: {error}"))
        }
        Outcome::Failed { error } => {
            Gloss::new(Tone::Trouble, format!("failed {id}, attempt {attempt} of {max_attempts}: {error}"))
        }
        Outcome::Rejected { error } => Gloss::new(Tone::Trouble, format!("dead letter {id}: {error}")),
        Outcome::Expired => Gloss::new(Tone::Trouble, format!("the lease of {id} ran out")),
    }
}
