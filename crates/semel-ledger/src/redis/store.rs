//! The law, by scripts.

use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, Pipeline, Script, Value};
use async_trait::async_trait;

use super::reply::Fields;
use super::{Redis, credentials, failed, new_layout, scripts, span};
use crate::store::{Claim, Claimed, Expired, Hold, Holder, Record, Release, Store};
use crate::time::Until;
use crate::{Fingerprint, Scope, StoreError, StoreErrorKind};

#[async_trait]
impl<C: ConnectionLike + Clone + Send + Sync + 'static> Store for Redis<C> {
    fn name(&self) -> &'static str {
        "redis"
    }

    /// There are no tables. What is made is the mark by which a loss is noticed; what is refused is a Redis that may drop
    /// entries to make room.
    async fn ensure_schema(&self) -> Result<(), StoreError> {
        self.refuse_eviction().await?;
        let mut make = ::redis::pipe();
        make.cmd("SET").arg(self.layout_name()).arg(new_layout()).arg("NX").ignore();
        let (found,): (String,) = make
            .cmd("GET")
            .arg(self.layout_name())
            .query_async(&mut self.connection.clone())
            .await
            .map_err(failed("marking the layout"))?;
        check_version(&found)?;
        self.layout.get_or_init(|| found.clone());
        self.check_layout(Some(&found))
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let call = scripts::call(&self.scripts.claim, &self.entry(&claim.scope), &arguments(claim));
        let mut answers = self.ask(&self.scripts.claim, vec![call], "claiming").await?;
        let answer = answers.pop().and_then(|answer| Fields::of(answer).transpose());
        answer.unwrap_or_else(|| Err(silent("claiming")))?.claimed()
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError> {
        let answer = self.settle(&self.scripts.renew, holder, [span(lease).to_string()], "renewing").await?;
        match Fields::of(answer)? {
            Some(fields) => Ok(Hold::Held(fields.renewed()?)),
            None => Ok(Hold::Lost),
        }
    }

    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError> {
        let how = [result.to_owned(), span(ttl).to_string()];
        let answer = self.settle(&self.scripts.complete, holder, how, "completing").await?;
        Ok(held(&answer))
    }

    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError> {
        let how = match release {
            Release::Forget => "forget",
            Release::Recover => "recover",
        };
        let answer = self.settle(&self.scripts.release, holder, [how.to_owned()], "releasing").await?;
        Ok(held(&answer))
    }

    /// No script: nothing is as fast as `SET NX`. That everything was lost is not noticed here; whoever marks has effects
    /// that may happen again.
    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        let (ttl, mut connection) = (span(ttl), self.connection.clone());
        if let [scope] = scopes {
            // Most mark one key, and for one a pipeline is a detour.
            let answer = self.marking(scope, ttl).query_async(&mut connection).await;
            let answer: Value = answer.map_err(failed("marking"))?;
            return Ok(vec![answer == Value::Okay]);
        }
        let mut marks = Pipeline::with_capacity(scopes.len());
        for scope in scopes {
            marks.add_command(self.marking(scope, ttl));
        }
        let answers = scripts::send(&mut connection, &mut marks).await.map_err(failed("marking"))?;
        Ok(answers.iter().map(|answer| *answer == Value::Okay).collect())
    }

    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
        let calls = scopes.iter().map(|scope| scripts::call(&self.scripts.lookup, &self.entry(scope), &[]));
        let answers = self.ask(&self.scripts.lookup, calls.collect(), "looking up").await?;
        let read = |answer| Fields::of(answer)?.map(Fields::record).transpose();
        answers.into_iter().map(read).collect()
    }

    /// Redis removes expired entries by itself.
    async fn prune(&self, _limit: u32) -> Result<u32, StoreError> {
        Ok(0)
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Redis<C> {
    fn marking(&self, scope: &Scope, ttl: i64) -> Cmd {
        let mut command = ::redis::cmd("SET");
        command.arg(self.entry(scope)).arg(ttl).arg("NX").arg("PX").arg((ttl - 1).max(1));
        command
    }

    /// Runs calls of a script, and then looks whether the entries they asked about are still those that there were.
    async fn ask(
        &self,
        script: &Script,
        calls: Vec<Cmd>,
        act: &'static str,
    ) -> Result<Vec<Value>, StoreError> {
        self.expected_layout()?;
        let mut commands = Pipeline::with_capacity(calls.len() + 1);
        for call in calls {
            commands.add_command(call);
        }
        commands.cmd("GET").arg(self.layout_name());
        let mut connection = self.connection.clone();
        let mut answers = scripts::run(&mut connection, script, &mut commands).await.map_err(failed(act))?;
        let layout = answers.pop().ok_or_else(|| silent(act))?;
        let layout: Option<String> =
            ::redis::from_redis_value(layout).map_err(|error| failed(act)(error.into()))?;
        self.check_layout(layout.as_deref())?;
        Ok(answers)
    }

    /// Runs a script that only the holder may run.
    async fn settle<const N: usize>(
        &self,
        script: &Script,
        holder: &Holder,
        how: [String; N],
        act: &'static str,
    ) -> Result<Value, StoreError> {
        let mut call = script.key(self.entry(&holder.scope));
        call.arg(&credentials(holder)).arg(&how);
        call.invoke_async(&mut self.connection.clone()).await.map_err(failed(act))
    }

    async fn refuse_eviction(&self) -> Result<(), StoreError> {
        let mut info = ::redis::cmd("INFO");
        let memory: String = info
            .arg("memory")
            .query_async(&mut self.connection.clone())
            .await
            .map_err(failed("asking Redis for its settings"))?;
        match evicting_policy(&memory) {
            None => Ok(()),
            Some(policy) => Err(StoreError::new(
                StoreErrorKind::Refused,
                format!(
                    "this Redis drops entries when memory runs out (maxmemory-policy {policy}), and an effect whose entry \
                     is gone would happen again: set maxmemory-policy noeviction, or use another Redis"
                ),
            )),
        }
    }
}

fn arguments(claim: &Claim) -> [String; 6] {
    [
        claim.owner.to_string(),
        claim.fence.map(|fence| fence.to_string()).unwrap_or_default(),
        claim.fingerprint.as_ref().map(Fingerprint::to_text).unwrap_or_default(),
        span(claim.lease).to_string(),
        match claim.expired {
            Expired::Spent => "spent".to_owned(),
            Expired::TakeOver { window: None } => "take-over".to_owned(),
            Expired::TakeOver { window: Some(window) } => span(window).to_string(),
        },
        span(claim.ttl).to_string(),
    ]
}

fn held(answer: &Value) -> Hold<()> {
    if *answer == Value::Nil { Hold::Lost } else { Hold::Held(()) }
}

fn silent(act: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("Redis answered nothing to {act}"))
}

/// The policy of `INFO memory`, if entries may be dropped by it.
fn evicting_policy(info: &str) -> Option<&str> {
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let limited = value("maxmemory").is_some_and(|bytes| bytes.trim() != "0");
    value("maxmemory_policy").map(str::trim).filter(|policy| limited && *policy != "noeviction")
}

fn check_version(layout: &str) -> Result<(), StoreError> {
    let version = layout.split_whitespace().next().and_then(|version| version.parse::<u32>().ok());
    match version {
        Some(scripts::LAYOUT) => Ok(()),
        Some(newer) => Err(StoreError::new(
            StoreErrorKind::Schema,
            format!(
                "the entries have layout {newer}, and this program knows layout {}; update it",
                scripts::LAYOUT
            ),
        )),
        None => Err(StoreError::new(StoreErrorKind::Corrupt, format!("{layout:?} is no layout"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_that_drops_entries_is_recognised() {
        let info = |limit: &str, policy: &str| {
            format!("# Memory\r\nused_memory:1\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n")
        };
        assert_eq!(evicting_policy(&info("1000", "allkeys-lru")), Some("allkeys-lru"));
        assert_eq!(evicting_policy(&info("1000", "volatile-ttl")), Some("volatile-ttl"));
        assert_eq!(evicting_policy(&info("1000", "noeviction")), None);
        assert_eq!(evicting_policy(&info("0", "allkeys-lru")), None);
    }

    #[test]
    fn another_layout_is_refused() {
        assert!(check_version("1 abc").is_ok());
        assert_eq!(check_version("2 abc").unwrap_err().kind(), StoreErrorKind::Schema);
        assert_eq!(check_version("abc").unwrap_err().kind(), StoreErrorKind::Corrupt);
    }
}
