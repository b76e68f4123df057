//! Many publishes from a file of lines.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use semel_client::http::Call;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::super::{Outcome, note, print};
use super::body::new_key;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::remote::Remote;
use crate::text::{count, printable};

/// Most jobs in one request, as the server has it.
const COUNT_MAX: usize = 1000;

/// Most bytes in one request: a quarter of what the server takes by default.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a line without a key would be known by, if it had one.
const KEY: &str = "idempotencyKey";

/// A file whose every line is a publish.
#[derive(Debug)]
pub(super) struct Batch {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    number: usize,
    text: String,
    key: LineKey,
}

/// What a line is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKey {
    /// Nothing.
    None,
    /// What we made up, for as long as this command runs.
    Made,
    /// What the file says.
    Own,
}

/// Lines that go together.
struct Request<'a> {
    lines: &'a [Line],
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Box<RawValue>>,
}

/// One answer: a job, or a problem, which has a code.
#[derive(Default, Deserialize)]
struct Item {
    deduplicated: Option<bool>,
    code: Option<String>,
    detail: Option<String>,
}

#[derive(Default)]
struct Tally {
    new: u64,
    known: u64,
    refused: u64,
    /// Every answer, as it came.
    answers: String,
    /// What was refused, in words.
    refusals: String,
}

impl Batch {
    /// Reads all of it: what is wrong with the last line is known before the first is sent.
    pub(super) fn read(file: &Path, generate_keys: bool) -> Result<Self, Failure> {
        let name = file.display().to_string();
        let text = if name == "-" { io::read_to_string(io::stdin()) } else { fs::read_to_string(file) };
        let text = text.map_err(Failure::io(format!("read {name}")))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let lines = lines.map(|(at, line)| Line::read(at + 1, line, generate_keys));
        let lines: Vec<_> = lines.collect::<Result<_, _>>().map_err(|(line, wrong)| {
            Failure::Usage(format!("{name}, line {line}: {wrong}; nothing was published"))
        })?;
        if lines.is_empty() {
            return Err(Failure::Usage(format!("there is nothing to publish in {name}")));
        }
        Ok(Self { lines })
    }

    /// Publishes the lines in their order; every one that is refused is told.
    pub(super) async fn publish(&self, remote: &Remote, queue: &str, json: bool) -> Result<Outcome, Failure> {
        let mut tally = Tally::default();
        let sent = self.send(remote, queue, &mut tally).await;
        print(if json { &tally.answers } else { &tally.refusals })?;
        sent.inspect_err(|_| self.say_how_far(&tally))?;
        if !json {
            print(&tally.told())?;
        }
        Ok(Outcome::of(tally.refused == 0))
    }

    /// What was answered is kept until the end, because lines in the midst of a bar are hard to read.
    async fn send(&self, remote: &Remote, queue: &str, tally: &mut Tally) -> Result<(), Failure> {
        let mut progress = (self.lines.len() > COUNT_MAX).then(Progress::new);
        if let Some(progress) = &mut progress {
            progress.start("publishing", u64::try_from(self.lines.len()).unwrap_or(u64::MAX));
        }
        let mut ended = Ok(());
        for request in self.requests() {
            match request.send(remote, queue).await {
                Ok(answers) => answers.iter().for_each(|answer| tally.take(answer)),
                Err(failure) => {
                    ended = Err(failure);
                    break;
                }
            }
            if let Some(progress) = &mut progress {
                progress.set(tally.all());
            }
        }
        if let Some(progress) = &mut progress {
            progress.finish();
        }
        ended
    }

    /// A batch that ends halfway has done something; those who send it again want to know that this is fine, or is not.
    fn say_how_far(&self, tally: &Tally) {
        if tally.all() > 0 {
            let again = if self.lines.iter().all(|line| line.key == LineKey::Own) {
                "send the file again: lines that were published are found by their keys"
            } else {
                "lines without a key of their own would be published twice if the file was sent again"
            };
            note(&format!("{} of {} lines were answered; {again}", tally.all(), self.lines.len()));
        }
    }

    fn requests(&self) -> impl Iterator<Item = Request<'_>> {
        let mut rest = &self.lines[..];
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = |line: &&Line| {
                bytes += line.text.len() + 1;
                bytes <= BYTES_MAX
            };
            // One line always fits, be it as long as it may: the server says what is too long.
            let count = rest.iter().take(COUNT_MAX).take_while(fits).count().max(1).min(rest.len());
            let (lines, after) = rest.split_at(count);
            rest = after;
            (!lines.is_empty()).then_some(Request { lines })
        })
    }
}

impl Line {
    fn read(number: usize, text: &str, generate_key: bool) -> Result<Self, (usize, String)> {
        let wrong = |words: String| (number, words);
        let read: Result<BTreeMap<String, Box<RawValue>>, _> = serde_json::from_str(text);
        let mut members = read.map_err(|error| wrong(format!("not a JSON object: {error}")))?;
        if !members.contains_key("payload") {
            return Err(wrong(
                "there is no payload; a line is {\"payload\":...,\"idempotencyKey\":...}".into(),
            ));
        }
        let key = if members.contains_key(KEY) { LineKey::Own } else { LineKey::None };
        let mut line = Self { number, text: text.trim().to_owned(), key };
        if generate_key && key == LineKey::None {
            let cannot = |error: serde_json::Error| wrong(error.to_string());
            members.insert(KEY.to_owned(), to_raw_value(&new_key()).map_err(cannot)?);
            line.text = serde_json::to_string(&members).map_err(cannot)?;
            line.key = LineKey::Made;
        }
        Ok(line)
    }
}

impl Request<'_> {
    /// One answer per line, with the number of its line.
    async fn send(&self, remote: &Remote, queue: &str) -> Result<Vec<(usize, Box<RawValue>)>, Failure> {
        let jobs: Vec<_> = self.lines.iter().map(|line| line.text.as_str()).collect();
        let call = Call::post(&["v1", "queues", queue, "jobs", "batch"]);
        let call = call.json(format!("{{\"jobs\":[{}]}}", jobs.join(",")));
        let safe = self.lines.iter().all(|line| line.key != LineKey::None);
        let answer: Answer = remote.ask(&if safe { call } else { call.once() }).await?;
        if answer.results.len() != self.lines.len() {
            let words = format!("{} answers to {} lines", answer.results.len(), self.lines.len());
            return Err(remote.odd(&words));
        }
        Ok(self.lines.iter().map(|line| line.number).zip(answer.results).collect())
    }
}

impl Tally {
    /// Counts an answer, and keeps what is to be said of it.
    fn take(&mut self, (line, answer): &(usize, Box<RawValue>)) {
        let item = serde_json::from_str(answer.get()).unwrap_or_default();
        let Item { code, detail, deduplicated } = item;
        match (&code, deduplicated) {
            (None, Some(false)) => self.new += 1,
            (None, Some(true)) => self.known += 1,
            _ => {
                self.refused += 1;
                let [code, detail] = [code, detail].map(|text| printable(&text.unwrap_or_default()));
                self.refusals.push_str(&format!("line {line}: {detail} ({code})\n"));
            }
        }
        self.answers.push_str(answer.get());
        self.answers.push('\n');
    }

    fn all(&self) -> u64 {
        self.new + self.known + self.refused
    }

    fn told(&self) -> String {
        let [all, new, known, refused] = [self.all(), self.new, self.known, self.refused].map(count);
        format!("{all} lines: {new} published, {known} were published before, {refused} refused\n")
    }
}
