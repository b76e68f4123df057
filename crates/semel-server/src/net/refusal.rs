//! Answers that are given without looking at the request: fixed bytes.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::listener::Stream;

/// How long a client that is let go has to take its answer.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes of such a client that are read and thrown away.
const LINGER_BYTES: usize = 256 * 1024;

const OVERLOADED: &str = r#"{"type":"/errors/overloaded","title":"Too much is waiting to be stored","status":503,"code":"overloaded","detail":"Nothing was done: try again after the time in Retry-After.","error":"Nothing was done: try again after the time in Retry-After.","retryable":true}"#;

const BODY_TIMEOUT: &str = r#"{"type":"/errors/body_timeout","title":"The body did not arrive in time","status":408,"code":"body_timeout","detail":"Nothing was done: send the request again.","error":"Nothing was done: send the request again.","retryable":true}"#;

/// Too many connections: seconds until one of them has ended, most likely.
const CONNECTIONS_RETRY_AFTER: u64 = 1;

/// Tells a client that there are too many connections.
pub(super) async fn too_many<S: Stream>(stream: S) {
    let extra = format!("Retry-After: {CONNECTIONS_RETRY_AFTER}\r\n");
    refuse(stream, "503 Service Unavailable", &extra, OVERLOADED).await;
}

/// Tells a client that its body did not come in time.
pub(super) async fn slow_body<S: Stream>(stream: S) {
    refuse(stream, "408 Request Timeout", "", BODY_TIMEOUT).await;
}

/// Tells a client that its head did not come in time. There is no request yet, hence no problem to describe.
pub(super) async fn slow_head<S: Stream>(stream: S) {
    refuse(stream, "408 Request Timeout", "", "").await;
}

/// Writes an answer and lets the client go. One that does not take its answer has nothing to complain about.
async fn refuse<S: Stream>(mut stream: S, status: &str, extra: &str, problem: &str) {
    let length = problem.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\n{extra}Content-Type: application/problem+json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{problem}"
    );
    if let Ok(Ok(())) = timeout(LINGER, stream.write_all(answer.as_bytes())).await {
        let_go(stream).await;
    }
}

/// Ends a connection that may still be sending. To close it with bytes unread would reset it, and what was answered
/// last (that the head was malformed, or the body too large) would be lost with it.
pub(super) async fn let_go<S: Stream>(mut stream: S) {
    let farewell = async {
        stream.shutdown().await?;
        let (mut rest, mut left) = ([0; 4096], LINGER_BYTES);
        while left > 0 {
            match stream.read(&mut rest).await? {
                0 => break,
                n => left = left.saturating_sub(n),
            }
        }
        std::io::Result::Ok(())
    };
    // However it ends, the connection is closed now.
    drop(timeout(LINGER, farewell).await);
}

/// The answer to a request for which there is no room; its body has not been read.
pub(super) fn overloaded(retry_after: Duration) -> Response {
    let mut response = Response::new(Body::from(Bytes::from_static(OVERLOADED.as_bytes())));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(retry_after)));
    response
}

/// Retry-After knows whole seconds; a client that comes back too early is turned away again.
fn whole_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_to_wait_is_rounded_up_to_seconds() {
        let rounded = [0, 1, 1000, 1001].map(|ms| whole_seconds(Duration::from_millis(ms)));
        assert_eq!(rounded, [1, 1, 1, 2]);
    }

    #[test]
    fn fixed_problems_are_json_and_name_their_code() {
        for (text, code) in [(OVERLOADED, "overloaded"), (BODY_TIMEOUT, "body_timeout")] {
            let problem: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(problem["code"], code);
            assert_eq!(
                (&problem["error"], &problem["retryable"]),
                (&problem["detail"], &true.into()),
                "{text}"
            );
        }
    }
}
