//! Trying again: the key stays, the server's wishes count, and the deadline is kept.

use std::time::Duration;

use semel_client::Publish;
use semel_client::http::{Call, Client, Code, Error, Failure};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::scripted::{Scripted, answer, published, published_body};

const BUSY: &str = r#"{"code":"store_busy","detail":"busy","status":503,"retryable":true}"#;

fn client(url: &str, deadline: Duration) -> Client {
    Client::builder(url).deadline(deadline).api_key("sml_1").build().unwrap()
}

fn wish() -> Publish {
    Publish::new("q", &json!({ "n": 1 })).unwrap()
}

#[tokio::test]
async fn every_try_carries_the_same_key() {
    let busy = || answer(503, &[], BUSY);
    let server = Scripted::start([busy(), answer(502, &[], "<html>"), busy(), published("job_1")]).await;
    let client = client(&server.url(), Duration::from_secs(30));
    let wish = wish();
    assert_eq!(client.publish(&wish).await.unwrap().id, "job_1");
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    for asked in asked {
        assert_eq!(asked.path, "/v1/queues/q/jobs");
        assert_eq!(asked.body["idempotencyKey"], wish.idempotency_key());
        assert_eq!(asked.authorization.as_deref(), Some("Bearer sml_1"));
    }
}

#[tokio::test]
async fn nobody_comes_back_before_the_server_wants_it() {
    for status in [429, 503] {
        let server = Scripted::start([answer(status, &[("retry-after", "1")], ""), published("job_1")]).await;
        client(&server.url(), Duration::from_secs(30)).publish(&wish()).await.unwrap();
        let asked = server.asked();
        assert!(asked[1].at - asked[0].at >= Duration::from_secs(1), "{status}");
    }
}

#[tokio::test]
async fn a_wait_past_the_deadline_is_not_begun() {
    let server = Scripted::start([answer(503, &[("retry-after", "3600")], BUSY)]).await;
    let error = client(&server.url(), Duration::from_secs(30)).publish(&wish()).await.unwrap_err();
    let Error::Deadline { tries: 1, maybe_done: false, .. } = &error else { panic!("{error:?}") };
    assert_eq!(error.problem().unwrap().retry_after, Some(Duration::from_secs(3600)));
    assert!(error.retryable());
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn the_deadline_is_over_all_tries() {
    let server = Scripted::start([]).await;
    let error = client(&server.url(), Duration::from_millis(300)).publish(&wish()).await.unwrap_err();
    let Error::Deadline { tries, maybe_done: false, last } = &error else { panic!("{error:?}") };
    assert_eq!(usize::try_from(*tries).unwrap(), server.asked().len());
    assert!(matches!(last.as_ref(), Failure::Problem(_)), "{last}");
}

#[tokio::test]
async fn a_server_that_is_not_there_has_done_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = client(&url, Duration::from_millis(200)).publish(&wish()).await.unwrap_err();
    let Error::Deadline { maybe_done: false, last, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(last.as_ref(), Failure::Unreachable(_)), "{last}");
}

#[tokio::test]
async fn a_server_that_says_nothing_may_have_done_it() {
    // It takes connections, and nobody ever reads them.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::builder(url)
        .deadline(Duration::from_millis(300))
        .try_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let error = client.publish(&wish()).await.unwrap_err();
    let Error::Deadline { tries, maybe_done: true, last } = &error else { panic!("{error:?}") };
    assert!(*tries > 1 && matches!(last.as_ref(), Failure::Unanswered(_)), "{error:?}");
    assert!(error.to_string().contains("send the same again"), "{error}");
}

#[tokio::test]
async fn a_clear_no_is_not_argued_with() {
    let no = r#"{"code":"unauthorized","detail":"no such key","status":401,"retryable":false}"#;
    let failed = r#"{"code":"store_failed","detail":"the disk is gone","status":503,"retryable":false}"#;
    for (status, body, code) in [(401, no, Code::Unauthorized), (503, failed, Code::StoreFailed)] {
        let server = Scripted::start([answer(status, &[], body)]).await;
        let error = client(&server.url(), Duration::from_secs(30)).publish(&wish()).await.unwrap_err();
        let Error::Refused(problem) = &error else { panic!("{error:?}") };
        assert_eq!((problem.status, &problem.code), (status, &code));
        assert_eq!((server.asked().len(), error.retryable()), (1, false));
    }
}

#[tokio::test]
async fn only_what_failed_for_now_is_sent_again() {
    let (done, no) =
        (published_body("job_1"), r#"{"code":"invalid","detail":"x","status":400,"retryable":false}"#);
    let first = answer(200, &[], &format!(r#"{{"results":[{done},{BUSY},{no}]}}"#));
    let second = answer(200, &[], &format!(r#"{{"results":[{}]}}"#, published_body("job_2")));
    let server = Scripted::start([first, second]).await;
    let wishes = [wish(), wish(), wish()];
    let answers = client(&server.url(), Duration::from_secs(30)).publish_all(&wishes).await;
    assert_eq!(answers[0].as_ref().unwrap().id, "job_1");
    assert_eq!(answers[1].as_ref().unwrap().id, "job_2");
    assert!(matches!(&answers[2], Err(Error::Refused(problem)) if problem.code == Code::Invalid));
    let asked = server.asked();
    let keys = |at: usize| -> Vec<_> {
        let jobs = asked[at].body["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["idempotencyKey"].as_str().unwrap().to_owned()).collect()
    };
    let wished = wishes.iter().map(Publish::idempotency_key).collect::<Vec<_>>();
    assert_eq!(keys(0), wished);
    assert_eq!(keys(1), [wishes[1].idempotency_key()]);
}

#[tokio::test]
async fn a_batch_that_cannot_be_sent_fails_item_by_item() {
    let server = Scripted::start([]).await;
    let other = Publish::new("other", &1).unwrap();
    let wishes = [wish(), other, wish()];
    let answers = client(&server.url(), Duration::from_millis(100)).publish_all(&wishes).await;
    assert_eq!(answers.len(), 3);
    for answer in answers {
        assert!(matches!(answer, Err(Error::Deadline { maybe_done: false, .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_halved() {
    let large = r#"{"code":"body_too_large","detail":"x","status":413,"retryable":false}"#;
    let done = |ids: &[&str]| {
        let jobs: Vec<_> = ids.iter().map(|id| published_body(id)).collect();
        answer(200, &[], &format!(r#"{{"results":[{}]}}"#, jobs.join(",")))
    };
    let too_large = || answer(413, &[], large);
    let answers = [too_large(), done(&["job_1"]), too_large(), done(&["job_2"]), too_large()];
    let server = Scripted::start(answers).await;
    let wishes = [wish(), wish(), wish()];
    let answers = client(&server.url(), Duration::from_secs(30)).publish_all(&wishes).await;
    assert_eq!(answers[0].as_ref().unwrap().id, "job_1");
    assert_eq!(answers[1].as_ref().unwrap().id, "job_2");
    let alone = answers[2].as_ref().unwrap_err();
    assert_eq!(
        alone.problem().unwrap().code,
        Code::BodyTooLarge,
        "one that is too large by itself is refused"
    );
}

#[tokio::test]
async fn what_must_not_happen_twice_is_not_sent_again_once_it_may_have() {
    let unknown = r#"{"code":"unknown_outcome","detail":"who knows","status":503,"retryable":true}"#;
    let answers = [
        answer(503, &[], BUSY),
        answer(503, &[], unknown),
        answer(504, &[], "<html>"),
        answer(200, &[], "1"),
    ];
    let server = Scripted::start(answers).await;
    let client = client(&server.url(), Duration::from_secs(30));
    for sent in [2, 1] {
        let error = client.call(&Call::post(&["v1", "api-keys"]).once()).await.unwrap_err();
        let Error::Deadline { tries, maybe_done: true, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*tries, sent, "{error}");
    }
    let reply = client.call(&Call::get(&["v1", "a b"]).query("c", "d e")).await.unwrap();
    assert_eq!((reply.status(), reply.read::<u32>().unwrap()), (200, 1));
    assert_eq!(server.asked()[3].path, "/v1/a%20b?c=d%20e");
}

#[tokio::test]
async fn a_person_does_not_wait_for_a_server_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(url).unless_nobody_listens().build().unwrap();
    let error = client.publish(&wish()).await.unwrap_err();
    let Error::Deadline { tries: 1, maybe_done: false, last } = &error else { panic!("{error:?}") };
    assert!(last.to_string().contains("Connection refused"), "{last}");
}

#[tokio::test]
async fn what_does_not_speak_http_is_asked_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(b"\x15\x03\x01\x00\x02\x02\x32").await.unwrap();
    });
    let error = client.publish(&wish()).await.unwrap_err();
    let Error::Deadline { tries: 1, last, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(last.as_ref(), Failure::Nonsense(_)), "{last}");
}

#[tokio::test]
async fn a_stream_of_events_is_read_to_its_end() {
    let text = ": hello\n\nevent: published\ndata: {\"job\":\"job_1\"}\n\nevent: missed\ndata: 3\n\n";
    let no = r#"{"code":"forbidden","detail":"not you","status":403,"retryable":false}"#;
    let server = Scripted::start([answer(200, &[], text), answer(403, &[], no)]).await;
    let client = client(&server.url(), Duration::from_secs(30));
    let call = Call::get(&["v1", "events"]).query("queue", "q");
    let mut events = client.events(&call).await.unwrap();
    for (kind, data) in [("published", "{\"job\":\"job_1\"}"), ("missed", "3")] {
        let event = events.next().await.unwrap().unwrap();
        assert_eq!((event.kind.as_str(), event.data.as_str()), (kind, data));
    }
    assert_eq!(events.next().await.unwrap(), None);
    let error = client.events(&call).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(problem) if problem.code == Code::Forbidden), "{error}");
}
