//! API keys: who may do what, to which queues, until when.

use std::path::Path;

use http::Method;
use semel_server::service::{AuthMode, Options};
use serde_json::{Value, json};

use crate::kit::{Client, World, eventually, millis, scenarios, secs};

scenarios!(with guarded:
    without_a_key_nothing_is_answered,
    a_key_does_what_its_scopes_say_and_nothing_else,
    a_key_reaches_only_the_queues_it_is_for,
    a_key_for_some_queues_is_shown_only_those,
    a_batch_of_settles_is_checked_item_by_item,
    an_admin_of_some_queues_makes_no_keys,
    a_key_ends_at_its_time,
    two_keys_live_at_once_and_one_that_is_taken_away_ends_at_once,
    the_last_use_of_a_key_is_kept,
    no_answer_but_the_first_has_a_secret,
    a_key_that_does_not_validate_is_not_made,
);

fn guarded(_: &Path) -> Options {
    Options { auth: AuthMode::Keys, ..Options::default() }
}

/// A client with a new key.
async fn holder(world: &World, body: Value) -> Client {
    let made = world.client.post("/v1/api-keys", body).await.expect(201);
    world.client.with_secret(made["secret"].as_str())
}

async fn call(client: &Client, (method, path): (&str, &str)) -> crate::kit::Answer {
    let method: Method = method.parse().unwrap();
    let body = (method != Method::GET).then(|| "{}".to_owned());
    client.send(method, path, &[], body).await
}

async fn without_a_key_nothing_is_answered(world: &World) {
    world.queue("q", json!({})).await;
    let boss = world.client.secret().unwrap();
    let last = if boss.ends_with('x') { 'y' } else { 'x' };
    let mistyped = format!("{}{last}", &boss[..boss.len() - 1]);
    let huge = format!("sml_{}", "x".repeat(10_000));
    for secret in
        [None, Some(""), Some("sml_"), Some(mistyped.as_str()), Some(huge.as_str()), Some(&boss[1..])]
    {
        let answer = world.client.with_secret(secret).get("/v1/queues/q").await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"semel\"");
        assert!(!answer.text.contains(boss) && !answer.text.contains(&mistyped), "{}", answer.text);
        answer.problem(401, "unauthorized");
    }
    let nobody = world.client.with_secret(None);
    for name in ["key", "apiKey", "api_key", "access_token", "authorization"] {
        nobody.get(&format!("/v1/queues?{name}={boss}")).await.problem(401, "unauthorized");
    }
    for header in [format!("Basic {boss}"), boss.to_owned(), format!("Bearer{boss}")] {
        let headers = [("authorization", header.as_str())];
        nobody.send(Method::GET, "/v1/queues", &headers, None).await.problem(401, "unauthorized");
    }
    let spelled = format!("bearer  {boss}");
    nobody.send(Method::GET, "/v1/queues", &[("authorization", &spelled)], None).await.expect(200);
    for open in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/errors/unauthorized"] {
        assert_eq!(nobody.get(open).await.status, 200, "{open}");
    }
}

/// Every way to use the API, by the scope it takes. `JOB` stands for a job's id.
const USES: &[(&str, &[(&str, &str)])] = &[
    ("publish", &[("POST", "/v1/queues/q/jobs"), ("POST", "/v1/queues/q/jobs/batch")]),
    (
        "work",
        &[
            ("POST", "/v1/queues/q/lease"),
            ("POST", "/v1/jobs/JOB/ack"),
            ("POST", "/v1/jobs/JOB/nack"),
            ("POST", "/v1/jobs/JOB/defer"),
            ("POST", "/v1/jobs/JOB/extend"),
            ("POST", "/v1/settle"),
        ],
    ),
    (
        "read",
        &[
            ("GET", "/v1/jobs/JOB"),
            ("GET", "/v1/jobs"),
            ("GET", "/v1/jobs?queue=q"),
            ("GET", "/v1/queues/q/keys/k"),
            ("GET", "/v1/queues/q"),
            ("GET", "/v1/queues"),
            ("GET", "/v1/queues/q/dead"),
            ("GET", "/v1/replays"),
            ("GET", "/v1/replays/r"),
            ("GET", "/v1/schedules"),
            ("GET", "/v1/schedules/s"),
            ("GET", "/v1/stats"),
            ("GET", "/v1/nodes"),
            ("GET", "/v1/advice"),
            ("POST", "/v1/queues/q/dedupe-dry-run"),
        ],
    ),
    (
        "manage",
        &[
            ("PUT", "/v1/queues/q"),
            ("POST", "/v1/queues/q/pause"),
            ("POST", "/v1/queues/q/resume"),
            ("POST", "/v1/queues/q/secrets/rotate"),
            ("POST", "/v1/queues/q/dead/replay"),
            ("DELETE", "/v1/queues/q/dead"),
            ("DELETE", "/v1/queues/q/dead/JOB"),
            ("POST", "/v1/jobs/JOB/replay"),
            ("PUT", "/v1/schedules/s"),
            ("DELETE", "/v1/schedules/s"),
            ("DELETE", "/v1/replays/r"),
            ("DELETE", "/v1/queues/q/keys/other"),
            ("DELETE", "/v1/queues/none"),
        ],
    ),
    ("admin", &[("GET", "/v1/api-keys"), ("POST", "/v1/api-keys"), ("DELETE", "/v1/api-keys/none")]),
];

async fn a_key_does_what_its_scopes_say_and_nothing_else(world: &World) {
    world.queue("q", json!({})).await;
    let id = world.publish("q", json!({ "payload": 1, "idempotencyKey": "k" })).await["id"].clone();
    for (held, _) in USES {
        let client = holder(world, json!({ "scopes": [held] })).await;
        for (needed, uses) in USES {
            for (method, path) in *uses {
                let path = path.replace("JOB", id.as_str().unwrap());
                let answer = call(&client, (method, &path)).await;
                if needed == held || *held == "admin" {
                    assert!(
                        ![401, 403, 500].contains(&answer.status.as_u16()),
                        "{held}: {method} {path}: {}",
                        answer.text
                    );
                } else {
                    let problem = answer.problem(403, "forbidden");
                    assert!(
                        problem["detail"].as_str().unwrap().contains(needed),
                        "it says which scope: {problem}"
                    );
                }
            }
        }
    }
    let worker = holder(world, json!({ "scopes": ["work", "publish"] })).await;
    for path in ["/v1/events", "/v1/events?queue=q"] {
        worker.get(path).await.problem(403, "forbidden");
    }
}

async fn a_key_reaches_only_the_queues_it_is_for(world: &World) {
    for queue in ["orders.eu", "orders.us", "mail"] {
        world.queue(queue, json!({})).await;
    }
    let theirs = world.publish("mail", json!({ "payload": 1, "idempotencyKey": "k" })).await["id"].clone();
    let scopes = json!(["publish", "work", "read", "manage"]);
    let client = holder(world, json!({ "scopes": scopes, "queues": ["orders.*"] })).await;
    for queue in ["orders.eu", "orders.us"] {
        client.post(&format!("/v1/queues/{queue}/jobs"), json!({ "payload": 1 })).await.expect(201);
    }
    let needs_a_queue = USES.iter().filter(|(scope, _)| *scope != "admin").flat_map(|(_, uses)| *uses);
    for (method, path) in needs_a_queue {
        let by_queue =
            path.contains("/q/") || path.ends_with("/q") || path.contains("=q") || path.contains("JOB");
        if by_queue {
            let path = path.replace("/q", "/mail").replace("/mailueues", "/queues").replace("=q", "=mail");
            let path = path.replace("JOB", theirs.as_str().unwrap());
            call(&client, (method, &path)).await.problem(403, "forbidden");
        }
    }
    for everything in ["/v1/jobs", "/v1/events", "/v1/events?queue=mail"] {
        client.get(everything).await.problem(403, "forbidden");
    }
    let schedule = json!({ "queue": "mail", "cron": "@daily", "payload": 1 });
    client.put("/v1/schedules/s", schedule.clone()).await.problem(403, "forbidden");
    world.client.put("/v1/schedules/s", schedule).await.expect(201);
    let moved = json!({ "queue": "orders.eu", "cron": "@daily", "payload": 1 });
    client.put("/v1/schedules/s", moved).await.problem(403, "forbidden");
    client.delete("/v1/schedules/s").await.problem(403, "forbidden");
    let job = world.job(theirs.as_str().unwrap()).await;
    assert_eq!(
        (&job["status"], &job["duplicates"]),
        (&json!("pending"), &json!(0)),
        "nothing was done to it"
    );
}

async fn a_key_for_some_queues_is_shown_only_those(world: &World) {
    for queue in ["a", "b"] {
        world.queue(queue, json!({})).await;
        let schedule = json!({ "queue": queue, "cron": "@daily", "payload": 1 });
        world.client.put(&format!("/v1/schedules/{queue}"), schedule).await.expect(201);
        world.client.post(&format!("/v1/queues/{queue}/dead/replay"), json!({})).await.expect(202);
    }
    let client = holder(world, json!({ "scopes": ["read"], "queues": ["a"] })).await;
    let queues = client.get("/v1/queues").await.expect(200);
    assert_eq!(names(&queues["queues"], "name"), ["a"]);
    let stats = client.get("/v1/stats").await.expect(200);
    assert_eq!(stats["queues"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(names(&client.get("/v1/schedules").await.expect(200)["schedules"], "queue"), ["a"]);
    assert_eq!(names(&client.get("/v1/replays").await.expect(200)["replays"], "queue"), ["a"]);
}

fn names<'a>(list: &'a Value, member: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[member].as_str().unwrap()).collect()
}

async fn a_batch_of_settles_is_checked_item_by_item(world: &World) {
    let mut items = Vec::new();
    for queue in ["mine", "theirs"] {
        world.queue(queue, json!({})).await;
        world.publish(queue, json!({ "payload": 1 })).await;
        let leased = world.lease_one(queue).await;
        items.push(json!({ "id": leased["id"], "action": "ack", "lease": leased["lease"] }));
    }
    let client = holder(world, json!({ "scopes": ["work"], "queues": ["mine"] })).await;
    let answer = client.post("/v1/settle", json!({ "items": items })).await.expect(200);
    assert_eq!(
        (&answer["results"][0]["accepted"], &answer["results"][1]["code"]),
        (&json!(true), &json!("forbidden"))
    );
    assert_eq!(world.job(items[1]["id"].as_str().unwrap()).await["status"], "processing");
}

async fn an_admin_of_some_queues_makes_no_keys(world: &World) {
    let client = holder(world, json!({ "scopes": ["admin"], "queues": ["a*"] })).await;
    client.put("/v1/queues/abc", json!({})).await.expect(201);
    client.put("/v1/queues/b", json!({})).await.problem(403, "forbidden");
    client.post("/v1/api-keys", json!({ "scopes": ["admin"] })).await.problem(403, "forbidden");
    client.get("/v1/api-keys").await.problem(403, "forbidden");
    client.delete("/v1/api-keys/bootstrap").await.problem(403, "forbidden");
}

async fn a_key_ends_at_its_time(world: &World) {
    let end = "2026-11-15T12:01:00Z";
    let client = holder(world, json!({ "scopes": ["read"], "expiresAt": end })).await;
    world.advance(millis(59_999));
    client.get("/v1/stats").await.expect(200);
    world.advance(millis(1));
    client.get("/v1/stats").await.problem(401, "unauthorized");
    world.client.get("/v1/stats").await.expect(200);
}

async fn two_keys_live_at_once_and_one_that_is_taken_away_ends_at_once(world: &World) {
    let asked = json!({ "label": "shop", "scopes": ["read"] });
    let before = world.client.post("/v1/api-keys", asked.clone()).await.expect(201);
    let after = holder(world, asked).await;
    let old = world.client.with_secret(before["secret"].as_str());
    old.get("/v1/stats").await.expect(200);
    after.get("/v1/stats").await.expect(200);
    let path = format!("/v1/api-keys/{}", before["id"].as_str().unwrap());
    assert_eq!(world.client.delete(&path).await.status, 204);
    old.get("/v1/stats").await.problem(401, "unauthorized");
    after.get("/v1/stats").await.expect(200);
    world.client.delete(&path).await.problem(404, "record_not_found");
}

async fn the_last_use_of_a_key_is_kept(world: &World) {
    let made =
        world.client.post("/v1/api-keys", json!({ "label": "shop", "scopes": ["read"] })).await.expect(201);
    assert_eq!(made["lastUsedAt"], Value::Null);
    world.advance(secs(30));
    world.client.with_secret(made["secret"].as_str()).get("/v1/stats").await.expect(200);
    world.advance(secs(60));
    let listed = eventually(async || {
        let all = world.client.get("/v1/api-keys").await.expect(200);
        let key = all["apiKeys"].as_array().unwrap().iter().find(|key| key["id"] == made["id"]).cloned();
        key.filter(|key| !key["lastUsedAt"].is_null())
    });
    assert_eq!(listed.await["lastUsedAt"], "2026-11-15T12:00:30.000Z");
}

async fn no_answer_but_the_first_has_a_secret(world: &World) {
    let delivery = json!({ "type": "push", "url": "http://127.0.0.1:9/hook" });
    let put = world.client.put("/v1/queues/q", json!({ "delivery": delivery, "concurrency": 1 })).await;
    assert!(!put.text.contains("whsec_"), "{}", put.text);
    put.expect(201);
    let webhook =
        world.client.post("/v1/queues/q/secrets/rotate", json!({})).await.expect(200)["secret"].clone();
    let webhook = webhook.as_str().unwrap();
    assert!(webhook.starts_with("whsec_"), "{webhook}");
    let made = world.client.post("/v1/api-keys", json!({ "scopes": ["read"] })).await.expect(201);
    let secret = made["secret"].as_str().unwrap();
    let hash = semel_server::credentials::hash(secret);
    world.client.post("/v1/queues/q/pause", json!({})).await.expect(200);
    let id = world.publish("q", json!({ "payload": 1, "idempotencyKey": "k" })).await["id"].clone();
    let job = format!("/v1/jobs/{}", id.as_str().unwrap());
    for path in [
        "/v1/api-keys",
        "/v1/queues",
        "/v1/queues/q",
        "/v1/queues/q/keys/k",
        "/v1/queues/q/dead",
        "/v1/jobs",
        &job,
        "/v1/stats",
        "/v1/schedules",
        "/v1/replays",
        "/metrics",
        "/openapi.json",
        "/v1/nothing",
    ] {
        let text = world.client.get(path).await.text;
        for hidden in [webhook, "whsec_", secret, world.client.secret().unwrap(), &hash] {
            assert!(!text.contains(hidden), "{path} shows {hidden}: {text}");
        }
    }
    let settings = json!({ "delivery": delivery, "secret": "mine" });
    world.client.put("/v1/queues/q", settings).await.problem(400, "invalid");
}

async fn a_key_that_does_not_validate_is_not_made(world: &World) {
    let before = world.client.get("/v1/api-keys").await.expect(200);
    for (body, fields) in [
        (json!({}), vec!["scopes"]),
        (json!({ "scopes": [] }), vec!["scopes"]),
        (json!({ "scopes": ["root"] }), vec!["scopes"]),
        (json!({ "scopes": ["read"], "queues": [""] }), vec!["queues"]),
        (json!({ "scopes": ["read"], "queues": vec!["a"; 101] }), vec!["queues"]),
        (json!({ "scopes": [], "label": "a\nb", "queues": ["\u{0}"] }), vec!["scopes", "label", "queues"]),
        (json!({ "scopes": ["read"], "expiresAt": "tomorrow" }), vec!["expiresAt"]),
        (json!({ "scopes": ["read"], "secret": "sml_mine" }), vec!["secret"]),
    ] {
        let problem = world.client.post("/v1/api-keys", body).await.problem(400, "invalid");
        assert_eq!(names(&problem["violations"], "field"), fields);
    }
    let after = world.client.get("/v1/api-keys").await.expect(200);
    assert_eq!(before["apiKeys"].as_array().unwrap().len(), after["apiKeys"].as_array().unwrap().len());
}
