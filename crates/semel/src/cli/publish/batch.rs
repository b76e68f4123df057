//! Many publishes from a file of lines.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use semel_client::http::{BATCH_BYTES_MAX, BATCH_COUNT_MAX, Call};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::super::{Outcome, note, print};
use super::body::new_key;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::remote::Remote;
use crate::text::{count, printable};

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
#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    Job { deduplicated: bool },
    Problem { code: String, detail: String },
}

/// The answer to a line.
struct Told {
    line: usize,
    item: Item,
    /// As it came.
    text: Box<RawValue>,
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
        let mut progress = (self.lines.len() > BATCH_COUNT_MAX).then(Progress::new);
        if let Some(progress) = &mut progress {
            progress.start("publishing", u64::try_from(self.lines.len()).unwrap_or(u64::MAX));
        }
        let mut ended = Ok(());
        for request in self.requests() {
            match request.send(remote, queue).await {
                Ok(answers) => answers.iter().for_each(|told| tally.take(told)),
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
                bytes <= BATCH_BYTES_MAX
            };
            // One line always fits, be it as long as it may: the server says what is too long.
            let count = rest.iter().take(BATCH_COUNT_MAX).take_while(fits).count().max(1).min(rest.len());
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
    /// One answer per line.
    async fn send(&self, remote: &Remote, queue: &str) -> Result<Vec<Told>, Failure> {
        let jobs: Vec<_> = self.lines.iter().map(|line| line.text.as_str()).collect();
        let call = Call::post(&["v1", "queues", queue, "jobs", "batch"]);
        let call = call.json(format!("{{\"jobs\":[{}]}}", jobs.join(",")));
        let safe = self.lines.iter().all(|line| line.key != LineKey::None);
        let answer: Answer = remote.ask(&if safe { call } else { call.once() }).await?;
        if answer.results.len() != self.lines.len() {
            let words = format!("{} answers to {} lines", answer.results.len(), self.lines.len());
            return Err(remote.odd(&words));
        }
        let told = |(line, text): (&Line, Box<RawValue>)| {
            let item = serde_json::from_str(text.get());
            let item = item.map_err(|error| remote.odd(&format!("line {}: {error}", line.number)))?;
            Ok(Told { line: line.number, item, text })
        };
        self.lines.iter().zip(answer.results).map(told).collect()
    }
}

impl Tally {
    /// Counts an answer, and keeps what is to be said of it.
    fn take(&mut self, told: &Told) {
        match &told.item {
            Item::Job { deduplicated: false } => self.new += 1,
            Item::Job { deduplicated: true } => self.known += 1,
            Item::Problem { code, detail } => {
                self.refused += 1;
                let [code, detail] = [code, detail].map(|text| printable(text));
                self.refusals.push_str(&format!("line {}: {detail} ({code})\n", told.line));
            }
        }
        self.answers.push_str(told.text.get());
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
