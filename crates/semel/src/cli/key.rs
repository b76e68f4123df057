//! `semel key`: everything that happened under a key.

mod verdict;

use clap::{Args, ValueEnum};
use semel_client::http::Call;
use serde::Deserialize;
use serde_json::json;

use super::{Outcome, REMOTE_EXIT_CODES, print, print_reply};
use crate::failure::Failure;
use crate::paint::{Paint, Tone, of_status};
use crate::remote::wire::{Job, Receipt, moment};
use crate::remote::{Confirm, Remote, ServerArgs};
use crate::table::{clip, painted};
use crate::text::printable;
use verdict::Verdict;

const EXAMPLES: &str = "\
\"Was order 9482 charged twice?\" The first line answers; below it is what happened, in order:
publishes and those that were suppressed, deliveries, receipts, replays, and when the key stops
holding.

Examples:
  semel key orders order-9482
  semel key orders order-9482 --json | jq '.timeline[] | select(.event == \"suppressed\")'
  semel key orders order-9482 release --reason 'charged by hand' --yes

A key that was released holds no more: the next publish under it makes a new job. Exit code 1 says
that the effect was applied more than once.";

/// Show everything that happened under a key, or release it
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct KeyArgs {
    /// The queue
    queue: String,
    /// The key
    key: String,
    /// What to do with it: release lets the next publish under it make a new job
    #[arg(value_name = "ACTION")]
    action: Option<Action>,
    /// Why it is released; kept with the job
    #[arg(long, requires = "action")]
    reason: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    Release,
}

/// A key, as the server knows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    key: String,
    queue: String,
    holds: bool,
    expires_at: Option<String>,
    duplicates: u32,
    job: Job,
    timeline: Vec<Moment>,
}

/// Something that happened.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Moment {
    at: String,
    event: String,
    publisher: Option<String>,
    payload_matches: Option<bool>,
    attempt: Option<u32>,
    status: Option<String>,
    detail: Option<String>,
    effect: Option<Receipt>,
}

impl KeyArgs {
    /// Shows or releases.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let path = ["v1", "queues", &self.queue, "keys", &self.key];
        match self.action {
            Some(Action::Release) => {
                let [key, queue] = [&self.key, &self.queue].map(|name| printable(name));
                self.confirm.ask(&format!("releasing {key} in {queue}"))?;
                self.server.talk(async |remote| self.release(remote, Call::delete(&path)).await)
            }
            None => self.server.talk(async |remote| self.show(remote, &Call::get(&path)).await),
        }
    }

    async fn show(&self, remote: &Remote, call: &Call) -> Result<Outcome, Failure> {
        let reply = remote.call(call).await?;
        let key: Key = remote.read(&reply)?;
        let verdict = Verdict::of(&key);
        if self.server.json {
            print_reply(&reply)?;
        } else {
            print(&render(&key, &verdict, Paint::stdout()))?;
        }
        Ok(Outcome::of(!verdict.is_twice()))
    }

    async fn release(&self, remote: &Remote, call: Call) -> Result<Outcome, Failure> {
        let call = match &self.reason {
            Some(reason) => call.json(json!({ "reason": reason }).to_string()),
            None => call,
        };
        let reply = remote.call(&call).await?;
        if self.server.json {
            print_reply(&reply)?;
        } else {
            let [key, queue] = [&self.key, &self.queue].map(|name| printable(name));
            print(&format!("{key} was released: the next publish under it makes a new job in {queue}\n"))?;
        }
        Ok(Outcome::Good)
    }
}

fn render(key: &Key, verdict: &Verdict, paint: Paint) -> String {
    let head = ["at", "event", "what"];
    let rows = key
        .timeline
        .iter()
        .map(|entry| [moment(&entry.at), printable(&entry.event), clip(&entry.words(), WORDS_WIDE)]);
    let tone = |column: usize, cell: &str| match (column, cell) {
        (1, "suppressed") => Tone::Busy,
        (2, _) => of_status(cell.split([' ', ':', ',']).next().unwrap_or_default()),
        _ => Tone::Plain,
    };
    let [name, queue] = [&key.key, &key.queue].map(|name| printable(name));
    let answer = paint.text(verdict.tone(), &verdict.words());
    format!(
        "{name} in {queue}: {answer}\n  {}\n  {}\n\n{}",
        verdict::publishes(key),
        verdict::hold(key),
        painted(head, rows, paint, tone)
    )
}

/// How wide the last column may be for a line that fits a terminal.
const WORDS_WIDE: usize = 60;

impl Moment {
    fn words(&self) -> String {
        let attempt = self.attempt.map(|number| format!("attempt {number}"));
        let payload =
            self.payload_matches.map(|same| if same { "same payload" } else { "OTHER payload" }.to_owned());
        let publisher = self.publisher.as_ref().map(|who| format!("by {who}"));
        let receipt = self.effect.as_ref().map(Receipt::shown);
        let words = [self.status.clone(), receipt, attempt, payload, publisher, self.detail.clone()];
        printable(&words.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}
