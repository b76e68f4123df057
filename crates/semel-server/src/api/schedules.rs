//! Schedules: what to publish, where, and when.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use semel_core::name::QueueName;
use semel_core::publish;
use semel_core::queue::Rules;
use semel_core::records::{QueueRecord, ScheduleRecord, Scope};
use semel_core::refusal::Refusal;
use semel_core::time::Timestamp;
use semel_core::violation::Violations;
use semel_store::Command;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth::Caller;
use super::body::Body;
use super::json::Json;
use super::path::Named;
use super::problem::{Problem, ProblemBody};
use super::wire::{self, Time};
use crate::service::Service;
use crate::upkeep::calendar::Calendar;
use crate::upkeep::schedules::job_of;

/// Longest name, in characters: with a tick behind it, it must fit into a key.
const NAME_MAX: usize = 200;

/// How many ticks an answer looks ahead.
const TICKS_SHOWN: usize = 3;

/// A schedule, as it is asked for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = NewSchedule)]
pub(super) struct ScheduleBody {
    /// The queue it publishes to.
    #[schema(required = true)]
    queue: Option<String>,
    /// Five fields (minute, hour, day of month, month, day of week), or six with seconds in front, or `@hourly`, `@daily`,
    /// `@weekly`, `@monthly`, `@yearly`.
    #[schema(required = true, max_length = 255)]
    cron: Option<String>,
    /// The time zone it is read in, by its IANA name (UTC). A fixed time of day ticks once a day also when clocks change;
    /// anything else follows real time.
    zone: Option<String>,
    /// The payload of each job.
    #[serde(deserialize_with = "wire::present")]
    #[schema(value_type = Value, required = true)]
    payload: Option<Box<RawValue>>,
}

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Schedule)]
pub(super) struct ScheduleView<'a> {
    /// Its name.
    name: &'a str,
    /// The queue it publishes to.
    queue: &'a str,
    /// The cron expression.
    cron: &'a str,
    /// The time zone it is read in.
    zone: &'a str,
    /// The payload of each job.
    #[schema(value_type = Value)]
    payload: Option<&'a RawValue>,
    /// The next tick. It is published under the key `schedule:{name}:{tick}`.
    #[schema(value_type = String, format = DateTime)]
    next_at: Time,
    /// The next ticks, that one included.
    #[schema(value_type = Vec<String>)]
    next_ticks: Vec<Time>,
}

/// Schedules.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScheduleList<'a> {
    /// By name.
    schedules: Vec<ScheduleView<'a>>,
}

impl ScheduleBody {
    /// The record it asks for, or everything that is wrong with it at once.
    fn into_record(self, name: String, now: Timestamp) -> Result<ScheduleRecord, Violations> {
        let mut wrong = Violations::default();
        wrong.require(name.chars().count() <= NAME_MAX, "name", || {
            format!("must be at most {NAME_MAX} characters")
        });
        let queue = required(&mut wrong, "queue", self.queue, |text| QueueName::try_from(text.as_str()));
        let payload = required(&mut wrong, "payload", self.payload, wire::payload);
        let zone = self.zone.unwrap_or_else(|| "UTC".to_owned());
        let cron = required(&mut wrong, "cron", self.cron, Ok);
        let next_at = match Calendar::parse(cron.as_deref().unwrap_or("* * * * *"), &zone) {
            Ok(calendar) => calendar.after(now),
            Err(problems) => Err(problems),
        };
        let next_at =
            next_at.map_err(|found| found.iter().for_each(|v| wrong.add(&v.field, &v.problem))).ok();
        match (queue, cron, payload, next_at) {
            (Some(queue), Some(cron), Some(payload), Some(next_at)) if wrong.iter().next().is_none() => {
                let payload = String::from_utf8_lossy(payload.bytes()).into_owned();
                Ok(ScheduleRecord { name, queue, cron, zone, payload, next_at })
            }
            _ => Err(wrong),
        }
    }
}

/// Reads a member that must be there, and notes what is wrong with it.
fn required<A, B>(
    wrong: &mut Violations,
    field: &str,
    value: Option<A>,
    read: impl FnOnce(A) -> Result<B, Violations>,
) -> Option<B> {
    let Some(value) = value else {
        wrong.add(field, "is required");
        return None;
    };
    read(value).map_err(|found| found.iter().for_each(|v| wrong.add(field, &v.problem))).ok()
}

impl<'a> ScheduleView<'a> {
    fn of(record: &'a ScheduleRecord) -> Self {
        let calendar = Calendar::parse(&record.cron, &record.zone).ok();
        let after = |tick: &Timestamp| calendar.as_ref()?.after(*tick).ok();
        let ticks = std::iter::successors(Some(record.next_at), after).take(TICKS_SHOWN);
        Self {
            name: &record.name,
            queue: record.queue.as_str(),
            cron: &record.cron,
            zone: &record.zone,
            payload: serde_json::from_str(&record.payload).ok(),
            next_at: Time(record.next_at),
            next_ticks: ticks.map(Time).collect(),
        }
    }
}

async fn look_up(service: &Service, name: &str) -> Result<Option<ScheduleRecord>, Problem> {
    let all = service.store.schedules().await?;
    Ok(all.into_iter().find(|schedule| schedule.name == name))
}

async fn find(
    service: &Service,
    caller: &Caller,
    scope: Scope,
    name: String,
) -> Result<ScheduleRecord, Problem> {
    caller.may(scope)?;
    let found = look_up(service, &name).await?;
    let found = found.ok_or(Refusal::RecordNotFound { kind: "schedule", name })?;
    caller.may_in(scope, &found.queue)?;
    Ok(found)
}

/// Whether the queue will take what the schedule publishes. To learn it now is better than at three in the morning.
fn check_fit(record: &ScheduleRecord, queue: QueueRecord, now: Timestamp) -> Result<(), Problem> {
    let rules = Rules::new(queue.config)?;
    Ok(publish::admit(&rules, &job_of(record, record.next_at)?, now)?)
}

/// Makes a schedule, or changes it. As long as cron and zone stay the same, so does its next tick.
#[utoipa::path(put, path = "/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path, description = "The schedule")), request_body = ScheduleBody,
    responses((status = 200, description = "Changed", body = ScheduleView), (status = 201, description = "Made", body = ScheduleView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn put_schedule(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(name): Named,
    body: Body,
) -> Result<Response, Problem> {
    caller.may(Scope::Manage)?;
    let now = service.store.now();
    let read = |asked: ScheduleBody| Ok(asked.into_record(name, now)?);
    let mut record = wire::read_checked(&body.bytes, read)?;
    caller.may_in(Scope::Manage, &record.queue)?;
    let before = look_up(&service, &record.name).await?;
    if let Some(before) = &before {
        caller.may_in(Scope::Manage, &before.queue)?;
        if (&before.cron, &before.zone) == (&record.cron, &record.zone) {
            record.next_at = before.next_at;
        }
    }
    let queue = service.store.queue(&record.queue).await?;
    let queue = queue.ok_or_else(|| Refusal::QueueNotFound(record.queue.clone()))?;
    check_fit(&record, queue, now)?;
    service.commit.submit(Command::PutSchedule(Box::new(record.clone()))).await?;
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(ScheduleView::of(&record))).into_response())
}

/// One schedule.
#[utoipa::path(get, path = "/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path, description = "The schedule")),
    responses((status = 200, description = "The schedule", body = ScheduleView), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn get_schedule(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(name): Named,
) -> Result<Response, Problem> {
    let record = find(&service, &caller, Scope::Read, name).await?;
    Ok(Json(ScheduleView::of(&record)).into_response())
}

/// Takes a schedule away. Jobs it has published stay.
#[utoipa::path(delete, path = "/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path, description = "The schedule")),
    responses((status = 204, description = "Gone"), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn delete_schedule(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(name): Named,
) -> Result<Response, Problem> {
    find(&service, &caller, Scope::Manage, name.clone()).await?;
    service.commit.submit(Command::DeleteSchedule(name)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The schedules of all queues the key is for.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules",
    responses((status = 200, description = "The schedules", body = ScheduleList), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn list_schedules(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let records = service.store.schedules().await?;
    let shown = records.iter().filter(|record| caller.covers(&record.queue)).map(ScheduleView::of);
    Ok(Json(ScheduleList { schedules: shown.collect() }).into_response())
}

pub(super) fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new()
        .routes(routes!(put_schedule, get_schedule, delete_schedule))
        .routes(routes!(list_schedules))
}

#[cfg(test)]
mod tests {
    use semel_core::queue::QueueConfig;
    use semel_core::time::Millis;
    use serde_json::{Value, json};

    use super::*;
    use crate::upkeep::stage::Stage;

    async fn stage() -> Stage {
        let stage = Stage::new().await;
        stage.queue("q", QueueConfig::default()).await;
        stage
    }

    fn hourly() -> Value {
        json!({ "queue": "q", "cron": "0 * * * *", "payload": { "a": 1.0 } })
    }

    #[tokio::test]
    async fn a_schedule_is_made_shown_changed_and_taken_away() {
        let stage = stage().await;
        let (status, made) = stage.ask("PUT", "/v1/schedules/report", Some(hourly())).await;
        let expected = json!({
            "name": "report", "queue": "q", "cron": "0 * * * *", "zone": "UTC", "payload": { "a": 1.0 },
            "nextAt": "2026-11-15T13:00:00.000Z",
            "nextTicks": ["2026-11-15T13:00:00.000Z", "2026-11-15T14:00:00.000Z", "2026-11-15T15:00:00.000Z"],
        });
        assert_eq!((status, &made), (201, &expected));
        assert_eq!(stage.ask("GET", "/v1/schedules/report", None).await, (200, made.clone()));
        assert_eq!(stage.ask("GET", "/v1/schedules", None).await, (200, json!({ "schedules": [made] })));

        stage.alarm.advance(Millis::from_hours(5));
        let (status, same) = stage.ask("PUT", "/v1/schedules/report", Some(hourly())).await;
        assert_eq!(
            (status, &same["nextAt"]),
            (200, &expected["nextAt"]),
            "a tick that is due is not skipped"
        );
        let daily = json!({ "queue": "q", "cron": "@daily", "zone": "Asia/Tokyo", "payload": null });
        let (_, changed) = stage.ask("PUT", "/v1/schedules/report", Some(daily)).await;
        assert_eq!(changed["nextAt"], "2026-11-16T15:00:00.000Z");

        assert_eq!(stage.ask("DELETE", "/v1/schedules/report", None).await.0, 204);
        let (status, problem) = stage.ask("DELETE", "/v1/schedules/report", None).await;
        assert_eq!((status, &problem["code"]), (404, &json!("record_not_found")));
    }

    #[tokio::test]
    async fn everything_that_is_wrong_is_named() {
        let stage = stage().await;
        for (body, fields) in [
            (json!({}), vec!["queue", "payload", "cron"]),
            (
                json!({ "queue": "../q", "cron": "*/0 * * * *", "zone": "Mars", "payload": 1 }),
                vec!["queue", "cron", "zone"],
            ),
            (json!({ "queue": "q", "cron": "* * 31 2 *", "payload": 1 }), vec!["cron"]),
            (json!({ "queue": "q", "cron": "* * * * *", "payload": 1, "colour": 2 }), vec!["colour"]),
        ] {
            let (status, problem) = stage.ask("PUT", "/v1/schedules/s", Some(body.clone())).await;
            let named =
                problem["violations"].as_array().unwrap().iter().map(|v| v["field"].as_str().unwrap());
            assert_eq!((status, named.collect::<Vec<_>>()), (400, fields), "{body}");
        }
        let long = "s".repeat(NAME_MAX + 1);
        let (status, _) = stage.ask("PUT", &format!("/v1/schedules/{long}"), Some(hourly())).await;
        assert_eq!(status, 400);
        let (status, _) = stage.ask("PUT", &format!("/v1/schedules/{}", &long[1..]), Some(hourly())).await;
        assert_eq!(status, 201, "the longest name fits into a key");
    }

    #[tokio::test]
    async fn a_queue_that_would_refuse_the_ticks_is_found_out_at_once() {
        let stage = stage().await;
        let strict = QueueConfig { key_pattern: Some("order-[0-9]+".into()), ..QueueConfig::default() };
        stage.queue("strict", strict).await;
        stage.queue("small", QueueConfig { payload_limit: 1, ..QueueConfig::default() }).await;
        for (queue, status, code) in [
            ("strict", 422, "key_pattern"),
            ("small", 413, "payload_too_large"),
            ("none", 404, "queue_not_found"),
        ] {
            let body = json!({ "queue": queue, "cron": "@daily", "payload": "long" });
            let (got, problem) = stage.ask("PUT", "/v1/schedules/s", Some(body)).await;
            assert_eq!((got, &problem["code"]), (status, &json!(code)), "{queue}");
        }
        assert_eq!(stage.service.store.schedules().await.unwrap(), []);
    }
}
