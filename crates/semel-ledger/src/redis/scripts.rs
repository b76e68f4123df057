//! The scripts of `ledger/redis`, and how they are run.

use std::sync::Arc;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, Pipeline, RedisResult, Script, ServerErrorKind, Value};

/// The version of what `ledger/redis/README.md` describes.
pub(super) const LAYOUT: u32 = 1;

#[derive(Debug, Clone)]
pub(super) struct Scripts {
    pub(super) claim: Arc<Script>,
    pub(super) renew: Arc<Script>,
    pub(super) complete: Arc<Script>,
    pub(super) release: Arc<Script>,
    pub(super) lookup: Arc<Script>,
}

impl Scripts {
    pub(super) fn new() -> Self {
        let script = |text| Arc::new(Script::new(text));
        Self {
            claim: script(include_str!("../../../../ledger/redis/claim.lua")),
            renew: script(include_str!("../../../../ledger/redis/renew.lua")),
            complete: script(include_str!("../../../../ledger/redis/complete.lua")),
            release: script(include_str!("../../../../ledger/redis/release.lua")),
            lookup: script(include_str!("../../../../ledger/redis/lookup.lua")),
        }
    }
}

/// A script's call, by its hash.
pub(super) fn call(script: &Script, entry: &str, arguments: &[String]) -> Cmd {
    let mut command = ::redis::cmd("EVALSHA");
    command.arg(script.get_hash()).arg(1).arg(entry).arg(arguments);
    command
}

/// Runs commands that call one script, in one round trip. A Redis that does not know the script (it was restarted) gets it,
/// and is asked again: it has run none of them.
pub(super) async fn run<C: ConnectionLike>(
    connection: &mut C,
    script: &Script,
    commands: &mut Pipeline,
) -> RedisResult<Vec<Value>> {
    match send(connection, commands).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            script.load_async(connection).await?;
            send(connection, commands).await
        }
        answer => answer,
    }
}

/// Sends commands in one round trip. One error is the error of all, with its code, which the pipeline's own would hide.
pub(super) async fn send<C: ConnectionLike>(
    connection: &mut C,
    commands: &mut Pipeline,
) -> RedisResult<Vec<Value>> {
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let answers: Vec<RedisResult<Value>> = commands.ignore_errors().query_async(connection).await?;
    answers.into_iter().collect()
}
