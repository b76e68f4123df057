//! The small records: queues and their settings, pauses, API keys.

use semel_core::QueueConfig;
use semel_core::lifecycle::State;
use semel_core::outcome::DeferScope;
use semel_core::queue::{Delivery as Channel, DuplicateAction, DuplicateLimit, Pull, Retention};
use semel_core::records::{ApiKeyRecord, QueueRecord, Scope};
use semel_core::refusal::Refusal;
use semel_core::time::{Millis, Timestamp};

use super::kit::Kit;
use super::make::{config, deferred, keyed, plain, publish, push_in_ack_mode, queue_name, secs, settle};
use crate::command::{Command, Reply};

async fn record(kit: &Kit, name: &str) -> QueueRecord {
    kit.store()
        .queue(&queue_name(name))
        .await
        .expect("reads")
        .unwrap_or_else(|| panic!("queue {name} exists"))
}

fn pause(name: &str, paused: bool) -> Command {
    Command::Pause { queue: queue_name(name), paused }
}

pub(super) async fn a_queue_is_kept_with_all_its_settings(kit: &mut Kit) {
    let settings = QueueConfig {
        delivery: Channel::Push(push_in_ack_mode(secs(77))),
        max_attempts: 42,
        concurrency: Some(7),
        rate: Some(semel_core::queue::RateLimit { count: 5, per: secs(1), burst: 2 }),
        group_concurrency: Some(3),
        defer_scope: DeferScope::Job,
        breaker: Some(semel_core::queue::BreakerConfig { failures: 4, cooldown: secs(9) }),
        window: secs(12_345),
        require_key: true,
        key_pattern: Some(r"order-\d+ 'ß'".into()),
        collision_ignore: vec!["/sentAt".into(), "/a~1b".into()],
        duplicates: Some(DuplicateLimit { limit: 50, action: DuplicateAction::Dead }),
        retention: Retention { archive: true, ..Retention::default() },
        ledger_ttl: Some(Millis::from_days(3)),
        ..config()
    };
    kit.queue_with("orders", |target| *target = settings.clone()).await;
    for when in ["right away", "after a crash"] {
        let kept = record(kit, "orders").await;
        assert_eq!(kept.config, settings, "{when}");
        assert_eq!((kept.name, kept.created_at), (queue_name("orders"), kit.now()), "{when}");
        assert_eq!(kept.gate, Default::default(), "{when}: a new queue is open");
        kit.crash().await;
    }
}

pub(super) async fn queues_are_listed_by_name(kit: &mut Kit) {
    assert_eq!(kit.store().queues().await.expect("lists"), []);
    for name in ["b", "a:1", "a", "C", "0"] {
        kit.queue(name).await;
    }
    kit.crash().await;
    let queues = kit.store().queues().await.expect("lists");
    let names: Vec<_> = queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["0", "C", "a", "a:1", "b"]);
    assert_eq!(kit.store().queue(&queue_name("missing")).await.expect("reads"), None);
}

pub(super) async fn a_changed_queue_keeps_its_age_its_jobs_and_its_gate(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let made = kit.now();
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.settle(&delivery, deferred(secs(600), DeferScope::Queue)).await;
    kit.tell(pause("orders", true)).await;
    let before = record(kit, "orders").await;
    kit.advance(secs(60));
    kit.queue_with("orders", |config| config.max_attempts = 9).await;
    let after = record(kit, "orders").await;
    assert_eq!(
        (after.created_at, &after.gate),
        (made, &before.gate),
        "a change of settings is not a new queue"
    );
    assert_eq!(after.config.max_attempts, 9);
    assert_eq!(kit.state(delivery.id).await, State::Pending);
}

pub(super) async fn settings_that_make_no_sense_are_refused(kit: &mut Kit) {
    kit.queue("orders").await;
    let bad: [fn(&mut QueueConfig); 7] = [
        |config| config.duplicates = Some(DuplicateLimit { limit: 0, action: DuplicateAction::Count }),
        |config| config.max_attempts = 0,
        |config| config.concurrency = Some(0),
        |config| config.key_pattern = Some("(".into()),
        |config| config.window = Millis::from_days(3660),
        |config| config.delivery = Channel::Pull(Pull { lease: Millis::ZERO }),
        |config| config.collision_ignore = vec!["no pointer".into()],
    ];
    for (n, spoil) in bad.into_iter().enumerate() {
        for name in ["orders", "new"] {
            let mut spoilt = config();
            spoil(&mut spoilt);
            let put = Command::PutQueue { name: queue_name(name), config: Box::new(spoilt) };
            assert_eq!(kit.refused(put).await.code(), "invalid", "setting {n} of queue {name}");
        }
    }
}

pub(super) async fn a_paused_queue_delivers_nothing_until_it_is_resumed(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let id = kit.new_job(plain(&queue)).await;
    assert_eq!(kit.tell(pause("orders", true)).await, Reply::Done);
    assert!(record(kit, "orders").await.gate.paused);
    let later = kit.new_job(plain(&queue)).await;
    kit.expect_nothing(&queue, "it is paused; publishing goes on").await;
    kit.crash().await;
    kit.advance(secs(86_400));
    kit.expect_nothing(&queue, "neither a crash nor time ends a pause").await;
    kit.tell(pause("orders", false)).await;
    assert_eq!(kit.lease_ids(&queue, 10).await, [id, later]);
}

pub(super) async fn a_pause_does_not_touch_what_is_out(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.tell(pause("orders", true)).await;
    kit.tell(pause("orders", true)).await;
    kit.ack(&delivery).await;
    let other = kit.queue("mails").await;
    kit.completed(plain(&other)).await;
}

pub(super) async fn a_queue_that_does_not_exist_is_refused(kit: &mut Kit) {
    let missing = queue_name("nowhere");
    for command in [pause("nowhere", true), pause("nowhere", false), Command::DeleteQueue(missing.clone())] {
        assert_eq!(kit.refused(command).await, Refusal::QueueNotFound(missing.clone()));
    }
}

pub(super) async fn a_queue_with_unfinished_jobs_cannot_be_deleted(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.dead(keyed(&queue, "dead")).await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    let waiting = kit.new_job(plain(&queue)).await;
    for unfinished in [2, 1] {
        let refusal = kit.refused(Command::DeleteQueue(queue.clone())).await;
        assert_eq!(refusal, Refusal::QueueNotEmpty { queue: queue.clone(), unfinished });
        kit.ask(Command::Cancel(waiting)).await.ok();
    }
    kit.ack(&delivery).await;
    assert_eq!(
        kit.tell(Command::DeleteQueue(queue.clone())).await,
        Reply::Done,
        "what has ended does not count"
    );
    assert_eq!(kit.store().queue(&queue).await.expect("reads"), None);
}

pub(super) async fn a_deleted_queue_is_gone(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.completed(keyed(&queue, "order-1")).await;
    kit.tell(Command::DeleteQueue(queue.clone())).await;
    kit.crash().await;
    assert_eq!(kit.store().queues().await.expect("lists"), []);
    assert_eq!(kit.refused(publish(plain(&queue))).await, Refusal::QueueNotFound(queue.clone()));
    kit.expect_nothing(&queue, "it is gone").await;
}

pub(super) async fn a_queue_made_again_is_a_new_one(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let old = kit.completed(keyed(&queue, "order-1")).await;
    kit.tell(pause("orders", true)).await;
    kit.tell(Command::DeleteQueue(queue.clone())).await;
    kit.advance(secs(1));
    kit.queue("orders").await;
    let fresh = record(kit, "orders").await;
    assert_eq!((fresh.created_at, fresh.gate.paused), (kit.now(), false), "nothing of the old one is left");
    let new = kit.new_job(keyed(&queue, "order-1")).await;
    assert_ne!(new, old, "keys do not carry over");
    kit.crash().await;
    assert_eq!(kit.publish(keyed(&queue, "order-1")).await.id, new, "not even after a crash");
    kit.prune().await;
    assert_eq!(kit.find(old).await, None);
    assert_eq!(kit.lease_ids(&queue, 10).await, [new]);
}

pub(super) async fn a_dead_letter_of_a_deleted_queue_cannot_come_back(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let dead = kit.dead(plain(&queue)).await;
    kit.tell(Command::DeleteQueue(queue.clone())).await;
    kit.refused(Command::Replay(dead)).await;
    kit.queue("orders").await;
    kit.refused(Command::Replay(dead)).await;
    kit.expect_nothing(&queue, "the new queue has no jobs").await;
    kit.prune().await;
}

pub(super) async fn a_settle_of_a_deleted_queues_job_does_no_harm(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let delivery = kit.publish_and_take(plain(&queue)).await;
    kit.ack(&delivery).await;
    kit.tell(Command::DeleteQueue(queue)).await;
    let again = kit.ask(settle(delivery.id, Some(delivery.token), super::make::done())).await;
    let harmless = matches!(again, Ok(Reply::Settled { repeated: true, .. }) | Err(Refusal::JobNotFound(_)));
    assert!(harmless, "a late repeat is recognised or finds nothing, but was answered {again:?}");
}

fn api_key(id: &str) -> ApiKeyRecord {
    ApiKeyRecord {
        id: id.into(),
        hash: "0123456789abcdef".repeat(4),
        label: "the shop's key 'ß'".into(),
        scopes: vec![Scope::Publish, Scope::Read],
        queues: vec!["orders-*".into()],
        created_at: Timestamp::from_millis(1_800_000_000_000),
        expires_at: Some(Timestamp::from_millis(1_900_000_000_000)),
        last_used_at: None,
    }
}

fn put(key: ApiKeyRecord) -> Command {
    Command::PutApiKey(Box::new(key))
}

pub(super) async fn api_keys_are_kept_and_listed_by_id(kit: &mut Kit) {
    assert_eq!(kit.store().api_keys().await.expect("lists"), []);
    for id in ["key_b", "key_a", "KEY"] {
        assert_eq!(kit.tell(put(api_key(id))).await, Reply::Done);
    }
    kit.crash().await;
    let expected = [api_key("KEY"), api_key("key_a"), api_key("key_b")];
    assert_eq!(kit.store().api_keys().await.expect("lists"), expected);
}

pub(super) async fn an_api_key_is_replaced_by_its_id_and_taken_away_once(kit: &mut Kit) {
    kit.tell(put(api_key("key_a"))).await;
    let used = ApiKeyRecord { last_used_at: Some(kit.now()), scopes: vec![Scope::Admin], ..api_key("key_a") };
    kit.tell(put(used.clone())).await;
    assert_eq!(kit.store().api_keys().await.expect("lists"), [used]);
    assert_eq!(kit.tell(Command::DeleteApiKey("key_a".into())).await, Reply::Done);
    kit.crash().await;
    assert_eq!(kit.store().api_keys().await.expect("lists"), []);
    for missing in ["key_a", "", "%", "' OR '1'='1"] {
        let refusal = kit.refused(Command::DeleteApiKey(missing.into())).await;
        assert_eq!(refusal.code(), "record_not_found", "{missing:?}");
    }
}

pub(super) async fn an_api_key_that_makes_no_sense_is_refused(kit: &mut Kit) {
    kit.tell(put(api_key("key_a"))).await;
    let bad = [
        api_key(""),
        ApiKeyRecord { hash: "secret".into(), ..api_key("key_a") },
        ApiKeyRecord { scopes: vec![], ..api_key("key_a") },
    ];
    for record in bad {
        assert_eq!(kit.refused(put(record.clone())).await.code(), "invalid", "{record:?}");
    }
}

fn touch(id: &str, at: Timestamp) -> Command {
    Command::TouchApiKey { id: id.into(), at }
}

pub(super) async fn a_use_of_an_api_key_is_noted(kit: &mut Kit) {
    kit.tell(put(api_key("key_a"))).await;
    kit.tell(put(api_key("key_b"))).await;
    let at = |ms: u64| Timestamp::from_millis(1_850_000_000_000 + ms);
    for (used, shown) in [(100, 100), (300, 300), (200, 300), (300, 300)] {
        assert_eq!(kit.tell(touch("key_a", at(used))).await, Reply::Done);
        kit.crash().await;
        let used = ApiKeyRecord { last_used_at: Some(at(shown)), ..api_key("key_a") };
        let expected = [used, api_key("key_b")];
        assert_eq!(kit.store().api_keys().await.expect("lists"), expected, "only a later use counts");
    }
}

pub(super) async fn a_use_does_not_bring_an_api_key_back(kit: &mut Kit) {
    kit.tell(put(api_key("key_a"))).await;
    kit.tell(Command::DeleteApiKey("key_a".into())).await;
    for missing in ["key_a", "", "%"] {
        let gone = Refusal::RecordNotFound { kind: "API key", name: missing.into() };
        assert_eq!(kit.refused(touch(missing, kit.now())).await, gone);
    }
    assert_eq!(kit.store().api_keys().await.expect("lists"), []);
}
