//! A worker: a process of its own, started and killed by the demonstration.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{process, thread};

use clap::Args;
use semel_client::Delivery;
use semel_client::http::Client;
use semel_client::worker::Worker;

use crate::acts::Act;
use crate::failure::Failure;
use crate::handlers;
use crate::shop::Order;
use crate::word::{Boundary, Word};

/// How long a job waits for another worker when its own was killed: short enough to watch, and long enough for a machine
/// that is busy with other things.
const LEASE: Duration = Duration::from_secs(3);

/// What the demonstration tells a worker.
#[derive(Debug, Args)]
pub(crate) struct Orders {
    #[arg(long)]
    pub(crate) act: Act,
    #[arg(long)]
    pub(crate) server: String,
    #[arg(long)]
    pub(crate) queue: String,
    #[arg(long)]
    pub(crate) service: String,
    #[arg(long)]
    pub(crate) shop: PathBuf,
}

/// Works until it is killed, or whoever started it has ended.
pub(crate) async fn work(orders: Orders) -> Result<(), Failure> {
    let client = Client::new(orders.server.as_str())?;
    let worker = Worker::new(&client, orders.queue.as_str()).lease(LEASE);
    handlers::run(worker, &orders, Prompter::listen()).await
}

/// Where the worker stands still until it may go on.
#[derive(Debug, Clone)]
pub(crate) struct Prompter {
    answers: Arc<Mutex<Receiver<()>>>,
}

/// One delivery of an order, on its way through the handler.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) order: Order,
    delivery: u32,
    prompter: Prompter,
}

impl Prompter {
    fn listen() -> Self {
        let (sender, answers) = channel();
        thread::spawn(move || listen(&sender));
        Self { answers: Arc::new(Mutex::new(answers)) }
    }

    pub(crate) fn scene(&self, delivery: &Delivery) -> Result<Scene, Failure> {
        let order = delivery.payload()?;
        Ok(Scene { order, delivery: delivery.attempt, prompter: self.clone() })
    }

    /// Says where it is, and waits for the answer. If there is none to come, the process is about to end.
    fn wait(&self, word: &Word) -> Result<(), Failure> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let text = serde_json::to_string(word)?;
        writeln!(io::stdout(), "{text}").map_err(Failure::io("speak"))?;
        answers.recv().map_err(|_| Failure::Broken("nobody is there to answer".to_owned()))
    }
}

impl Scene {
    /// Stands still at a boundary.
    pub(crate) async fn reach(&self, at: Boundary) -> Result<(), Failure> {
        self.pause(at, None).await
    }

    /// The same, on a thread that may block.
    pub(crate) fn reach_blocking(&self, at: Boundary) -> Result<(), Failure> {
        self.prompter.wait(&self.word(at, None))
    }

    /// Stands still with everything done but telling the queue.
    pub(crate) async fn finish(&self, says: &str) -> Result<(), Failure> {
        self.pause(Boundary::BeforeAck, Some(says)).await
    }

    async fn pause(&self, at: Boundary, says: Option<&str>) -> Result<(), Failure> {
        let (prompter, word) = (self.prompter.clone(), self.word(at, says));
        let waited = tokio::task::spawn_blocking(move || prompter.wait(&word)).await;
        waited.map_err(|error| Failure::Broken(error.to_string()))?
    }

    fn word(&self, at: Boundary, says: Option<&str>) -> Word {
        Word { order: self.order.order, delivery: self.delivery, at, says: says.map(str::to_owned) }
    }
}

/// Passes each line on. The end of the input is the end of whoever started this process, and so of this process.
fn listen(answers: &Sender<()>) {
    for line in io::stdin().lock().lines() {
        if line.is_err() || answers.send(()).is_err() {
            break;
        }
    }
    process::exit(0);
}
