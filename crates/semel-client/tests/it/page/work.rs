use std::time::Duration;

use semel_client::http::{Client, Error};
use semel_client::worker::{Tally, Worker};
use semel_client::{Delivery, Outcome};

pub async fn work(client: &Client, stop: impl Future<Output = ()> + Send) -> Result<Tally, Error> {
    let worker = Worker::new(client, "thumbnails").concurrency(8).lease(Duration::from_secs(30));
    worker.run(thumbnail, stop).await
}

async fn thumbnail(delivery: Delivery) -> Outcome {
    match delivery.payload::<String>() {
        Ok(picture) => Outcome::done_with(&format!("{picture}.thumbnail")),
        // No other attempt will read it either.
        Err(error) => Outcome::reject(error),
    }
}
