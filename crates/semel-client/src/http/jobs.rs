//! Looking jobs up, and waiting for one to end.

use std::time::Duration;

use tokio::time::Instant;

use super::address::segment;
use super::exchange::Ask;
use super::{Client, Error, Job};

/// The longest that a server holds an answer.
const HOLD_MAX: u64 = 60;

impl Client {
    /// One job, as it stands.
    pub async fn job(&self, id: &str) -> Result<Job, Error> {
        self.ask(&Ask::get(self, &format!("/v1/jobs/{}", segment(id)))?).await?.read()
    }

    /// Waits for the end of a job, no longer than `within`, and returns it as it is then; look at [`Job::state`].
    ///
    /// A server that goes away meanwhile is waited for, up to the client's deadline.
    pub async fn wait(&self, id: &str, within: Duration) -> Result<Job, Error> {
        let end = Instant::now().checked_add(within);
        loop {
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            // Rounded down: a wait that is almost over is looked at, and not waited out for a second.
            let hold = left.as_secs().min(HOLD_MAX);
            let ask = Ask::get(self, &format!("/v1/jobs/{}?wait={hold}", segment(id)))?;
            let job: Job = self.ask(&ask.holding(Duration::from_secs(hold))).await?.read()?;
            // A server that stops answers early, so only the clock says that the time is over.
            if job.state.is_finished() || left.is_zero() {
                return Ok(job);
            }
            if hold == 0 {
                tokio::time::sleep(left).await;
            }
        }
    }
}
