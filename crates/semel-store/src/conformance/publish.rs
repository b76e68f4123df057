//! Publishing: what is stored, what is answered, what is refused.

use semel_core::job::{Overrides, Priority};
use semel_core::key::Fingerprint;
use semel_core::lifecycle::State;
use semel_core::publish::Draft;
use semel_core::refusal::Refusal;

use super::kit::Kit;
use super::make::{fixed, group, json, key, keyed, plain, publish, queue_name, secs};

pub(super) async fn a_job_is_kept_as_it_was_sent(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let overrides = Overrides {
        max_attempts: Some(7),
        retry: Some(fixed(secs(3))),
        timeout: Some(secs(90)),
        window: Some(secs(600)),
    };
    let metadata = vec![("tenant".to_owned(), "42".to_owned()), ("".to_owned() + "b", String::new())];
    let draft = Draft {
        key: Some(key("order-9482")),
        priority: -7,
        group: Some(group("tenant 42")),
        overrides: overrides.clone(),
        metadata: metadata.clone(),
        ..plain(&queue)
    };
    let id = kit.new_job(draft.clone()).await;
    for when in ["right away", "after a crash"] {
        let spec = kit.job(id).await.spec;
        assert_eq!(spec.queue, queue, "{when}");
        assert_eq!(spec.payload.as_ref(), Some(&draft.payload), "{when}");
        assert_eq!(spec.fingerprint, Fingerprint::of(&draft.payload), "{when}");
        assert_eq!(spec.key, draft.key, "{when}");
        assert_eq!((spec.created_at, spec.run_at), (kit.now(), kit.now()), "{when}");
        assert_eq!(Some(spec.priority), Priority::new(-7), "{when}");
        assert_eq!((spec.group.clone(), spec.gated), (draft.group.clone(), false), "{when}");
        assert_eq!(spec.overrides, overrides, "{when}");
        assert_eq!(spec.metadata, metadata, "{when}");
        kit.crash().await;
    }
}

pub(super) async fn a_new_job_waits_with_nothing_used_up(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(plain(&queue)).await;
    let job = kit.job(id).await;
    assert_eq!(job.id, id);
    assert_eq!(job.duplicates, 0);
    assert_eq!(job.progress.state, State::Pending);
    assert_eq!(job.progress.due, kit.now());
    assert_eq!((job.progress.attempts, job.progress.deferrals, job.progress.replays), (0, 0, 0));
    assert_eq!(job.progress.history, []);
    assert_eq!((job.progress.finished_at, job.progress.settled, job.progress.released), (None, None, None));
}

pub(super) async fn the_answer_tells_of_a_new_job(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let answer = kit.publish(keyed(&queue, "order-1")).await;
    assert_eq!(answer.state, State::Pending);
    assert_eq!(answer.created_at, kit.now());
    assert!(!answer.deduplicated, "it is the first");
    assert!(answer.payload_matches, "a new job matches itself");
    assert_eq!(answer.key_expires_at, None, "a key does not expire while its job is unfinished");
}

pub(super) async fn the_payload_is_kept_byte_for_byte(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let odd = [
        r#" {"b" : 1.0, "a":-0 , "b": 1e300 } "#,
        "null",
        r#""\ud83e\udd80 🦀 \u0000""#,
        "[]",
        " 18446744073709551616",
    ];
    for text in odd {
        let delivery = kit.publish_and_take(Draft { payload: json(text), ..plain(&queue) }).await;
        assert_eq!(delivery.spec.payload, Some(json(text)), "as delivered");
        assert_eq!(kit.job(delivery.id).await.spec.payload, Some(json(text)), "as read");
        kit.ack(&delivery).await;
        kit.crash().await;
        assert_eq!(kit.job(delivery.id).await.spec.payload, Some(json(text)), "after its end and a crash");
    }
}

pub(super) async fn a_publish_without_a_key_is_always_new(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let ids = kit.new_jobs(&queue, 3).await;
    let again = kit.new_job(plain(&queue)).await;
    assert!(ids.is_sorted_by(|a, b| a < b) && ids[2] < again, "four jobs from four equal publishes");
    assert_eq!(kit.stats(&queue).await.pending, 4);
}

pub(super) async fn ids_only_ever_increase(kit: &mut Kit) {
    let (queue, other) = (kit.queue("orders").await, kit.queue("mails").await);
    let mut last = kit.new_job(plain(&queue)).await;
    for round in 0..4 {
        for name in [&queue, &other] {
            let ids = kit.new_jobs(name, 3).await;
            assert!(ids[0] > last && ids.is_sorted_by(|a, b| a < b), "round {round}: ids go up");
            last = ids[2];
        }
        if round % 2 == 0 { kit.advance(secs(1)) } else { kit.crash().await }
    }
}

pub(super) async fn ids_increase_past_a_full_millisecond(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let mut last = kit.new_job(plain(&queue)).await;
    // 4096 ids fit a millisecond; the clock stands still here, so the ids must run ahead of it, and stay ahead after a crash.
    for _ in 0..5 {
        let ids = kit.new_jobs(&queue, 1000).await;
        assert!(ids[0] > last && ids.is_sorted_by(|a, b| a < b), "ids go up though time does not");
        last = ids[999];
    }
    kit.crash().await;
    assert!(kit.new_job(plain(&queue)).await > last, "ids go up across a crash in the same millisecond");
}

pub(super) async fn an_unknown_queue_is_refused(kit: &mut Kit) {
    kit.queue("orders").await;
    let missing = queue_name("order");
    let refusal = kit.refused(publish(keyed(&missing, "order-1"))).await;
    assert_eq!(refusal, Refusal::QueueNotFound(missing));
}

pub(super) async fn a_payload_past_the_queues_limit_is_refused(kit: &mut Kit) {
    let queue = kit.queue_with("small", |config| config.payload_limit = 100).await;
    let text = |length: usize| json(&format!("\"{}\"", "x".repeat(length - 2)));
    kit.new_job(Draft { payload: text(100), ..plain(&queue) }).await;
    let refusal = kit.refused(publish(Draft { payload: text(101), ..keyed(&queue, "big") })).await;
    assert_eq!(refusal, Refusal::PayloadTooLarge { size: 101, limit: 100 });
    assert_eq!(kit.key(&queue, "big").await, None, "a refused publish takes no key");
}

pub(super) async fn a_key_is_required_where_the_queue_says_so(kit: &mut Kit) {
    let queue = kit.queue_with("charges", |config| config.require_key = true).await;
    assert_eq!(kit.refused(publish(plain(&queue))).await, Refusal::KeyRequired(queue.clone()));
    kit.new_job(keyed(&queue, "charge-1")).await;
}

pub(super) async fn a_key_looks_as_the_queue_wants_it(kit: &mut Kit) {
    let pattern = r"order-\d+";
    let queue = kit.queue_with("orders", |config| config.key_pattern = Some(pattern.into())).await;
    for bad in ["order-", "my-order-1", "order-1 ", "6fa9c0d2"] {
        let refusal = kit.refused(publish(keyed(&queue, bad))).await;
        assert_eq!(refusal, Refusal::KeyPattern { pattern: pattern.into() }, "{bad:?}");
    }
    kit.new_job(keyed(&queue, "order-17")).await;
}

pub(super) async fn changed_rules_hold_for_the_next_publish(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.new_job(plain(&queue)).await;
    kit.queue_with("orders", |config| config.require_key = true).await;
    assert_eq!(kit.refused(publish(plain(&queue))).await.code(), "key_required");
    kit.queue_with("orders", |_| {}).await;
    kit.new_job(plain(&queue)).await;
}

pub(super) async fn the_largest_job_fits(kit: &mut Kit) {
    let queue = kit.queue_with("q".repeat(255).as_str(), |config| config.payload_limit = 1 << 20).await;
    let long = "ß".repeat(255);
    let metadata: Vec<_> =
        (0..32).map(|i| (format!("{i:02}{}", "n".repeat(1022)), "v".repeat(1024))).collect();
    let payload = json(&format!("\"{}\"", "x".repeat((1 << 20) - 2)));
    let draft =
        Draft { payload, group: Some(group(&long)), metadata: metadata.clone(), ..keyed(&queue, &long) };
    let id = kit.new_job(draft.clone()).await;
    kit.crash().await;
    let spec = kit.job(id).await.spec;
    assert!(spec.payload.as_ref() == Some(&draft.payload), "a megabyte of payload comes back");
    assert_eq!((&spec.key, &spec.group), (&draft.key, &draft.group));
    assert!(spec.metadata == metadata, "all metadata comes back, in order");
    assert_eq!(kit.publish(draft).await.id, id, "the longest key is found again");
}

pub(super) async fn texts_that_look_like_syntax_are_only_texts(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let odd = [
        "'; DROP TABLE jobs; --",
        "%",
        "_",
        "\"",
        "\\",
        "a/../b",
        "<script>",
        "=1+1",
        "🦀",
        "\u{202e}abc",
        "null",
        "0",
    ];
    let mut ids = Vec::new();
    for text in odd {
        let metadata = vec![(text.to_owned(), text.to_owned())];
        ids.push(kit.new_job(Draft { group: Some(group(text)), metadata, ..keyed(&queue, text) }).await);
    }
    kit.crash().await;
    for (text, id) in odd.into_iter().zip(ids) {
        let record = kit.key(&queue, text).await.unwrap_or_else(|| panic!("the key {text:?} is known"));
        assert_eq!(record.job.id, id, "{text:?} is found as itself");
        assert_eq!(record.job.spec.metadata, [(text.to_owned(), text.to_owned())]);
        assert_eq!(record.job.spec.group, Some(group(text)));
    }
}
