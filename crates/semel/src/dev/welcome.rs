//! What to do first, to be copied as it stands. It goes to stdout and nowhere else: the key is in it.

use std::env;
use std::net::SocketAddr;
use std::path::Path;

use semel_server::credentials::Secret;

/// What the first page depends on.
pub(super) struct Welcome<'a> {
    pub(super) address: SocketAddr,
    pub(super) data: Option<&'a Path>,
    pub(super) key: &'a Secret,
    pub(super) quiet: bool,
}

impl Welcome<'_> {
    pub(super) fn text(&self) -> String {
        let Self { address, key, .. } = self;
        let (key, semel, kept) = (key.expose(), program(), self.kept());
        let below = if self.quiet { "" } else { " Below: every request and every delivery, as they come." };
        format!(
            r#"Semel in dev mode: http://{address}
{kept}
Unknown queues are made when they are first used.

Try it, in another terminal:

  export SEMEL_SERVER=http://{address} SEMEL_API_KEY={key}
  export AUTH="Authorization: Bearer $SEMEL_API_KEY"

  # Publish a job under a key. Do it again, as after a time-out: the same job, "deduplicated":true.
  curl -sS -H "$AUTH" $SEMEL_SERVER/v1/queues/orders/jobs \
    --json '{{"payload":{{"order":1}},"idempotencyKey":"order-1"}}'

  # Work: lease the job, do it, and settle it with the id and the lease of the answer.
  curl -sS -H "$AUTH" $SEMEL_SERVER/v1/queues/orders/lease --json '{{"wait":10}}'
  curl -sS -H "$AUTH" $SEMEL_SERVER/v1/jobs/JOB_ID/ack --json '{{"lease":"LEASE"}}'

The same with the command line. Was order 1 done twice? And jobs for a webhook on this machine:

  {semel} publish orders '{{"order":2}}' --key order-2
  {semel} key orders order-1
  {semel} listen --queue orders --forward-to http://127.0.0.1:8080/

Ctrl-C ends it.{below}
"#
        )
    }

    fn kept(&self) -> String {
        match self.data {
            Some(dir) => format!("Jobs are kept in {}.", dir.display()),
            None => "Jobs are kept in memory and gone when this ends; --data DIR keeps them.".into(),
        }
    }
}

/// This program as it was called: `cargo run` has it where no PATH leads.
fn program() -> String {
    env::args().next().filter(|name| name.contains('/')).unwrap_or_else(|| "semel".into())
}

#[cfg(test)]
mod tests {
    use semel_server::credentials;

    use super::*;

    #[test]
    fn it_fits_a_terminal_and_shows_the_key_once() {
        let key = credentials::mint();
        let address = SocketAddr::from(([127, 0, 0, 1], 65_535));
        let text = Welcome { address, data: None, key: &key, quiet: false }.text();
        let own = text.lines().filter(|line| !line.contains("target/"));
        let widest = own.max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
        assert_eq!(text.matches(key.expose()).count(), 1);
    }
}
