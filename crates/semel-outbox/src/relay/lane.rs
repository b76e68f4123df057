//! The loop: claim, carry, and wait for news.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::carry::carry;
use super::holds::Holds;
use super::{Error, Relay, Tally};

/// How long to leave a database alone that failed, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

impl Relay {
    /// Carries rows until `stop` is ready; what is under way is finished, which takes seconds at most. Says what it did.
    ///
    /// Nothing ends it but that: a database or a server that is away is waited for. Dropping the future is like killing
    /// the process: what was claimed is free again, and what was published is known by its key.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Tally {
        let (stopper, stopped) = watch::channel(());
        let holds = Arc::new(Holds::default());
        let lanes = if self.outbox.0.takes_turns() { 1 } else { self.lanes };
        let mut tasks = JoinSet::new();
        for _ in 0..lanes {
            tasks.spawn(lane(self.clone(), holds.clone(), stopped.clone()));
        }
        drop(stopped);
        stop.await;
        drop(stopper);
        let mut tally = Tally::default();
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok(some) => tally += some,
                Err(error) => tracing::error!(%error, "a lane of the relay broke off"),
            }
        }
        tally
    }

    /// Carries everything that can be carried now, and ends. Rows that others have claimed, and those of queues that take
    /// nothing for now, are left; [`Outbox::depth`](super::Outbox::depth) says how many.
    pub async fn drain(&self) -> Result<Tally, Error> {
        let (holds, mut tally) = (Holds::default(), Tally::default());
        loop {
            let some = self.round(&holds).await?;
            tally += some;
            if some == Tally::default() {
                return Ok(tally);
            }
        }
    }

    async fn round(&self, holds: &Holds) -> Result<Tally, Error> {
        let claim = self.outbox.0.claim(self.batch, &holds.held()).await?;
        carry(&self.client, claim, holds).await
    }
}

async fn lane(relay: Relay, holds: Arc<Holds>, mut stopped: watch::Receiver<()>) -> Tally {
    let (mut tally, mut pause) = (Tally::default(), PAUSE.0);
    // From before the first look, so that a row which comes between a look and a wait is heard of.
    let mut news = relay.outbox.0.news();
    loop {
        let wait = match relay.round(&holds).await {
            Ok(some) => {
                pause = PAUSE.0;
                tally += some;
                let until_next = || holds.next().map_or(relay.poll, |next| next.min(relay.poll));
                // As long as something moves there may be more.
                (some == Tally::default()).then(until_next)
            }
            Err(error) => {
                tracing::warn!(%error, ?pause, "the outbox cannot be read; trying again");
                let wait = pause;
                pause = (pause * 2).min(PAUSE.1);
                Some(wait)
            }
        };
        let rest = async {
            match wait {
                Some(wait) => news.wait(wait).await,
                None => tokio::task::yield_now().await,
            }
        };
        // An error ends it, too: then nobody is left who could stop us in order.
        let mut ended = pin!(stopped.changed());
        tokio::select! {
            biased;
            _ = &mut ended => return tally,
            () = rest => {}
        }
    }
}
