//! RabbitMQ, through `lapin`.
//!
//! | the verdict | RabbitMQ is told |
//! |---|---|
//! | applied, replayed | `ack` |
//! | in progress | published again to a queue in which it waits, then `ack`: no attempt is burned |
//! | failed, may be tried again | the same, with the attempt counted |
//! | failed for good | `nack` without requeue: the dead-letter queue |
//!
//! The key is a header that the *publisher* sets. The delivery tag, `redelivered` and a message id that is made anew for
//! every publish say nothing about the operation.

use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Consumer};
use semel_ledger::handler::{Disposition, Job};

use crate::{MAX_ATTEMPTS, backoff};

const KEY: &str = "idempotency-key";
const ATTEMPTS: &str = "attempts";

/// Messages survive the broker only if they say so.
const PERSISTENT: u8 = 2;

/// A queue, with one in which jobs wait (`.wait`) and one for those that are given up (`.dead`).
#[derive(Debug, Clone)]
pub struct Queue {
    channel: Channel,
    name: String,
}

impl Queue {
    /// Declares the three queues on a channel.
    pub async fn declare(channel: Channel, name: &str) -> lapin::Result<Self> {
        let queue = Self { channel, name: name.to_owned() };
        queue.made(&queue.dead(), FieldTable::default()).await?;
        queue.made(name, returning_to(&queue.dead())).await?;
        // What expires here goes back. It expires at the head of the queue only: whoever has very different delays makes
        // a queue for each.
        queue.made(&queue.wait(), returning_to(name)).await?;
        queue.channel.confirm_select(ConfirmSelectOptions::default()).await?;
        queue.channel.basic_qos(16, BasicQosOptions::default()).await?;
        Ok(queue)
    }

    /// Publishes a job, and waits until the broker has it. Whoever repeats this after an error repeats the key too.
    pub async fn publish(&self, key: &str, payload: &[u8]) -> lapin::Result<()> {
        let mut headers = FieldTable::default();
        headers.insert(KEY.into(), AMQPValue::LongString(key.into()));
        self.send(&self.name, payload, BasicProperties::default().with_headers(headers)).await
    }

    /// Starts to consume.
    pub async fn consume(&self) -> lapin::Result<Consumer> {
        let (name, options) = (self.name.as_str().into(), BasicConsumeOptions::default());
        self.channel.basic_consume(name, ShortString::default(), options, FieldTable::default()).await
    }

    /// Works on jobs until the connection ends.
    pub async fn work(&self, handler: impl AsyncFn(&Job<'_>) -> Disposition) -> lapin::Result<()> {
        let mut consumer = self.consume().await?;
        while self.work_one(&mut consumer, &handler).await?.is_some() {}
        Ok(())
    }

    /// Works on the next job, and says what became of it; `None` at the end of the connection.
    pub async fn work_one(
        &self,
        consumer: &mut Consumer,
        handler: &impl AsyncFn(&Job<'_>) -> Disposition,
    ) -> lapin::Result<Option<Disposition>> {
        let Some(delivery) = consumer.next().await.transpose()? else { return Ok(None) };
        let key = header(&delivery, KEY).and_then(AMQPValue::as_long_string);
        let key = key.and_then(|key| std::str::from_utf8(key.as_bytes()).ok());
        // RabbitMQ has no token that grows with every delivery.
        let disposition = handler(&Job { key, token: None, payload: &delivery.data }).await;
        self.settle(&delivery, &disposition).await?;
        Ok(Some(disposition))
    }

    async fn settle(&self, delivery: &Delivery, disposition: &Disposition) -> lapin::Result<()> {
        let attempts = header(delivery, ATTEMPTS).and_then(AMQPValue::as_long_uint).unwrap_or(0);
        match disposition {
            Disposition::Ack { .. } => {}
            Disposition::Defer { until } => self.later(delivery, until.remaining, attempts).await?,
            Disposition::Fail { retryable: true, .. } if attempts + 1 < MAX_ATTEMPTS => {
                self.later(delivery, backoff(attempts), attempts + 1).await?;
            }
            Disposition::Fail { .. } => {
                return delivery
                    .nack(BasicNackOptions { requeue: false, ..Default::default() })
                    .await
                    .map(drop);
            }
        }
        delivery.ack(BasicAckOptions::default()).await.map(drop)
    }

    /// Has a job come again after a while. If the worker dies before the `ack` that follows, it comes twice, which is what
    /// the ledger is for.
    async fn later(&self, delivery: &Delivery, delay: Duration, attempts: u32) -> lapin::Result<()> {
        let mut headers = delivery.properties.headers().clone().unwrap_or_default();
        headers.insert(ATTEMPTS.into(), AMQPValue::LongUInt(attempts));
        let delay = delay.as_millis().max(1).to_string();
        let properties = BasicProperties::default().with_headers(headers).with_expiration(delay.into());
        self.send(&self.wait(), &delivery.data, properties).await
    }

    async fn send(&self, queue: &str, payload: &[u8], properties: BasicProperties) -> lapin::Result<()> {
        let (exchange, options) = (ShortString::default(), BasicPublishOptions::default());
        let properties = properties.with_delivery_mode(PERSISTENT);
        let sent = self.channel.basic_publish(exchange, queue.into(), options, payload, properties).await?;
        sent.await.map(drop)
    }

    async fn made(&self, name: &str, arguments: FieldTable) -> lapin::Result<()> {
        self.channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await.map(drop)
    }

    fn wait(&self) -> String {
        format!("{}.wait", self.name)
    }

    /// The name of the queue for jobs that are given up.
    pub fn dead(&self) -> String {
        format!("{}.dead", self.name)
    }
}

fn header<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a AMQPValue> {
    delivery.properties.headers().as_ref()?.inner().get(name)
}

/// Arguments of a queue whose refused and expired messages go to another.
fn returning_to(queue: &str) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(queue.into()));
    arguments
}
