//! `semel dev`: a server to try things on.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use semel_server::config::Config;
use semel_server::credentials::{self, Secret};
use semel_server::delivery::guard::Guard;
use semel_store::{MemoryStore, Store, SystemClock};
use semel_store_embedded::Options;

use crate::failure::Failure;
use crate::host::{self, Host, Place};
use crate::{logs, opening, signals};

/// Serves until a signal ends it, on memory or in a directory.
pub(crate) fn run(listen: SocketAddr, data: Option<PathBuf>) -> Result<(), Failure> {
    let key = credentials::mint();
    let config = Config { listen, bootstrap_key: Some(key.clone()), ..Config::default() };
    logs::start(config.log);
    let stop = signals::listen()?;
    let store: Arc<dyn Store> = match &data {
        Some(dir) => Arc::new(opening::store(dir, Options::default())?),
        None => Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))),
    };
    let place = Place::embedded(data.as_deref().unwrap_or("memory".as_ref()), store);
    let ready = move |address: SocketAddr| {
        let text = welcome(address, data.as_ref(), &key);
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::io("print"))
    };
    // Webhooks of a developer are on the developer's machine.
    let host = Host { guard: Guard::open_to_loopback(), config, place, dev: true };
    host::runtime()?.block_on(host.run(Box::new(ready), stop))
}

/// What to do first, to be copied line by line. It goes to stdout and nowhere else: the key is in it.
fn welcome(address: SocketAddr, data: Option<&PathBuf>, key: &Secret) -> String {
    let kept = match data {
        Some(dir) => format!("Jobs are kept in {}.", dir.display()),
        None => "Jobs are kept in memory and gone when this ends; --data DIR keeps them.".into(),
    };
    let key = key.expose();
    format!(
        r#"Semel in dev mode: http://{address}
{kept} Unknown queues are made when they are first used.
The key of this run: {key}

Try it, in another terminal:

  export SEMEL=http://{address}/v1 AUTH='Authorization: Bearer {key}'

  # publish a job under a key
  curl -sS -H "$AUTH" $SEMEL/queues/orders/jobs --json '{{"payload":{{"order":1}},"idempotencyKey":"order-1"}}'

  # publish it again, as after a time-out: the same job, "deduplicated":true
  curl -sS -H "$AUTH" $SEMEL/queues/orders/jobs --json '{{"payload":{{"order":1}},"idempotencyKey":"order-1"}}'

  # work: lease a job, then settle it with its id and its lease from the answer
  curl -sS -H "$AUTH" $SEMEL/queues/orders/lease --json '{{"max":1}}'
  curl -sS -H "$AUTH" $SEMEL/jobs/JOB_ID/ack --json '{{"lease":"LEASE"}}'

Ctrl-C ends it.
"#
    )
}
