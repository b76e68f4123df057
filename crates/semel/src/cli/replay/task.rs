//! A replay task, as the server tells it.

use semel_client::http::Call;
use serde::Deserialize;

use super::super::{Outcome, note, print, print_reply};
use crate::failure::Failure;
use crate::paint::{Paint, Tone, of_status};
use crate::remote::Remote;
use crate::remote::wire::moment;
use crate::table::painted;
use crate::text::{count, printable};

/// A task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replay {
    pub(super) id: String,
    pub(super) queue: String,
    pub(super) dry_run: bool,
    pub(super) state: String,
    created_at: String,
    pub(super) counts: Counts,
}

/// How far it has come.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    pub(super) looked_at: u64,
    pub(super) matched: u64,
    replayed: u64,
    refused: u64,
    applied: u64,
    not_applied: u64,
    unknown: u64,
}

#[derive(Deserialize)]
struct List {
    replays: Vec<Replay>,
}

impl Replay {
    pub(super) fn is_running(&self) -> bool {
        self.state == "running"
    }

    /// Whether it ended, and did all it was to do.
    fn went_well(&self) -> bool {
        self.state == "done" && self.counts.refused == 0
    }

    /// What it came to.
    pub(super) fn told(&self) -> String {
        let Counts { looked_at, matched, replayed, refused, .. } = &self.counts;
        let [looked_at, matched, replayed, refused] =
            [looked_at, matched, replayed, refused].map(|n| count(*n));
        let done = if self.dry_run {
            format!("{matched} would be replayed, of {looked_at} looked at (dry run)")
        } else {
            format!("{replayed} replayed, {refused} refused, {matched} matched, {looked_at} looked at")
        };
        let [id, queue, state] = [&self.id, &self.queue, &self.state].map(|text| printable(text));
        let state = Paint::stdout().text(of_status(&state), &state);
        format!("{id} of {queue}: {state}\n  {done}\n  {}\n", self.effects())
    }

    /// What is known about the effects of those it takes.
    fn effects(&self) -> String {
        let Counts { applied, not_applied, unknown, .. } = &self.counts;
        let [applied, not_applied, unknown] = [applied, not_applied, unknown].map(|n| count(*n));
        format!("their effects: {applied} applied, {not_applied} not applied, {unknown} unknown")
    }
}

/// What it means for a script that a task ended like this, or was not waited for.
pub(super) fn outcome(ended: Option<&Replay>) -> Outcome {
    Outcome::of(ended.is_some_and(Replay::went_well))
}

/// Shows the task that a call is answered with.
pub(super) async fn show(remote: &Remote, call: &Call, json: bool) -> Result<Outcome, Failure> {
    let reply = remote.call(call).await?;
    if json {
        print_reply(&reply)?;
    } else {
        print(&remote.read::<Replay>(&reply)?.told())?;
    }
    Ok(Outcome::Good)
}

/// Lists all tasks.
pub(super) async fn list(remote: &Remote, json: bool) -> Result<Outcome, Failure> {
    let reply = remote.call(&Call::get(&["v1", "replays"])).await?;
    if json {
        print_reply(&reply)?;
        return Ok(Outcome::Good);
    }
    let list: List = remote.read(&reply)?;
    if list.replays.is_empty() {
        note("no replays in the last week");
        return Ok(Outcome::Good);
    }
    let head = ["task", "state", "queue", "asked for", "matched", "replayed", "refused"];
    let rows = list.replays.iter().map(|task| {
        let Counts { matched, replayed, refused, .. } = &task.counts;
        let [matched, replayed, refused] = [matched, replayed, refused].map(|n| count(*n));
        let [id, state, queue] = [&task.id, &task.state, &task.queue].map(|text| printable(text));
        [id, state, queue, moment(&task.created_at), matched, replayed, refused]
    });
    let tone = |column: usize, cell: &str| if column == 1 { of_status(cell) } else { Tone::Plain };
    print(&painted(head, rows, Paint::stdout(), tone))?;
    Ok(Outcome::Good)
}
