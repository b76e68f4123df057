//! Advice that only time brings about: what lasts is noticed, and lease advice is told.
//!
//! A lease that is too short is the quietest way to run jobs twice: every slow run is handed to somebody else while it is
//! still going on. The rest of what there is to say is told to whoever asks ([`crate::advice`]).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use semel_core::name::QueueName;
use semel_core::queue::{Delivery, PushMode, QueueConfig};
use semel_core::time::{Millis, Timestamp};

use super::role::{Next, Role, Trouble};
use crate::news::{Event, Kind, Times};
use crate::service::Service;

/// How often the queues are looked at.
const EVERY: Millis = Millis::from_secs(60);

/// How often the same queue is spoken of.
const AGAIN_AFTER: Millis = Millis::from_hours(1);

/// From how many deliveries on the slowest in a hundred is more than an accident.
const SAMPLES_MIN: u64 = 50;

/// A queue that gives its workers less time than they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooShort {
    /// The setting.
    pub setting: &'static str,
    /// What it is.
    pub limit: Millis,
    /// What it should be at least: half as much again as the slowest in a hundred take, in whole seconds.
    pub needs: Millis,
    /// What was measured.
    pub times: Times,
    /// What else can be done.
    pub instead: &'static str,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, limit, times: Times { count, p50, p99 }, instead, .. } = self;
        write!(
            f,
            "{setting} is {limit}, but one in a hundred of the last {count} deliveries took {p99} or more \
             (half took up to {p50}): jobs are handed out again while they are still being worked; raise it, {instead}"
        )
    }
}

/// The setting that limits how long a worker may take, what it is, and what else gives a worker more time.
pub(crate) fn limit_of(config: &QueueConfig) -> (&'static str, Millis, &'static str) {
    match &config.delivery {
        Delivery::Pull(pull) => ("delivery.leaseSeconds", pull.lease, "or have workers extend their leases"),
        Delivery::Push(push) if push.mode == PushMode::Ack => {
            ("delivery.ackTimeout", push.ack_timeout, "or have workers extend their leases")
        }
        Delivery::Push(push) => ("delivery.timeout", push.timeout, "or use ack mode"),
    }
}

/// Whether a queue gives its workers enough time, by what was measured.
pub fn too_short(config: &QueueConfig, times: Times) -> Option<TooShort> {
    let (setting, limit, instead) = limit_of(config);
    let needs = Millis::from_secs((times.p99.millis() * 3).div_ceil(2000));
    (times.count >= SAMPLES_MIN && limit < times.p99).then_some(TooShort {
        setting,
        limit,
        needs,
        times,
        instead,
    })
}

/// What is to be said about the time a queue gives its workers, if anything.
pub fn advice(config: &QueueConfig, times: Times) -> Option<String> {
    too_short(config, times).map(|found| found.to_string())
}

/// Looks at all queues, and gives lease advice.
pub(super) struct Advice {
    service: Arc<Service>,
    /// When each queue was last spoken of.
    told: HashMap<QueueName, Timestamp>,
}

impl Advice {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service, told: HashMap::new() }
    }

    fn tell(&mut self, queue: &QueueName, words: &str, now: Timestamp) {
        if self.told.get(queue).is_some_and(|at| now.since(*at) < AGAIN_AFTER) {
            return;
        }
        self.told.insert(queue.clone(), now);
        tracing::warn!(%queue, "{words}");
        self.service.news.tell(|| Event {
            kind: Kind::LeaseAdvice,
            at: now,
            queue: Some(queue.clone()),
            job: None,
            detail: Some(words.to_owned()),
        });
    }
}

impl Role for Advice {
    const NAME: &'static str = "advice";

    fn is_for_all_nodes(&self) -> bool {
        false
    }

    async fn run_once(&mut self) -> Result<Next, Trouble> {
        let now = self.service.store.now();
        let queues = self.service.store.queues().await?;
        crate::advice::look_at(&self.service, &queues).await?;
        self.told.retain(|name, _| queues.iter().any(|queue| queue.name == *name));
        for queue in &queues {
            let times = self.service.news.times.of(&queue.name);
            if let Some(words) = times.and_then(|times| advice(&queue.config, times)) {
                self.tell(&queue.name, &words, now);
            }
        }
        Ok(Next::In(EVERY))
    }
}

#[cfg(test)]
mod tests {
    use semel_core::queue::{Pull, Push};

    use super::super::stage::{Stage, name};
    use super::*;

    fn times(count: u64, p99: u64) -> Times {
        Times { count, p50: Millis::from_secs(1), p99: Millis::from_secs(p99) }
    }

    fn pull(lease: u64) -> QueueConfig {
        let delivery = Delivery::Pull(Pull { lease: Millis::from_secs(lease) });
        QueueConfig { delivery, ..QueueConfig::default() }
    }

    #[test]
    fn the_setting_that_is_too_short_is_named() {
        let push = |mode| {
            let push = Push {
                mode,
                timeout: Millis::from_secs(15),
                ack_timeout: Millis::from_secs(60),
                ..Push::default()
            };
            QueueConfig { delivery: Delivery::Push(push), ..QueueConfig::default() }
        };
        for (config, p99, setting) in [
            (pull(30), 31, "delivery.leaseSeconds is 30s"),
            (push(PushMode::Standard), 16, "delivery.timeout is 15s"),
            (push(PushMode::Ack), 61, "delivery.ackTimeout is 1m"),
        ] {
            let words = advice(&config, times(50, p99)).unwrap();
            assert!(words.starts_with(setting), "{words}");
            assert_eq!(advice(&config, times(50, p99 - 1)), None, "{setting}: as long as that is enough");
            assert_eq!(advice(&config, times(49, p99)), None, "{setting}: too few to tell");
        }
    }

    #[tokio::test]
    async fn a_queue_is_spoken_of_once_an_hour() {
        let stage = Stage::new().await;
        stage.queue("slow", pull(1)).await;
        stage.queue("fine", pull(60)).await;
        for queue in ["slow", "fine"] {
            (0..SAMPLES_MIN).for_each(|_| stage.service.news.times.note(&name(queue), Millis::from_secs(5)));
        }
        let mut events = stage.service.news.listen();
        let mut role = Advice::new(stage.service.clone());
        for _ in 0..3 {
            assert_eq!(role.run_once().await.unwrap(), Next::In(EVERY));
        }
        let event = events.try_recv().unwrap();
        assert_eq!((event.kind, event.queue), (Kind::LeaseAdvice, Some(name("slow"))));
        assert!(events.try_recv().is_err(), "once");
        stage.alarm.advance(AGAIN_AFTER);
        role.run_once().await.unwrap();
        assert!(events.try_recv().is_ok(), "and again an hour later");
    }
}
