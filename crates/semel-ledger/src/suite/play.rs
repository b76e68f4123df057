//! Plays one scenario on a store.

use std::time::Duration;

use serde_json::{Value, json};

use super::Harness;
use super::scenario::{Act, ClaimAct, HolderAct, Move, Scenario};
use crate::store::{Claim, Claimed, Expired, Hold, Holder, Owner, Record, Release, State, Store};
use crate::time::Until;
use crate::{Consumer, Fingerprint, Key, Scope, Step, StoreError};

/// How much real time may pass between two moves: a lease may have this much less left than the scenario says.
const SLACK: u64 = 4_000;

pub(super) async fn play(harness: &dyn Harness, scenario: &Scenario) -> Result<(), String> {
    let player = Player { harness, scenario: &scenario.name };
    for (index, step) in scenario.steps.iter().enumerate() {
        let answer = player.act(step).await.map_err(|error| format!("step {}: {error}", index + 1))?;
        if let Some(expected) = &step.answer
            && !matches(&answer, expected)
        {
            return Err(format!("step {}: {:?} was answered {answer}, not {expected}", index + 1, step.act));
        }
    }
    Ok(())
}

struct Player<'a> {
    harness: &'a dyn Harness,
    scenario: &'a str,
}

impl Player<'_> {
    async fn act(&self, step: &Move) -> Result<Value, StoreError> {
        let store = self.harness.store();
        Ok(match &step.act {
            Act::Claim(act) => claimed(store.claim(&self.claim(act)).await?, act),
            Act::Renew(act) => {
                held(store.renew(&self.holder(act), span(act.lease_ms.unwrap_or_default())).await?, left)
            }
            Act::Complete(act) => {
                let ttl = span(act.ttl_ms.unwrap_or_default());
                held(store.complete(&self.holder(act), &act.result.to_string(), ttl).await?, |()| {
                    json!("held")
                })
            }
            Act::Release(act) => {
                let how =
                    if act.how.as_deref() == Some("forget") { Release::Forget } else { Release::Recover };
                held(store.release(&self.holder(act), how).await?, |()| json!("held"))
            }
            Act::Mark { keys, ttl_ms } => json!(store.mark(&self.scopes(keys), span(*ttl_ms)).await?),
            Act::Lookup { keys } => store.lookup(&self.scopes(keys)).await?.iter().map(record).collect(),
            Act::Prune { limit } => self.pruned(store.prune(*limit).await?, step),
            Act::PassMs(millis) => {
                self.harness.pass(span(*millis)).await;
                Value::Null
            }
        })
    }

    /// What vanishes by itself is not there to be counted.
    fn pruned(&self, count: u32, step: &Move) -> Value {
        let expected = step.answer.clone().filter(|_| self.harness.expires_by_itself() && count == 0);
        expected.unwrap_or(json!(count))
    }

    fn claim(&self, act: &ClaimAct) -> Claim {
        let window = act.window_ms.map(span);
        let spent = act.expired.as_deref() == Some("spent");
        Claim {
            scope: self.scope(act.consumer.as_deref(), &act.key, act.step.as_deref()),
            owner: Owner::from_text(&act.owner),
            fence: act.fence,
            fingerprint: act.input.as_ref().map(Fingerprint::of_value),
            lease: span(act.lease_ms),
            expired: if spent { Expired::Spent } else { Expired::TakeOver { window } },
            ttl: span(act.ttl_ms.unwrap_or_default()),
        }
    }

    fn holder(&self, act: &HolderAct) -> Holder {
        let scope = self.scope(act.consumer.as_deref(), &act.key, act.step.as_deref());
        Holder { scope, owner: Owner::from_text(&act.owner), token: act.token }
    }

    fn scopes(&self, keys: &[String]) -> Vec<Scope> {
        keys.iter().map(|key| self.scope(None, key, None)).collect()
    }

    /// Scenarios share a store, so each has consumers of its own.
    fn scope(&self, consumer: Option<&str>, key: &str, step: Option<&str>) -> Scope {
        let name: String = self.scenario.chars().take(70).collect();
        let consumer = format!("{} {name}", consumer.unwrap_or("billing"));
        Scope {
            consumer: Consumer::new(consumer).expect("scenarios have short names"),
            key: Key::new(key).expect("scenarios have good keys"),
            step: step.map_or_else(Step::whole, |step| Step::new(step).expect("scenarios have good steps")),
        }
    }
}

fn span(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn claimed(answer: Claimed, act: &ClaimAct) -> Value {
    match answer {
        Claimed::Granted(grant) => json!({"granted": {"token": grant.token, "recovering": grant.recovering}}),
        Claimed::Done(done) => json!({"done": {"result": result(done.result.as_deref())}}),
        Claimed::Busy { until } => json!({"busy": left(until)}),
        Claimed::Spent { .. } => json!("spent"),
        Claimed::Collision { recorded } => {
            let given = act.input.as_ref().map(Fingerprint::of_value).expect("only an input collides");
            json!({"collision": {"fields": recorded.differences(&given)}})
        }
        Claimed::Stale { fence } => json!({"stale": {"fence": fence}}),
    }
}

fn left(until: Until) -> Value {
    json!({"at_most_ms": u64::try_from(until.remaining.as_millis()).unwrap_or(u64::MAX)})
}

fn held<T>(answer: Hold<T>, show: impl FnOnce(T) -> Value) -> Value {
    match answer {
        Hold::Held(held) => show(held),
        Hold::Lost => json!("lost"),
    }
}

fn record(record: &Option<Record>) -> Value {
    let Some(record) = record else { return Value::Null };
    let mut shown = json!({"token": record.token});
    if let Some(fence) = record.fence {
        shown["fence"] = json!(fence);
    }
    match &record.state {
        State::Claimed { .. } => shown["state"] = json!("claimed"),
        State::Done(done) => {
            shown["state"] = json!("done");
            shown["result"] = result(done.result.as_deref());
        }
    }
    shown
}

fn result(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| json!({"not JSON": text})))
}

/// Answers are equal, but for how much of a lease is left: a little less than the scenario says, never more.
fn matches(answer: &Value, expected: &Value) -> bool {
    let left = |value: &Value| value["at_most_ms"].as_u64().or(value["busy"]["at_most_ms"].as_u64());
    match (left(answer), left(expected)) {
        (Some(left), Some(most)) => {
            left <= most && left + SLACK > most && answer["busy"].is_object() == expected["busy"].is_object()
        }
        _ => answer == expected,
    }
}
