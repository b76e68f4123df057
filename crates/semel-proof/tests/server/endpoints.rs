//! Webhooks that refuse, swallow, reset, drip, answer late or send elsewhere (faults 33, 34, 35, 37, 39): attempts stay
//! within their cap, nothing is lost, and the queues beside them do not notice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_proof::settings;
use serde_json::{Value, json};

use crate::kit::arena::Arena;
use crate::kit::endpoint::{BlackHole, Endpoint, Manner};
use crate::kit::pause::{Sign, until};
use crate::kit::plan::{CAP, Item, Queue};
use crate::kit::process::free_address;

/// Jobs for each bad webhook.
const JOBS: u64 = 5;
/// Jobs of each good queue.
const GOOD_JOBS: u64 = 12;
/// However slow the machine: with the time-outs of the bad webhooks in the way it would take minutes.
const GOOD_WITHIN: Duration = Duration::from_secs(30);

fn push_to(name: &str, url: &str) -> Queue {
    Queue::new(name, &json!({"type": "push", "url": url, "timeout": 1}))
}

fn counts(arena: &Arena, queue: &str) -> Value {
    arena.client().get("/v1/stats").unwrap().json()["queues"][queue].clone()
}

/// Makes a queue and publishes to it. The first number tells its jobs from those of others.
fn fill(arena: &Arena, queue: &'static str, url: &str, first: u64, jobs: u64) {
    arena.put(&push_to(queue, url));
    let mut client = arena.client();
    for n in first..first + jobs {
        arena.publish(&mut client, Item::keyed_in(queue, n)).unwrap();
    }
}

#[test]
fn heavy_server_with_bad_webhooks() {
    let arena = Arena::new(33);
    let server = arena.open();
    let start = |manner| Endpoint::start(manner, Arc::clone(&arena.witness), Arc::new(Sign::default()));
    let (silent, resets, drips) = (start(Manner::Silent), start(Manner::Resets), start(Manner::Drips));
    let late = start(Manner::Late(Duration::from_millis(1500)));
    let elsewhere = start(Manner::Usual);
    let redirects = start(Manner::Redirects(format!("http://{}/", elsewhere.address)));
    let hole = BlackHole::open();
    let bad = [
        ("refuses", free_address(), None),
        ("swallows", hole.address, None),
        ("silent", silent.address, Some(&silent)),
        ("resets", resets.address, Some(&resets)),
        ("drips", drips.address, Some(&drips)),
        ("late", late.address, Some(&late)),
        ("redirects", redirects.address, Some(&redirects)),
    ];
    for ((queue, address, _), number) in bad.into_iter().zip(1..) {
        fill(&arena, queue, &format!("http://{address}/"), number * 1000, JOBS);
    }
    good_queues_do_not_notice(&arena);
    let workers = arena.workers();
    arena.finish_well_after(server, workers, || {
        for (queue, _, endpoint) in bad {
            let counts = counts(&arena, queue);
            println!("{queue}: {counts}");
            assert_eq!(
                (&counts["dead"], &counts["completed"]),
                (&json!(JOBS), &json!(0)),
                "{queue}: {counts}"
            );
            if let Some(endpoint) = endpoint {
                let calls = u64::try_from(endpoint.calls()).unwrap();
                assert_eq!(calls, JOBS * u64::from(CAP), "{queue} was called once per attempt");
            }
        }
        assert_eq!(elsewhere.calls(), 0, "a redirect is not followed");
    });
}

/// Many queues with a good webhook, published to while the bad ones have theirs waiting.
fn good_queues_do_not_notice(arena: &Arena) {
    let queues: u64 = if settings::is_soak() { 1000 } else { 40 };
    let url = format!("http://{}/", arena.endpoint.address);
    let began = Instant::now();
    let names: Vec<&'static str> = (0..queues).map(|n| &*format!("good-{n}").leak()).collect();
    for (name, number) in names.iter().zip(1..) {
        fill(arena, name, &url, number * 100_000, GOOD_JOBS);
    }
    let published = began.elapsed();
    until("the good queues are worked off", GOOD_WITHIN + published, || {
        let stats = arena.client().get("/v1/stats").unwrap().json();
        let open = |name: &&str| {
            let counts = &stats["queues"][*name];
            counts["pending"] != 0 || counts["processing"] != 0
        };
        (!names.iter().any(open)).then_some(())
    });
    println!(
        "{queues} good queues of {GOOD_JOBS} jobs: published in {} ms, worked off after {} ms",
        published.as_millis(),
        began.elapsed().as_millis()
    );
}
