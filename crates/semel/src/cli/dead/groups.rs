//! Dead letters by what they died of.

use clap::Args;
use semel_client::http::Call;
use serde::Deserialize;

use super::super::{Outcome, note, print, print_reply};
use crate::failure::Failure;
use crate::remote::Remote;
use crate::remote::wire::moment;
use crate::text::{count, printable};

/// Which queue, and how far back.
#[derive(Debug, Args)]
pub(super) struct GroupsArgs {
    /// The queue
    queue: String,
    /// Only those published at or after this time
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only those published before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Groups {
    groups: Vec<Group>,
    looked_at: u64,
    complete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    error: Option<String>,
    count: u64,
    example: String,
    first_at: Option<String>,
    last_at: Option<String>,
    preflight: Preflight,
}

/// What is known about the effects.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Preflight {
    applied: u64,
    not_applied: u64,
    unknown: u64,
}

impl GroupsArgs {
    pub(super) async fn show(&self, remote: &Remote, json: bool) -> Result<Outcome, Failure> {
        let call = Call::get(&["v1", "queues", &self.queue, "dead"]).query("groupBy", "error");
        let spans = [("from", &self.from), ("to", &self.to)];
        let given = spans.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let call = given.fold(call, |call, (name, value)| call.query(name, value));
        let reply = remote.call(&call).await?;
        let found: Groups = remote.read(&reply)?;
        if json {
            print_reply(&reply)?;
        } else {
            print(&found.groups.iter().map(Group::told).collect::<Vec<_>>().join("\n"))?;
            found.say_the_rest(&printable(&self.queue));
        }
        Ok(Outcome::of(found.groups.is_empty()))
    }
}

impl Groups {
    fn say_the_rest(&self, queue: &str) {
        if self.groups.is_empty() {
            note("no dead letters");
        } else {
            note(&format!("\n`semel replay --queue {queue} --error ERROR` replays those of one error"));
        }
        if !self.complete {
            note(&format!("these are the newest {}: more follow", count(self.looked_at)));
        }
    }
}

impl Group {
    fn told(&self) -> String {
        let error = self.error.as_deref().map_or_else(|| "no error is kept".to_owned(), printable);
        let between = [&self.first_at, &self.last_at].map(|at| at.as_deref().map(moment).unwrap_or_default());
        let Preflight { applied, not_applied, unknown } = &self.preflight;
        let [applied, not_applied, unknown] = [applied, not_applied, unknown].map(|n| count(*n));
        format!(
            "{} x {error}\n  died {} to {}; such as {}\n  effects: {applied} applied, {not_applied} not applied, {unknown} unknown\n",
            count(self.count),
            between[0],
            between[1],
            printable(&self.example)
        )
    }
}
