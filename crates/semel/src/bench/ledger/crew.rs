//! The workers: tasks of one thread, each with a connection of its own and one act under way.

use std::cell::Cell;
use std::ops::AsyncFn;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::{JoinHandle, LocalSet};

use crate::bench::http::load::{histogram, record};
use crate::failure::Failure;

/// Workers at once.
pub(super) const WORKERS: usize = 16;

/// Acts per second of all workers together where they keep a pace.
const PACE: u32 = 500;

/// What all workers made together.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Work {
    acts: u64,
    took: Duration,
}

impl Work {
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
    pub(super) fn per_second(self) -> f64 {
        self.acts as f64 / self.took.as_secs_f64()
    }
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.acts += other.acts;
        self.took += other.took;
    }
}

/// Has the workers act as fast as they can until `acts` are done; each act gets a number, from `first` on. The workers come
/// back.
pub(super) async fn share<W, A>(
    workers: Vec<W>,
    (first, acts): (u64, u64),
    act: A,
) -> Result<(Vec<W>, Work), Failure>
where
    W: 'static,
    A: AsyncFn(&mut W, u64) -> Result<(), Failure> + Clone + 'static,
{
    let (local, next) = (LocalSet::new(), Rc::new(Cell::new(first)));
    let began = Instant::now();
    let tasks = workers.into_iter().map(|mut worker| {
        let (next, act) = (next.clone(), act.clone());
        local.spawn_local(async move {
            while next.get() < first + acts {
                let number = next.replace(next.get() + 1);
                act(&mut worker, number).await?;
            }
            Ok(worker)
        })
    });
    let workers = local.run_until(all(tasks.collect())).await?;
    Ok((workers, Work { acts, took: began.elapsed() }))
}

/// Has the workers act at a steady pace while something else goes on. The time of each act counts from when it was due, if
/// the act before it was late, so that a stall is not seen as one slow act.
pub(super) async fn pace<W, A, T>(
    workers: Vec<W>,
    act: A,
    meanwhile: impl Future<Output = Result<T, Failure>>,
) -> Result<(Vec<W>, Histogram<u64>, T), Failure>
where
    W: 'static,
    A: AsyncFn(&mut W) -> Result<(), Failure> + Clone + 'static,
{
    let (local, over) = (LocalSet::new(), Rc::new(Cell::new(false)));
    let (step, began) = (Duration::from_secs(1) / PACE, Instant::now());
    let every = step * u32::try_from(workers.len()).unwrap_or(1);
    let mut due = began;
    let tasks: Vec<_> = workers
        .into_iter()
        .map(|worker| {
            due += step;
            local.spawn_local(paced(worker, act.clone(), due, every, over.clone()))
        })
        .collect();
    let (ended, done) = local
        .run_until(async {
            let done = meanwhile.await;
            over.set(true);
            (all(tasks).await, done)
        })
        .await;
    let (ended, done) = (ended?, done?);
    let mut latency = histogram();
    let mut workers = Vec::new();
    for (worker, its) in ended {
        latency.add(its).map_err(|e| Failure::Broken(e.to_string()))?;
        workers.push(worker);
    }
    Ok((workers, latency, done))
}

async fn paced<W, A: AsyncFn(&mut W) -> Result<(), Failure>>(
    mut worker: W,
    act: A,
    mut due: Instant,
    every: Duration,
    over: Rc<Cell<bool>>,
) -> Result<(W, Histogram<u64>), Failure> {
    let mut latency = histogram();
    while !over.get() {
        let late = due < Instant::now();
        if !late {
            tokio::time::sleep_until(due.into()).await;
        }
        // The timer is a millisecond off now and then, which is nobody's latency.
        let from = if late { due } else { Instant::now() };
        act(&mut worker).await?;
        record(&mut latency, from.elapsed());
        due += every;
    }
    Ok((worker, latency))
}

async fn all<T>(tasks: Vec<JoinHandle<Result<T, Failure>>>) -> Result<Vec<T>, Failure> {
    let mut ended = Vec::with_capacity(tasks.len());
    for task in tasks {
        ended.push(task.await.map_err(|e| Failure::Broken(format!("a worker broke: {e}")))??);
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::http::runtime;

    #[test]
    fn every_number_is_acted_on_once() {
        let seen = Rc::new(Cell::new(0));
        let act = {
            let seen = seen.clone();
            async move |_: &mut (), number| {
                tokio::task::yield_now().await;
                seen.set(seen.get() + number);
                Ok(())
            }
        };
        let (workers, work) = runtime().unwrap().block_on(share(vec![(); 3], (5, 4), act)).unwrap();
        assert_eq!((workers.len(), work.acts, seen.get()), (3, 4, 5 + 6 + 7 + 8));
    }

    #[test]
    fn a_pace_is_kept_until_the_other_thing_is_over() {
        let acts = Rc::new(Cell::new(0));
        let act = {
            let acts = acts.clone();
            async move |_: &mut ()| {
                acts.set(acts.get() + 1);
                Ok(())
            }
        };
        let watched = acts.clone();
        let ten = async move {
            while watched.get() < 10 {
                tokio::task::yield_now().await;
            }
            Ok("ten")
        };
        let (_, latency, said) = runtime().unwrap().block_on(pace(vec![(); 2], act, ten)).unwrap();
        assert_eq!(said, "ten");
        assert_eq!(latency.len(), acts.get());
    }
}
