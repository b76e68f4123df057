//! How an act is played: orders are published, workers take them, and each order's worker is killed where that order's turn
//! says so. The queue does the rest.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::try_join_all;
use semel_client::http::Job;
use semel_client::{Jitter, Publish, Retry, Strategy};

use crate::actor::Actor;
use crate::acts::{Act, ORDERS};
use crate::failure::Failure;
use crate::provider::Provider;
use crate::report::{Played, Turn};
use crate::shop::{self, Order};
use crate::stage::Stage;
use crate::telling::Telling;
use crate::word::{Boundary, Word};
use crate::worker::Orders;

/// Far longer than an act takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// One act under way.
struct Play<'a> {
    act: Act,
    stage: &'a Stage,
    telling: &'a Telling,
    provider: Provider,
    shop: PathBuf,
    /// The kills that are still to come.
    kills: Vec<(u32, Boundary)>,
    /// The job of each order.
    jobs: Vec<(u32, String)>,
}

/// Plays an act in a world of its own, and counts what came of it.
pub(crate) async fn play(act: Act, stage: &Stage, telling: &Telling) -> Result<Played, Failure> {
    telling.begin(act)?;
    let shop = stage.file(format!("shop-{}.db", act.number()));
    shop::make(&shop)?;
    let provider = Provider::start(act.service_knows_keys() && !stage.forgetful).await?;
    let kills = ORDERS.into_iter().filter_map(|(order, at)| Some((order, at?))).collect();
    let jobs = publish(act, stage).await?;
    let mut play = Play { act, stage, telling, provider, shop, kills, jobs };
    let ended = play.run().await?;
    let played = play.count(&ended)?;
    telling.end(&played)?;
    Ok(played)
}

/// The shop publishes its orders, each under its own key.
async fn publish(act: Act, stage: &Stage) -> Result<Vec<(u32, String)>, Failure> {
    // At once, so that nobody has to watch a back-off.
    let (strategy, base) = (Some(Strategy::Fixed), Some(Duration::ZERO));
    let retry = Retry { strategy, base, jitter: Some(Jitter::None), ..Retry::default() };
    let mut jobs = Vec::new();
    for (number, _) in ORDERS {
        let order = Order::numbered(number);
        let wish = Publish::new(queue(act), &order)?.key(order.key()).retry(retry);
        jobs.push((number, stage.client.publish(&wish).await?.id));
    }
    Ok(jobs)
}

fn queue(act: Act) -> String {
    format!("act-{}", act.number())
}

impl Play<'_> {
    /// Lets workers work, and kills them, until all orders are settled.
    async fn run(&mut self) -> Result<Vec<Job>, Failure> {
        let client = self.stage.client.clone();
        let ids: Vec<String> = self.jobs.iter().map(|(_, id)| id.clone()).collect();
        let mut ended = std::pin::pin!(try_join_all(ids.iter().map(|id| client.wait(id, PATIENCE))));
        let mut actor = Actor::start(&self.orders())?;
        loop {
            tokio::select! {
                jobs = &mut ended => return Ok(jobs?),
                word = actor.word() => actor = self.hear(actor, &word?).await?,
            }
        }
    }

    /// Kills the worker and starts another, or lets it go on.
    async fn hear(&mut self, mut actor: Actor, word: &Word) -> Result<Actor, Failure> {
        if self.kills.contains(&(word.order, word.at)) {
            self.kills.retain(|(order, _)| *order != word.order);
            let pid = actor.pid;
            actor.kill().await?;
            self.telling.killed(self.act, word, pid)?;
            return Actor::start(&self.orders());
        }
        actor.go().await?;
        if let Some(says) = &word.says {
            self.telling.settled(word, actor.pid, says)?;
            self.settled(word.order).await?;
        }
        Ok(actor)
    }

    /// Waits until the queue knows. A worker settles on the side, and would otherwise be killed over its next order before
    /// it has told of this one; then this one would be delivered again, which is not what this act is about.
    async fn settled(&self, order: u32) -> Result<(), Failure> {
        for (_, id) in self.jobs.iter().filter(|(number, _)| *number == order) {
            self.stage.client.wait(id, PATIENCE).await?;
        }
        Ok(())
    }

    fn orders(&self) -> Orders {
        Orders {
            act: self.act,
            server: self.stage.url.clone(),
            queue: queue(self.act),
            service: format!("http://{}/", self.provider.address),
            shop: self.shop.clone(),
        }
    }

    /// What came of each order.
    fn count(&self, jobs: &[Job]) -> Result<Played, Failure> {
        if let Some((order, at)) = self.kills.first() {
            return Err(Failure::Broken(format!(
                "no worker got to {at:?} of order {order}, to be killed there"
            )));
        }
        let turns = ORDERS.iter().zip(jobs).map(|((order, killed), job)| {
            if !job.state.is_finished() {
                return Err(Failure::Broken(format!(
                    "order {order} is still {} after {PATIENCE:?}",
                    job.state
                )));
            }
            Ok(Turn::of(*order, *killed, self.found(*order)?, job))
        });
        let turns = turns.collect::<Result<Vec<_>, Failure>>()?;
        Ok(Played::of(self.act, self.provider.requests(), turns))
    }

    /// How often the effect of an order happened, by the books of whoever has it.
    fn found(&self, order: u32) -> Result<u32, Failure> {
        match self.act {
            Act::Transactional => Ok(shop::charges(&self.shop, order)?),
            _ => Ok(self.provider.effects(order)),
        }
    }
}
