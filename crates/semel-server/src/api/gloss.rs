//! What requests meant, for the journal of dev mode: read off the answers, so that no handler knows of it.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use hyper::body::Body as _;
use serde::Deserialize;
use tokio::time::Instant;

use super::code::Code;
use super::problem::Problem;
use crate::journal::{Gloss, Journal, Line, Tone};
use crate::service::Service;

/// The largest answer that is looked at: many a lease of large payloads is beyond it, and still answered.
const LOOKED_AT: u64 = 4 * 1024 * 1024;

/// Answers a request, and writes down what it meant.
pub(super) async fn watch(
    State((service, journal)): State<(Arc<Service>, Journal)>,
    request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    let (response, body) = opened(next.run(request).await).await;
    let took = began.elapsed();
    let status = response.status();
    let replayed = response.headers().contains_key("idempotency-replayed");
    let answer = |body: Bytes| Answer { method: &method, path: &path, status, replayed, body: &body }.gloss();
    let gloss = body.and_then(answer);
    journal.note(Line {
        at: service.store.now(),
        what: method.to_string(),
        place: path,
        status: Some(status.as_u16()),
        took: Some(took),
        gloss,
    });
    response
}

/// An answer, and what it says if that is short and has an end; an event stream has none.
async fn opened(response: Response) -> (Response, Option<Bytes>) {
    if response.body().size_hint().exact().is_none_or(|size| size > LOOKED_AT) {
        return (response, None);
    }
    let (head, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => (Response::from_parts(head, Body::from(bytes.clone())), Some(bytes)),
        Err(_) => (Problem::new(Code::Internal, "the answer broke off").into_response(), None),
    }
}

struct Answer<'a> {
    method: &'a Method,
    path: &'a str,
    status: StatusCode,
    /// Whether it is marked as that of a duplicate. One that waited for the job's end does not say so in its body.
    replayed: bool,
    body: &'a [u8],
}

/// The members that tell what an answer means, of all kinds of answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Said {
    id: String,
    code: Option<String>,
    detail: String,
    deduplicated: bool,
    payload_matches: Option<bool>,
    jobs: Vec<Named>,
    results: Vec<Said>,
}

#[derive(Debug, Deserialize)]
struct Named {
    id: String,
}

/// Where a settled job stands. A problem has a number there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Standing {
    status: String,
}

impl Answer<'_> {
    fn gloss(&self) -> Option<Gloss> {
        let mut said: Said = serde_json::from_slice(self.body).ok()?;
        said.deduplicated |= self.replayed;
        if !self.status.is_success() {
            let code = said.code.unwrap_or_default();
            return Some(Gloss::new(Tone::Trouble, format!("{code}: {}", said.detail)));
        }
        let names: Vec<_> = self.path.split('/').skip(1).collect();
        match (self.method, &names[..]) {
            (&Method::POST, ["v1", "queues", _, "jobs"]) => Some(published(&said)),
            (&Method::POST, ["v1", "queues", _, "jobs", "batch"]) => Some(batch(&said.results)),
            (&Method::POST, ["v1", "queues", _, "lease"]) => Some(leased(&said.jobs)),
            (&Method::POST, ["v1", "jobs", _, verb]) => settled(verb, &said.id, self.body),
            (&Method::POST, ["v1", "settle"]) => Some(settles(&said.results)),
            _ => None,
        }
    }
}

fn tone_of(said: &Said) -> Tone {
    match (said.deduplicated, said.payload_matches) {
        (true, Some(false)) => Tone::Collision,
        (true, _) => Tone::Duplicate,
        (false, _) => Tone::Made,
    }
}

fn published(said: &Said) -> Gloss {
    let (id, tone) = (&said.id, tone_of(said));
    let words = match tone {
        Tone::Collision => format!("collision -> {id}"),
        Tone::Duplicate => format!("deduplicated -> {id}"),
        _ => format!("created {id}"),
    };
    Gloss::new(tone, words)
}

/// A batch in numbers; its tone is that of what deserves most to be seen.
fn batch(results: &[Said]) -> Gloss {
    let refused = results.iter().filter(|said| said.code.is_some()).count();
    let count = |tone| results.iter().filter(|said| said.code.is_none() && tone_of(said) == tone).count();
    let parts = [
        ("created", count(Tone::Made), Tone::Made),
        ("deduplicated", count(Tone::Duplicate), Tone::Duplicate),
        ("collisions", count(Tone::Collision), Tone::Collision),
        ("refused", refused, Tone::Trouble),
    ];
    let some = || parts.iter().filter(|(_, count, _)| *count > 0);
    let words: Vec<_> = some().map(|(word, count, _)| format!("{word} {count}")).collect();
    Gloss::new(some().next_back().map_or(Tone::Made, |(_, _, tone)| *tone), words.join(", "))
}

fn leased(jobs: &[Named]) -> Gloss {
    let words = match jobs {
        [] => "nothing to lease".to_owned(),
        [only] => format!("leased {}", only.id),
        many => format!("leased {}", many.len()),
    };
    Gloss::new(Tone::Work, words)
}

fn settled(verb: &str, id: &str, body: &[u8]) -> Option<Gloss> {
    let standing: Standing = serde_json::from_slice(body).unwrap_or_default();
    let gloss = match (verb, standing.status.as_str()) {
        ("ack", _) => Gloss::new(Tone::Work, format!("settled: done {id}")),
        ("nack", "dead") => Gloss::new(Tone::Trouble, format!("settled: dead letter {id}")),
        ("nack", _) => Gloss::new(Tone::Trouble, format!("settled: failed {id}")),
        ("defer", _) => Gloss::new(Tone::Work, format!("settled: later {id}")),
        ("extend", _) => Gloss::new(Tone::Work, format!("extended {id}")),
        ("cancel", _) => Gloss::new(Tone::Work, format!("cancelled {id}")),
        ("replay", _) => Gloss::new(Tone::Work, format!("replayed {id}")),
        _ => return None,
    };
    Some(gloss)
}

fn settles(results: &[Said]) -> Gloss {
    let refused = results.iter().filter(|said| said.code.is_some()).count();
    let settled = results.len() - refused;
    match refused {
        0 => Gloss::new(Tone::Work, format!("settled {settled}")),
        _ => Gloss::new(Tone::Trouble, format!("settled {settled}, refused {refused}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gloss(method: &Method, path: &str, status: u16, body: &str) -> Option<(Tone, String)> {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = Answer { method, path, status, replayed: false, body: body.as_bytes() };
        answer.gloss().map(|gloss| (gloss.tone, gloss.words))
    }

    #[test]
    fn a_publish_is_new_a_duplicate_or_a_collision() {
        let publish = |body| gloss(&Method::POST, "/v1/queues/orders/jobs", 200, body).unwrap();
        let new = r#"{"id":"job_1","status":"pending","deduplicated":false,"payloadMatches":true}"#;
        assert_eq!(publish(new), (Tone::Made, "created job_1".into()));
        let again = new.replace("false", "true");
        assert_eq!(publish(&again), (Tone::Duplicate, "deduplicated -> job_1".into()));
        let other = again.replace("\"payloadMatches\":true", "\"payloadMatches\":false");
        assert_eq!(publish(&other), (Tone::Collision, "collision -> job_1".into()));
        let batch =
            format!(r#"{{"results":[{new},{again},{new},{{"code":"invalid","detail":"x","status":400}}]}}"#);
        let told = gloss(&Method::POST, "/v1/queues/orders/jobs/batch", 200, &batch);
        assert_eq!(told, Some((Tone::Trouble, "created 2, deduplicated 1, refused 1".into())));
    }

    #[test]
    fn work_is_told_by_what_came_of_it() {
        let leased = |body| gloss(&Method::POST, "/v1/queues/q/lease", 200, body).unwrap().1;
        assert_eq!(leased(r#"{"jobs":[]}"#), "nothing to lease");
        assert_eq!(leased(r#"{"jobs":[{"id":"job_1"}]}"#), "leased job_1");
        assert_eq!(leased(r#"{"jobs":[{"id":"job_1"},{"id":"job_2"}]}"#), "leased 2");
        let settled = |verb: &str, status: &str| {
            let body = format!(r#"{{"id":"job_1","accepted":true,"status":"{status}"}}"#);
            gloss(&Method::POST, &format!("/v1/jobs/job_1/{verb}"), 200, &body).unwrap().1
        };
        assert_eq!(settled("ack", "completed"), "settled: done job_1");
        assert_eq!(settled("nack", "pending"), "settled: failed job_1");
        assert_eq!(settled("nack", "dead"), "settled: dead letter job_1");
        let many = r#"{"results":[{"id":"job_1","accepted":true},{"code":"stale_lease","detail":"x"}]}"#;
        let told = gloss(&Method::POST, "/v1/settle", 200, many);
        assert_eq!(told, Some((Tone::Trouble, "settled 1, refused 1".into())));
    }

    #[test]
    fn a_refusal_is_told_and_what_needs_no_words_has_none() {
        let problem = r#"{"code":"queue_not_found","detail":"no such queue","status":404}"#;
        let told = gloss(&Method::GET, "/v1/queues/x", 404, problem);
        assert_eq!(told, Some((Tone::Trouble, "queue_not_found: no such queue".into())));
        assert_eq!(gloss(&Method::GET, "/v1/jobs", 200, r#"{"jobs":[{"id":"job_1"}]}"#), None);
        assert_eq!(gloss(&Method::GET, "/metrics", 200, "# HELP"), None);
    }
}
