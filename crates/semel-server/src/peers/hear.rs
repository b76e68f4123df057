//! Hearing: what other nodes tell is passed on here, and what they could not tell is looked for.

use std::sync::Arc;

use semel_store::StoreError;
use semel_store::shared::{Heard, Shared, Wakes};
use tokio::time::Instant;

use crate::service::Service;
use crate::stop::Stop;

/// Hears until it is told to stop.
pub(super) async fn run(service: Arc<Service>, shared: Arc<dyn Shared>, stop: Stop) {
    let mut ear = Ear { service, shared, hearing: false, missed: true, settings: None, failing: false };
    let mut swept = Instant::now();
    while !stop.is_stopped() {
        let pace = ear.service.options.pace;
        let every = if ear.hearing { pace.sweep } else { pace.sweep_deaf };
        let looks = tokio::select! {
            () = stop.stopped() => break,
            heard = ear.shared.hear() => ear.take(heard).await,
            () = tokio::time::sleep_until(swept + every) => true,
        };
        if looks {
            ear.look().await;
            swept = Instant::now();
        }
    }
}

struct Ear {
    service: Arc<Service>,
    shared: Arc<dyn Shared>,
    hearing: bool,
    /// Whether something may have been told that was not heard.
    missed: bool,
    /// How the settings of queues were at the last sweep.
    settings: Option<u64>,
    /// Whether the last sweep did not work.
    failing: bool,
}

impl Ear {
    /// Takes in what was heard, and says whether it is time to look at everything.
    async fn take(&mut self, heard: Heard) -> bool {
        match heard {
            Heard::Wakes(wakes) => {
                self.pass_on(&wakes).await;
                self.missed |= wakes.everything;
                wakes.everything
            }
            Heard::Hearing => {
                self.hearing = true;
                self.missed = true;
                true
            }
            Heard::Deaf => {
                let seconds = self.service.options.pace.sweep_deaf.as_secs_f32();
                tracing::warn!(
                    seconds,
                    "other nodes are not heard; their work is looked for every so many seconds"
                );
                self.hearing = false;
                true
            }
        }
    }

    async fn pass_on(&self, wakes: &Wakes) {
        let news = &self.service.news;
        // Somebody told this: from now on there is somebody to tell.
        news.outbox.set_open(true);
        self.service.peers.crowd.heard(&wakes.busy);
        for queue in &wakes.gone {
            news.queue_gone(queue);
            self.service.metrics.forget(queue);
        }
        wakes.changed.iter().for_each(|queue| news.queue_changed(queue));
        for (queue, jobs) in &wakes.ready {
            news.bells.ring(queue, usize::try_from(*jobs).unwrap_or(usize::MAX));
        }
        if wakes.tasks {
            news.tasks_changed();
        }
        if wakes.api_keys
            && let Err(error) = self.service.keyring.reload(self.service.store.as_ref()).await
        {
            tracing::warn!(%error, "the API keys could not be read; they are read again within seconds");
        }
    }

    /// Looks for what was not heard.
    async fn look(&mut self) {
        match self.sweep().await {
            Ok(()) => self.failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "the queues could not be looked at");
                }
            }
        }
    }

    async fn sweep(&mut self) -> Result<(), StoreError> {
        let sweep = self.shared.sweep().await?;
        let news = &self.service.news;
        if self.settings.replace(sweep.settings) != Some(sweep.settings) {
            news.queues_changed();
        }
        sweep.ready.iter().for_each(|queue| news.bells.ring(queue, usize::MAX));
        // Nothing says at a glance whether these have changed, so they are read when that may be.
        if self.missed || !self.hearing {
            news.tasks_changed();
            self.service.keyring.reload(self.service.store.as_ref()).await?;
            self.missed = false;
        }
        Ok(())
    }
}
