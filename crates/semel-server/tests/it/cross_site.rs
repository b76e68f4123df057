//! A server without keys trusts its own machine, and none of the pages that a browser on it shows.

use http::Method;
use serde_json::json;

use crate::kit::{World, scenarios};

scenarios!(
    another_name_for_this_machine_is_refused,
    a_page_of_another_site_changes_nothing,
    a_page_of_another_site_cannot_read_either,
);

async fn another_name_for_this_machine_is_refused(world: &World) {
    world.queue("q", json!({})).await;
    let mut line = world.line().await;
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example:7477",
        "10.0.0.1",
        "[::2]",
    ] {
        let headers = [("host", host)];
        for path in ["/v1/queues", "/v1/queues/q", "/v1/stats", "/v1/events", "/metrics"] {
            line.send(Method::GET, path, &headers, "").await.problem(403, "cross_site");
        }
        let body = json!({ "payload": 1 }).to_string();
        line.send(Method::POST, "/v1/queues/q/jobs", &headers, body).await.problem(403, "cross_site");
    }
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7477", "[::1]:7477"] {
        line.send(Method::GET, "/v1/queues", &[("host", host)], "").await.expect(200);
    }
    assert_eq!(world.client.get("/v1/queues/q").await.expect(200)["counts"]["pending"], 0);
}

async fn a_page_of_another_site_changes_nothing(world: &World) {
    world.queue("q", json!({})).await;
    let client = &world.client;
    let publish = async |headers: &[(&str, &str)]| {
        client
            .send(Method::POST, "/v1/queues/q/jobs", headers, Some(json!({ "payload": 1 }).to_string()))
            .await
    };
    let refused: &[&[(&str, &str)]] = &[
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://localhost.evil.example")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "http://localhost:3000"), ("sec-fetch-site", "cross-site")],
    ];
    for headers in refused {
        publish(headers).await.problem(403, "cross_site");
        client.send(Method::DELETE, "/v1/queues/q", headers, None).await.problem(403, "cross_site");
        client.send(Method::PUT, "/v1/queues/r", headers, Some("{}".into())).await.problem(403, "cross_site");
    }
    assert_eq!(client.get("/v1/queues/q").await.expect(200)["counts"]["pending"], 0);
    let allowed: &[&[(&str, &str)]] = &[
        &[],
        &[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-origin")],
        &[("origin", "http://127.0.0.1:7477")],
        &[("sec-fetch-site", "none")],
    ];
    for headers in allowed {
        publish(headers).await.expect(201);
    }
}

/// The browser keeps the answer from the page, unless a header tells it not to.
async fn a_page_of_another_site_cannot_read_either(world: &World) {
    let headers = [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    let answer = world.client.send(Method::GET, "/v1/queues", &headers, None).await;
    let cors = answer.headers.keys().find(|name| name.as_str().starts_with("access-control-"));
    assert_eq!(cors, None);
    let preflight = [("access-control-request-method", "DELETE"), headers[0]];
    let answer = world.client.send(Method::OPTIONS, "/v1/queues/q", &preflight, None).await;
    let cors = answer.headers.keys().find(|name| name.as_str().starts_with("access-control-"));
    assert_eq!(cors, None);
    answer.problem(405, "method_not_allowed");
}
