//! Bad input: always a 4xx problem with its code, nothing changed, and the same connection usable afterwards.

mod json;
mod paths;
mod publishes;
mod settings;
mod work;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::kit::{Line, World};

/// A request that must be refused, and how.
struct Case {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    status: u16,
    code: &'static str,
}

impl Case {
    fn new(method: &str, path: &str, body: impl Into<Bytes>) -> Self {
        let method = method.parse().unwrap();
        Self {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: body.into(),
            status: 400,
            code: "invalid",
        }
    }

    fn publish(body: impl Into<Bytes>) -> Self {
        Self::new("POST", "/v1/queues/q/jobs", body)
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn is(mut self, status: u16, code: &'static str) -> Self {
        (self.status, self.code) = (status, code);
        self
    }
}

/// Everything that a bad request could have changed.
async fn state(world: &World) -> Value {
    let mut stats = world.client.get("/v1/stats").await.expect(200);
    stats.as_object_mut().unwrap().remove("waiting");
    let mut all = vec![stats];
    for path in ["/v1/queues", "/v1/jobs?limit=1000", "/v1/schedules", "/v1/replays", "/v1/api-keys"] {
        all.push(world.client.get(path).await.expect(200));
    }
    Value::Array(all)
}

/// Sends every case over one connection. Returns the problems.
async fn refused(world: &World, cases: impl IntoIterator<Item = Case>) -> Vec<Value> {
    let before = state(world).await;
    let mut line = world.line().await;
    let mut problems = Vec::new();
    for case in cases {
        problems.push(refuse(&mut line, case).await);
    }
    assert_eq!(state(world).await, before, "nothing changed");
    problems
}

async fn refuse(line: &mut Line, case: Case) -> Value {
    let headers: Vec<_> = case.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let shown = String::from_utf8_lossy(&case.body[..case.body.len().min(100)]).into_owned();
    let words = format!("{} {} {shown}", case.method, &case.path[..case.path.len().min(100)]);
    let answer = line.send(case.method, &case.path, &headers, case.body).await;
    let found = (answer.status.as_u16(), answer.json["code"].as_str().unwrap_or_default().to_owned());
    assert_eq!(found, (case.status, case.code.to_owned()), "{words}: {}", answer.text);
    let problem = answer.problem(case.status, case.code);
    line.get("/healthz").await.expect(200);
    problem
}

fn fields(problem: &Value) -> Vec<&str> {
    problem["violations"].as_array().unwrap().iter().map(|v| v["field"].as_str().unwrap()).collect()
}
