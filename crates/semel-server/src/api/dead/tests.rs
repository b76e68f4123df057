//! Dead letters over the API, without a socket.

use serde_json::{Value, json};

use super::*;
use crate::service::{AuthMode, Options};
use crate::upkeep::stage::Stage;

async fn stage() -> Stage {
    let stage = Stage::new().await;
    stage.queue("q", QueueConfig::default()).await;
    stage
}

async fn job(stage: &Stage, id: JobId) -> Option<Job> {
    stage.service.store.job(id).await.unwrap()
}

fn fields(problem: &Value) -> Vec<&str> {
    problem["violations"].as_array().unwrap().iter().map(|v| v["field"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn they_are_listed_newest_first_with_a_cursor() {
    let stage = stage().await;
    let first = stage.dead("q", None, "boom").await;
    let second = stage.dead("q", None, "boom").await;
    stage.publish("q", None).await;
    let (status, page) = stage.ask("GET", "/v1/queues/q/dead?limit=1", None).await;
    assert_eq!((status, &page["jobs"][0]["id"]), (200, &json!(second.to_string())));
    let cursor = page["nextCursor"].as_str().unwrap();
    let (_, page) = stage.ask("GET", &format!("/v1/queues/q/dead?limit=1&cursor={cursor}"), None).await;
    assert_eq!(page["jobs"][0]["id"], first.to_string());
}

#[tokio::test]
async fn a_listing_that_makes_no_sense_is_refused() {
    let stage = stage().await;
    for (query, field) in [
        ("groupBy=key", "groupBy"),
        ("groupBy=error&groupBy=error", "groupBy"),
        ("status=dead", "status"),
        ("queue=q", "queue"),
        ("limit=0", "limit"),
        ("cursor=c1.x", "cursor"),
        ("colour=red", "colour"),
    ] {
        let (status, problem) = stage.ask("GET", &format!("/v1/queues/q/dead?{query}"), None).await;
        assert_eq!((status, fields(&problem)), (400, vec![field]), "{query}");
    }
    for method in ["GET", "DELETE"] {
        let (status, problem) = stage.ask(method, "/v1/queues/none/dead?confirm=none", None).await;
        let code = if method == "GET" { "invalid" } else { "queue_not_found" };
        assert_eq!(problem["code"], code, "{method} {status}");
    }
    let (status, _) = stage.ask("GET", "/v1/queues/none/dead", None).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn they_are_grouped_by_what_they_died_of() {
    let stage = stage().await;
    stage.dead("q", None, "order 17 is gone").await;
    stage.alarm.advance(semel_core::time::Millis::from_secs(1));
    let newest = stage.dead("q", None, "order 23 is gone").await;
    stage.dead("q", None, "connection refused").await;
    let (status, answer) = stage.ask("GET", "/v1/queues/q/dead?groupBy=error", None).await;
    assert_eq!(status, 200);
    assert_eq!(
        (&answer["lookedAt"], &answer["complete"], &answer["nextCursor"]),
        (&json!(3), &json!(true), &Value::Null)
    );
    let groups = answer["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    let expected = json!({
        "error": "order N is gone", "count": 2, "example": newest.to_string(),
        "firstAt": "2026-11-15T12:00:00.000Z", "lastAt": "2026-11-15T12:00:01.000Z",
        "preflight": { "applied": 0, "notApplied": 0, "unknown": 2 },
    });
    assert_eq!(groups[0], expected);
}

#[tokio::test]
async fn a_scan_that_is_cut_off_says_so() {
    let stage = stage().await;
    for _ in 0..3 {
        stage.dead("q", None, "boom").await;
    }
    // A page for payloads of the largest size has two jobs, so two pages have four.
    let config = QueueConfig { payload_limit: 16 * 1024 * 1024, ..QueueConfig::default() };
    let query = JobQuery { state: Some(lifecycle::State::Dead), ..JobQuery::default() };
    let mut walk = Walk::new(&stage.service, query, &config);
    walk.pages = PAGES_MAX - 1;
    assert_eq!(walk.next().await.unwrap().map(|jobs| jobs.len()), Some(2));
    assert!(walk.next().await.unwrap().is_none());
    assert!(!walk.ended && walk.next_cursor().is_some());
}

#[tokio::test]
async fn a_purge_of_all_wants_the_name_twice() {
    let stage = stage().await;
    let id = stage.dead("q", None, "boom").await;
    for path in ["/v1/queues/q/dead", "/v1/queues/q/dead?confirm=p", "/v1/queues/q/dead?confirm="] {
        let (status, problem) = stage.ask("DELETE", path, None).await;
        assert_eq!((status, fields(&problem)), (400, vec!["confirm"]));
    }
    assert!(job(&stage, id).await.is_some());
    let waiting = stage.publish("q", None).await;
    let (status, answer) = stage.ask("DELETE", "/v1/queues/q/dead?confirm=q", None).await;
    assert_eq!((status, answer), (200, json!({ "purged": 1, "complete": true, "nextCursor": null })));
    assert!(job(&stage, id).await.is_none());
    assert!(job(&stage, waiting).await.is_some());
}

#[tokio::test]
async fn one_is_purged_only_as_a_dead_letter_of_its_queue() {
    let stage = stage().await;
    stage.queue("other", QueueConfig::default()).await;
    let id = stage.dead("q", None, "boom").await;
    let (status, _) = stage.ask("DELETE", &format!("/v1/queues/other/dead/{id}"), None).await;
    assert_eq!(status, 404);
    let (status, _) = stage.ask("DELETE", &format!("/v1/queues/q/dead/{id}"), None).await;
    assert_eq!(status, 204);
    let waiting = stage.publish("q", None).await;
    let (status, problem) = stage.ask("DELETE", &format!("/v1/queues/q/dead/{waiting}"), None).await;
    assert_eq!((status, &problem["code"]), (409, &json!("wrong_state")));
}

#[tokio::test]
async fn one_is_replayed_once() {
    let stage = stage().await;
    let id = stage.dead("q", None, "boom").await;
    let path = format!("/v1/jobs/{id}/replay");
    let (status, job) = stage.ask("POST", &path, None).await;
    assert_eq!((status, &job["status"], &job["replays"]), (200, &json!("pending"), &json!(1)));
    let (status, problem) = stage.ask("POST", &path, None).await;
    assert_eq!((status, &problem["code"]), (409, &json!("wrong_state")));
}

#[tokio::test]
async fn a_replay_of_many_that_makes_no_sense_starts_nothing() {
    let stage = stage().await;
    for (body, field) in [
        (json!({ "rate": 0 }), "rate"),
        (json!({ "rate": -1 }), "rate"),
        (json!({ "dryRun": "yes" }), "dryRun"),
        (json!({ "filter": { "effects": ["some"] } }), "filter"),
        (json!({ "filter": { "group": "" } }), "filter.group"),
        (
            json!({ "filter": { "from": "2026-11-15T00:00:00Z", "to": "2026-11-14T00:00:00Z" } }),
            "filter.from",
        ),
        (json!({ "speed": 1 }), "speed"),
    ] {
        let (status, problem) = stage.ask("POST", "/v1/queues/q/dead/replay", Some(body.clone())).await;
        assert_eq!((status, fields(&problem)), (400, vec![field]), "{body}");
    }
    let (status, _) = stage.ask("POST", "/v1/queues/none/dead/replay", None).await;
    assert_eq!(status, 404);
    assert_eq!(stage.service.store.replays().await.unwrap(), []);
}

#[test]
fn ids_of_tasks_order_by_time() {
    let ids: Vec<_> = [1, 2, 1 << 40].into_iter().map(|ms| new_id(Timestamp::from_millis(ms))).collect();
    assert!(ids.is_sorted(), "{ids:?}");
}

/// Everything in this folder that a key may or may not do: dead letters, replays and schedules of the queue `q`.
async fn requests(stage: &Stage) -> Vec<(&'static str, String, Option<Value>)> {
    let id = stage.dead("q", None, "boom").await;
    let replay = ReplayRecord {
        id: "r".into(),
        queue: QueueName::try_from("q").unwrap(),
        filter: FilterBody::default().into_filter().unwrap(),
        rate: None,
        dry_run: true,
        state: ReplayState::Running,
        created_at: stage.now(),
        finished_at: None,
        cursor: None,
        counts: ReplayCounts::default(),
    };
    stage.submit(Command::PutReplay(Box::new(replay))).await;
    let schedule = json!({ "queue": "q", "cron": "@daily", "payload": 1 });
    vec![
        ("PUT", "/v1/schedules/s".to_owned(), Some(schedule)),
        ("GET", "/v1/schedules/s".to_owned(), None),
        ("GET", "/v1/queues/q/dead".to_owned(), None),
        ("GET", "/v1/queues/q/dead?groupBy=error".to_owned(), None),
        ("GET", "/v1/replays/r".to_owned(), None),
        ("DELETE", "/v1/replays/r".to_owned(), None),
        ("DELETE", "/v1/schedules/s".to_owned(), None),
        ("POST", "/v1/queues/q/dead/replay".to_owned(), None),
        ("POST", format!("/v1/jobs/{id}/replay"), None),
        ("DELETE", format!("/v1/queues/q/dead/{id}"), None),
        ("DELETE", "/v1/queues/q/dead?confirm=q".to_owned(), None),
    ]
}

#[tokio::test]
async fn a_key_sees_and_changes_only_what_it_is_for() {
    let stage = Stage::with(Options { auth: AuthMode::Keys, ..Options::default() }).await;
    stage.queue("q", QueueConfig::default()).await;
    stage.grant("reads", vec![Scope::Read], "q").await;
    stage.grant("manages", vec![Scope::Manage, Scope::Read], "q").await;
    stage.grant("elsewhere", vec![Scope::Manage, Scope::Read], "p").await;
    stage.grant("works", vec![Scope::Publish, Scope::Work], "q").await;
    stage.service.keyring.reload(stage.service.store.as_ref()).await.unwrap();
    for (method, path, body) in requests(&stage).await {
        let told = async |secret: &str| stage.ask_with(secret, method, &path, body.clone()).await.0;
        assert_eq!(told("nobody").await, 401, "{method} {path}");
        assert_eq!(told("works").await, 403, "{method} {path}");
        assert_eq!(told("elsewhere").await, 403, "{method} {path}");
        assert_eq!(told("reads").await, if method == "GET" { 200 } else { 403 }, "{method} {path}");
        let manages = told("manages").await;
        // The job was replayed by the request before, so it is no dead letter any more.
        let expected = if path.contains("/dead/job_") { 409..=409 } else { 200..=204 };
        assert!(expected.contains(&manages), "{method} {path}: {manages}");
    }
    stage
        .ask_with(
            "manages",
            "PUT",
            "/v1/schedules/s",
            Some(json!({ "queue": "q", "cron": "@daily", "payload": 1 })),
        )
        .await;
    for (path, list) in [("/v1/replays", "replays"), ("/v1/schedules", "schedules")] {
        let (_, seen) = stage.ask_with("reads", "GET", path, None).await;
        assert!(!seen[list].as_array().unwrap().is_empty(), "{path}");
        assert_eq!(stage.ask_with("elsewhere", "GET", path, None).await, (200, json!({ list: [] })));
    }
}
