//! Making and changing a queue.

use clap::Args;
use semel_client::http::Call;
use serde_json::{Map, Value};

use super::super::publish::body::text_of;
use super::super::{Outcome, print, print_reply};
use super::{settings, view};
use crate::failure::Failure;
use crate::remote::Remote;
use crate::text::printable;

/// Which settings.
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The queue
    queue: String,
    /// What to change, such as maxAttempts=5
    #[arg(value_name = "NAME=VALUE", value_parser = settings::assignment)]
    change: Vec<(String, Value)>,
    /// Take all settings from this JSON file, or from stdin (-)
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// Post jobs to this webhook; the same as delivery.type=push delivery.url=URL
    #[arg(long, value_name = "URL", conflicts_with = "pull")]
    push: Option<String>,
    /// Let workers come for jobs; the same as delivery.type=pull
    #[arg(long)]
    pull: bool,
}

impl SetArgs {
    /// Reads what there is, changes it, and puts it back.
    pub(super) async fn set(&self, remote: &Remote, json: bool) -> Result<Outcome, Failure> {
        let before = self.before(remote).await?;
        let wanted = self.wanted(before.clone().unwrap_or_default())?;
        let call = Call::put(&["v1", "queues", &self.queue]).json(Value::Object(wanted).to_string());
        let reply = remote.call(&call).await?;
        if json {
            print_reply(&reply)?;
        } else {
            let after: Map<String, Value> = remote.read(&reply)?;
            print(&self.told(remote, before, after)?)?;
        }
        Ok(Outcome::Good)
    }

    async fn before(&self, remote: &Remote) -> Result<Option<Map<String, Value>>, Failure> {
        let found = remote.look_up(&Call::get(&["v1", "queues", &self.queue])).await?;
        let read = |reply| remote.read::<Map<String, Value>>(&reply);
        Ok(found.map(read).transpose()?.map(settings::of))
    }

    fn wanted(&self, before: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
        let mut wanted = match &self.file {
            Some(file) => read(file)?,
            None => before,
        };
        let push = self.push.as_ref().map(|url| ("delivery.url".to_owned(), Value::from(url.as_str())));
        let kind = if push.is_some() { Some("push") } else { self.pull.then_some("pull") };
        let kind = kind.map(|kind| ("delivery.type".to_owned(), Value::from(kind)));
        let mut changes: Vec<_> = kind.into_iter().chain(push).chain(self.change.iter().cloned()).collect();
        // The kind of delivery first: it takes away what belongs to another kind.
        changes.sort_by_key(|(name, _)| name != "delivery.type");
        for (name, value) in changes {
            settings::change(&mut wanted, &name, value).map_err(Failure::Usage)?;
        }
        settings::complete(&mut wanted);
        Ok(wanted)
    }

    fn told(
        &self,
        remote: &Remote,
        before: Option<Map<String, Value>>,
        after: Map<String, Value>,
    ) -> Result<String, Failure> {
        let queue = printable(&self.queue);
        let Some(before) = before else {
            return view::made(remote, &Value::Object(after));
        };
        let warnings = view::warnings(remote, &after)?;
        let changes = view::changes(&before, &settings::of(after));
        if changes.is_empty() {
            return Ok(format!("{queue} is as it was\n{warnings}"));
        }
        Ok(format!("{queue} was changed\n{changes}{warnings}"))
    }
}

/// The settings in a file, which may be what `queue show --json` printed.
fn read(file: &str) -> Result<Map<String, Value>, Failure> {
    let argument = if file == "-" { file.to_owned() } else { format!("@{file}") };
    let read = serde_json::from_str::<Map<String, Value>>(&text_of(&argument)?);
    let wrong = |error| Failure::Usage(format!("--file {file} does not hold a JSON object: {error}"));
    Ok(settings::of(read.map_err(wrong)?))
}
