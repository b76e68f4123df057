//! `semel tail`: what happens on a server, as it happens.

use std::io;
use std::time::Duration;

use clap::Args;
use semel_client::http::{Call, Event};
use semel_server::journal::Tone;
use semel_server::news::Kind;
use serde::Deserialize;

use super::{ENDED_AT_ONCE, Outcome, REMOTE_EXIT_CODES, note, print};
use crate::failure::Failure;
use crate::remote::{Remote, ServerArgs};
use crate::screen::Screen;
use crate::signals;
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  semel tail                                     everything, on all queues
  semel tail --queue orders --kind job.dead      only dead letters of one queue
  semel tail --kind 'job.d*' --kind duplicate.persistent
  semel tail --json | jq .job                    an object per line, as the server sends it

Events carry no payload and no key. With many nodes, each tells what happened on it. When the
connection is lost, it is made again; what happened meanwhile is not shown. Ctrl-C ends it.";

/// The first wait before a lost stream is opened again; each is twice the one before.
const WAIT_FIRST: Duration = Duration::from_millis(500);

/// The longest such wait: somebody is looking, and a server takes seconds to restart.
const WAIT_MOST: Duration = Duration::from_secs(10);

/// What a failure ends with that may pass.
const TRY_AGAIN: u8 = 3;

/// The longest name of a kind.
const KIND: usize = 20;

/// Show events as they happen
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}\n{ENDED_AT_ONCE}"))]
pub(crate) struct TailArgs {
    /// Only of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only of this kind; `*` stands for anything; may be given several times
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// An event as the server sends it.
#[derive(Debug, Deserialize)]
struct Told {
    #[serde(rename = "type")]
    kind: String,
    at: String,
    queue: Option<String>,
    job: Option<String>,
    detail: Option<String>,
}

/// What is shown, and how.
struct Tail<'a> {
    kinds: &'a [String],
    json: bool,
    screen: Screen,
    /// How wide queues are: as wide as the widest so far, so that lines stay aligned.
    queues: usize,
}

impl TailArgs {
    /// Shows events until a signal ends it.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        self.kind.iter().try_for_each(|kind| is_some_kind(kind))?;
        let stop = signals::listen()?;
        let mut call = Call::get(&["v1", "events"]);
        if let Some(queue) = &self.queue {
            call = call.query("queue", queue);
        }
        let screen = Screen::on(&io::stdout());
        let mut tail = Tail { kinds: &self.kind, json: self.server.json, screen, queues: 8 };
        self.server.talk(async |remote| {
            tokio::select! {
                ended = tail.run(remote, &call) => ended,
                () = stop.stopped() => Ok(()),
            }
        })?;
        Ok(Outcome::Good)
    }
}

/// A kind that no event has would be waited for in vain.
fn is_some_kind(pattern: &str) -> Result<(), Failure> {
    if Kind::ALL.iter().any(|kind| fits(pattern, kind.name())) {
        return Ok(());
    }
    let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    Err(Failure::Usage(format!("--kind {pattern}: no event is called so; there are {}", names.join(", "))))
}

/// Whether a name is as a pattern says, in which `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|skipped| rest.get(skipped..).is_some_and(|rest| fits(after, rest)))
        }),
    }
}

impl Tail<'_> {
    /// Shows events for as long as the server can be reached, now and then.
    async fn run(&mut self, remote: &Remote, call: &Call) -> Result<(), Failure> {
        // A server that cannot be reached at all is a mistake in the address, most likely.
        let mut events = remote.events(call).await?;
        loop {
            let lost = loop {
                match remote.next(&mut events).await {
                    Ok(Some(event)) => self.show(&event)?,
                    Ok(None) => break format!("{} ended the stream", remote.server()),
                    Err(failure) if failure.exit_code() == TRY_AGAIN => break failure.to_string(),
                    Err(failure) => return Err(failure),
                }
            };
            events = reopen(remote, call, lost).await?;
        }
    }

    fn show(&mut self, event: &Event) -> Result<(), Failure> {
        if event.kind == "missed" {
            say(&format!(
                "{} events were missed: they came faster than they were read",
                printable(&event.data)
            ));
            return Ok(());
        }
        if !self.kinds.is_empty() && !self.kinds.iter().any(|pattern| fits(pattern, &event.kind)) {
            return Ok(());
        }
        if self.json {
            return print(&format!("{}\n", event.data));
        }
        let told: Told = serde_json::from_str(&event.data)
            .map_err(|error| Failure::Broken(format!("an event that cannot be read: {error}")))?;
        let line = self.line(&told);
        print(&(line + "\n"))
    }

    fn line(&mut self, told: &Told) -> String {
        let queue = printable(told.queue.as_deref().unwrap_or("-"));
        self.queues = self.queues.max(queue.chars().count());
        // A time that is none is shown as it came.
        let time = told.at.parse().map_or_else(|_| printable(&told.at), |at| self.screen.time(at));
        let width = self.queues;
        let kind = self.screen.toned(tone_of(&told.kind), &format!("{:KIND$}", printable(&told.kind)));
        let (job, detail) = (told.job.as_deref().unwrap_or(""), told.detail.as_deref().unwrap_or(""));
        let line = format!("{time}  {kind}  {queue:width$}  {}  {}", printable(job), printable(detail));
        line.trim_end().to_owned()
    }
}

/// Opens a stream again, says so, and is the more patient the longer it takes.
async fn reopen(
    remote: &Remote,
    call: &Call,
    mut lost: String,
) -> Result<semel_client::http::Events, Failure> {
    let mut wait = WAIT_FIRST;
    loop {
        say(&format!("{lost}; connecting again in {:.1} s", wait.as_secs_f64()));
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WAIT_MOST);
        match remote.events(call).await {
            Ok(events) => {
                say("connected again; what happened meanwhile is not shown");
                return Ok(events);
            }
            Err(failure) if failure.exit_code() == TRY_AGAIN => lost = failure.to_string(),
            Err(failure) => return Err(failure),
        }
    }
}

/// What is not an event goes to stderr.
fn say(words: &str) {
    note(&format!("semel: {words}"));
}

fn tone_of(kind: &str) -> Tone {
    match kind {
        "job.published" => Tone::Made,
        "job.deduplicated" | "duplicate.persistent" => Tone::Duplicate,
        "job.collision" => Tone::Collision,
        "job.dead" | "job.retrying" | "job.expired" | "advice.lease" => Tone::Trouble,
        _ => Tone::Work,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("job.dead", "job.dead", true),
            ("job.*", "job.dead", true),
            ("job.*", "queue.changed", false),
            ("*", "queue.changed", true),
            ("*.d*d", "job.deferred", true),
            ("job", "job.dead", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        assert!(is_some_kind("job.d*").is_ok());
        let said = is_some_kind("job.died").unwrap_err().to_string();
        assert!(said.contains("job.dead") && !said.contains('\n'), "{said}");
    }

    #[test]
    fn lines_stand_below_each_other() {
        let screen = Screen::on(&std::fs::File::open("/dev/null").unwrap());
        let mut tail = Tail { kinds: &[], json: false, screen, queues: 8 };
        let mut line = |text: &str| tail.line(&serde_json::from_str(text).unwrap())[8..].to_owned();
        let first = line(
            r#"{"type":"job.published","at":"2026-11-15T12:00:00Z","queue":"orders","job":"job_1","detail":null}"#,
        );
        let second = line(
            r#"{"type":"duplicate.persistent","at":"2026-11-15T12:00:00Z","queue":"a-longer-one","job":"job_2","detail":"9 times"}"#,
        );
        assert_eq!(first, "  job.published         orders    job_1");
        assert_eq!(second, "  duplicate.persistent  a-longer-one  job_2  9 times");
    }
}
