//! `semel api-key`: who may do what.

use clap::{Args, Subcommand, ValueEnum};
use semel_client::http::{Call, Reply};
use serde::{Deserialize, Serialize};

use super::{Outcome, REMOTE_EXIT_CODES, note, print, print_reply};
use crate::failure::Failure;
use crate::remote::wire::moment;
use crate::remote::{Confirm, Remote, ServerArgs, Span};
use crate::table::{clip, columns};
use crate::text::printable;

const EXAMPLES: &str = "\
A key carries scopes and the queues it is for. Its secret is shown once, by itself on stdout; the
server keeps a hash of it. All of this takes a key with the scope admin.

Examples:
  semel api-key create --scope publish --queue 'orders*' --label checkout > checkout.key
  semel api-key create --scope work,read --expires-in 90d
  semel api-key list
  semel api-key rotate key_0c9e5f0f7a3b21d4      a new one like it; delete the old one then
  semel api-key delete key_0c9e5f0f7a3b21d4 --yes

Scopes: publish, work (lease and settle), read, manage (queues, dead letters, schedules), admin.";

/// Make, list, rotate and delete API keys
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct ApiKeyArgs {
    #[command(subcommand)]
    task: Task,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Make a key; its secret is printed this once
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Create(CreateArgs),
    /// List the keys, without their secrets
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    List,
    /// Make another key that may do the same; both work until one is deleted
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Rotate(RotateArgs),
    /// Take a key away: it stops working at once
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// What it may be used for; several with commas
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',')]
    scope: Vec<Scope>,
    /// Which queues, as names or globs; several with commas [default: *]
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    queue: Vec<String>,
    /// What people call it
    #[arg(long)]
    label: Option<String>,
    /// When it stops working, such as 2027-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "expires_in")]
    expires_at: Option<String>,
    /// How long it works: seconds, or 12h, 90d
    #[arg(long, value_name = "SPAN")]
    expires_in: Option<Span>,
}

#[derive(Debug, Args)]
struct RotateArgs {
    /// The id of the key
    id: String,
    /// How long the new one works [default: without end]
    #[arg(long, value_name = "SPAN")]
    expires_in: Option<Span>,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// The id of the key
    id: String,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    Publish,
    Work,
    Read,
    Manage,
    Admin,
}

impl Scope {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A key.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiKey {
    id: String,
    label: String,
    scopes: Vec<String>,
    queues: Vec<String>,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    secret: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    api_keys: Vec<ApiKey>,
}

/// A key as the API takes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wish {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    scopes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl ApiKeyArgs {
    /// Does what was asked for.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let Self { task, server } = self;
        let json = server.json;
        match task {
            Task::Create(args) => {
                let wish = args.wish()?;
                server.talk(async |remote| created(remote, &create(remote, &wish).await?, json))
            }
            Task::List => server.talk(async |remote| list(remote, json).await),
            Task::Rotate(args) => server.talk(async |remote| rotate(remote, &args, json).await),
            Task::Delete(args) => {
                let id = printable(&args.id);
                args.confirm.ask(&format!("deleting the API key {id}, which stops working at once,"))?;
                server
                    .talk(async |remote| remote.call(&Call::delete(&["v1", "api-keys", &args.id])).await)?;
                note(&format!("{id} was deleted"));
                Ok(Outcome::Good)
            }
        }
    }
}

impl CreateArgs {
    fn wish(&self) -> Result<Wish, Failure> {
        Ok(Wish {
            label: self.label.clone(),
            scopes: self.scope.iter().map(|scope| scope.name()).collect(),
            queues: self.queue.clone(),
            expires_at: match self.expires_in {
                Some(span) => Some(from_now(span)?),
                None => self.expires_at.clone(),
            },
        })
    }
}

/// The time that a span from now ends.
fn from_now(Span(span): Span) -> Result<String, Failure> {
    let far = |_| Failure::Usage("--expires-in: that is further away than any calendar has days".into());
    let end = jiff::Timestamp::now().checked_add(span).map_err(far)?;
    Ok(format!("{end:.3}"))
}

async fn create(remote: &Remote, wish: &Wish) -> Result<Reply, Failure> {
    let call = Call::post(&["v1", "api-keys"]).once().body(wish).map_err(|error| remote.failure(&error))?;
    remote.call(&call).await
}

/// The secret is all that goes to stdout, where it can be caught; the rest is for whoever looks on.
fn created(remote: &Remote, reply: &Reply, json: bool) -> Result<Outcome, Failure> {
    if json {
        print_reply(reply)?;
        return Ok(Outcome::Good);
    }
    let key: ApiKey = remote.read(reply)?;
    let [scopes, queues] = [&key.scopes, &key.queues].map(|all| printable(&all.join(", ")));
    let id = printable(&key.id);
    note(&format!("{id} may {scopes} in {queues}. Its secret, shown this once:"));
    print(&format!("{}\n", printable(&key.secret.unwrap_or_default())))?;
    Ok(Outcome::Good)
}

async fn all(remote: &Remote) -> Result<(Reply, List), Failure> {
    let reply = remote.call(&Call::get(&["v1", "api-keys"])).await?;
    let list = remote.read(&reply)?;
    Ok((reply, list))
}

async fn list(remote: &Remote, json: bool) -> Result<Outcome, Failure> {
    let (reply, List { api_keys }) = all(remote).await?;
    if json {
        print_reply(&reply)?;
    } else if api_keys.is_empty() {
        note("no API keys: the server is open to everybody on its machine");
    } else {
        let head = ["key", "label", "scopes", "queues", "expires", "last used"];
        print(&columns(head, api_keys.iter().map(row)))?;
    }
    Ok(Outcome::Good)
}

/// How wide labels and lists may be for a line that fits a terminal.
const NAME_WIDE: usize = 16;

fn row(key: &ApiKey) -> [String; 6] {
    let name = |text: &str| clip(&printable(text), NAME_WIDE);
    let time = |at: &Option<String>| at.as_deref().map_or_else(|| "never".to_owned(), moment);
    let (expires, used) = (time(&key.expires_at), time(&key.last_used_at));
    [
        printable(&key.id),
        name(&key.label),
        name(&key.scopes.join(",")),
        name(&key.queues.join(",")),
        expires,
        used,
    ]
}

/// Another key with the same rights. The old one is left to work, because it is in use until the new one is in place.
async fn rotate(remote: &Remote, args: &RotateArgs, json: bool) -> Result<Outcome, Failure> {
    let (_, List { api_keys }) = all(remote).await?;
    let id = printable(&args.id);
    let Some(old) = api_keys.into_iter().find(|key| key.id == args.id) else {
        return Err(Remote::absent(format!(
            "there is no API key {id}; `semel api-key list` shows those there are"
        )));
    };
    let expires_at = args.expires_in.map(from_now).transpose()?;
    let wish = Wish { label: Some(old.label), scopes: old.scopes, queues: old.queues, expires_at };
    let outcome = created(remote, &create(remote, &wish).await?, json)?;
    note(&format!("{id} goes on working; once the new one is in place: semel api-key delete {id}"));
    Ok(outcome)
}
