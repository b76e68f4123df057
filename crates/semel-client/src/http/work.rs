//! What a worker asks of the server: leases and settles.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::address::segment;
use super::exchange::Ask;
use super::{Client, Error, Problem};
use crate::outcome::Wire;
use crate::{Delivery, time};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wish {
    max: usize,
    wait: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct Leased {
    jobs: Vec<Delivery>,
}

/// One settle of a batch: which delivery, and what to do with it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Settle<'a> {
    pub(crate) id: &'a str,
    pub(crate) lease: &'a str,
    #[serde(flatten)]
    pub(crate) what: Wire<'a>,
}

/// The answer to one settle.
pub(crate) type Settling = Result<(), Box<Problem>>;

#[derive(Serialize)]
struct Settles<'a> {
    items: &'a [Settle<'a>],
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Box<RawValue>>,
}

impl Client {
    /// Leases up to `max` jobs; waits for the first of them no longer than `wait`.
    pub(crate) async fn lease(
        &self,
        queue: &str,
        max: usize,
        wait: Duration,
        lease: Option<Duration>,
    ) -> Result<Vec<Delivery>, Error> {
        let wait = time::whole_seconds(wait);
        let wish = Wish { max, wait, lease_seconds: lease.map(|lease| lease.as_secs_f64()) };
        let ask = Ask::post(self, &format!("/v1/queues/{}/lease", segment(queue)), written(&wish)?)?;
        let leased: Leased = self.ask(&ask.holding(Duration::from_secs(wait))).await?.read()?;
        Ok(leased.jobs)
    }

    /// Settles many deliveries. There is one answer per settle, in their order.
    pub(crate) async fn settle(&self, items: &[Settle<'_>]) -> Result<Vec<Settling>, Error> {
        let ask = Ask::post(self, "/v1/settle", written(&Settles { items })?)?;
        let results: Results = self.ask(&ask).await?.read()?;
        if results.results.len() != items.len() {
            let words = format!("{} answers to {} settles", results.results.len(), items.len());
            return Err(Error::Answer(words));
        }
        let judge = |item: &RawValue| Problem::item(item.get()).map_or(Ok(()), |no| Err(Box::new(no)));
        Ok(results.results.iter().map(|item| judge(item)).collect())
    }
}

fn written(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|error| Error::Setup(format!("a request cannot be written: {error}")))
}
