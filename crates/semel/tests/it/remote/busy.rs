//! A server that cannot answer now, and one that is none.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::assert_failed;
use crate::server::semel;

/// Answers every request with this, and says where.
fn answering(head: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            // Whoever goes away without an answer is not waited for.
            drop(stream.read(&mut request).and_then(|_| stream.write_all(answer.as_bytes())));
        }
    });
    format!("http://{address}")
}

#[test]
fn what_passes_is_told_from_what_does_not() {
    let ending = r#"{"code":"shutting_down","detail":"the server is shutting down","retryable":true}"#;
    let failed = r#"{"code":"store_failed","detail":"the disk is gone","retryable":false}"#;
    for (head, body, code, words) in [
        (
            "503 Busy\r\nRetry-After: 60",
            ending,
            3,
            "the server is shutting down (shutting_down, 503); try again",
        ),
        ("503 Failed", failed, 6, "the disk is gone"),
        ("404 Nope", "hello", 6, "is there a proxy in between?"),
        ("200 OK", "hello", 6, "is it another version?"),
    ] {
        let mut command = semel();
        command.args(["job", "job_1", "--server", &answering(head, body)]);
        assert_failed(&super::ended(&mut command, ""), code, words, head);
    }
}
