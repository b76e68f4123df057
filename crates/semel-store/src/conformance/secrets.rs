//! Webhook secrets: kept with their queue, replaced as a whole, gone when it goes.

use semel_core::records::{SECRET_MAX, SECRETS_MAX, WebhookSecret};
use semel_core::refusal::Refusal;
use semel_core::time::Timestamp;

use super::kit::Kit;
use super::make::queue_name;
use crate::command::{Command, Reply};

fn secret(text: &str) -> WebhookSecret {
    let at = Timestamp::from_millis;
    WebhookSecret {
        secret: text.into(),
        created_at: at(1_800_000_000_000),
        expires_at: Some(at(1_900_000_000_000)),
    }
}

fn put(queue: &str, secrets: &[WebhookSecret]) -> Command {
    Command::PutSecrets { queue: queue_name(queue), secrets: secrets.to_vec() }
}

async fn secrets(kit: &Kit, queue: &str) -> Vec<WebhookSecret> {
    let record = kit.store().queue(&queue_name(queue)).await.expect("reads").expect("the queue exists");
    let listed = kit.store().queues().await.expect("lists");
    assert!(listed.contains(&record), "a queue is the same alone and in the list");
    record.secrets
}

pub(super) async fn secrets_are_kept_with_their_queue(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.queue("mails").await;
    assert_eq!(secrets(kit, "orders").await, []);
    let both = [secret("whsec_'; --"), WebhookSecret { expires_at: None, ..secret(" ~") }];
    assert_eq!(kit.tell(put("orders", &both)).await, Reply::Done);
    kit.crash().await;
    assert_eq!(secrets(kit, "orders").await, both, "in the order they were given");
    assert_eq!(secrets(kit, "mails").await, [], "another queue has its own");
}

pub(super) async fn secrets_are_replaced_as_a_whole(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put("orders", &[secret("old"), secret("older")])).await;
    kit.tell(put("orders", &[secret("new")])).await;
    assert_eq!(secrets(kit, "orders").await, [secret("new")]);
    kit.tell(put("orders", &[])).await;
    kit.crash().await;
    assert_eq!(secrets(kit, "orders").await, []);
}

pub(super) async fn a_changed_queue_keeps_its_secrets(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put("orders", &[secret("whsec")])).await;
    kit.queue_with("orders", |config| config.max_attempts = 9).await;
    kit.tell(Command::Pause { queue: queue_name("orders"), paused: true }).await;
    kit.crash().await;
    assert_eq!(secrets(kit, "orders").await, [secret("whsec")]);
}

pub(super) async fn a_queue_made_again_has_no_secrets(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    kit.tell(put("orders", &[secret("whsec")])).await;
    kit.tell(Command::DeleteQueue(queue.clone())).await;
    assert_eq!(kit.refused(put("orders", &[secret("late")])).await, Refusal::QueueNotFound(queue));
    kit.queue("orders").await;
    assert_eq!(secrets(kit, "orders").await, []);
}

pub(super) async fn secrets_that_make_no_sense_are_refused(kit: &mut Kit) {
    let queue = kit.queue("orders").await;
    let longest = "s".repeat(SECRET_MAX);
    kit.tell(put("orders", &vec![secret(&longest); SECRETS_MAX])).await;
    let one_too_many = vec![secret("s"); SECRETS_MAX + 1];
    let too_long = [secret(&(longest + "s"))];
    for bad in [&one_too_many[..], &too_long, &[secret("")], &[secret("two\nlines")], &[secret("größe")]] {
        assert_eq!(kit.refused(put("orders", bad)).await.code(), "invalid");
    }
    let stored = kit.store().queue(&queue).await.expect("reads");
    assert!(!format!("{stored:?}").contains("sss"), "a secret is not printed");
    let nowhere = Refusal::QueueNotFound(queue_name("nowhere"));
    assert_eq!(kit.refused(put("nowhere", &[secret("s")])).await, nowhere);
}
