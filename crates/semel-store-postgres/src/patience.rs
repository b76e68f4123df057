//! How often and how long a transaction that failed for no fault of its own is tried again.

use std::time::Duration;

use rand::RngExt;
use tokio::time::{Instant, sleep};

use crate::fault::Fault;

/// How often a lost race is run again. Whoever loses eight times in a row is in a crowd, and should say so.
const RACES_MAX: u32 = 8;
/// The first wait after a lost race: about one transaction of the one who won.
const RACE_WAIT: Duration = Duration::from_millis(2);
/// The first wait for another connection.
const OUTAGE_WAIT: Duration = Duration::from_millis(50);
/// The longest wait for another connection: a server that comes back is noticed within it.
const OUTAGE_WAIT_MAX: Duration = Duration::from_secs(1);

/// What the runtime's clock rounds a wait up to.
const TICK: Duration = Duration::from_millis(1);

/// What is left of a call's patience.
#[derive(Debug)]
pub(crate) struct Patience {
    until: Instant,
    races: u32,
    outages: u32,
}

impl Patience {
    /// Patience for this long.
    pub(crate) fn new(span: Duration) -> Self {
        Self { until: Instant::now() + span, races: 0, outages: 0 }
    }

    /// When it ends. A try that is under way then is given up.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Waits a while and says whether to try again: after a lost race or for another connection, as long as patience
    /// lasts. Nothing of the failed try may have happened, or it must not matter if it has.
    pub(crate) async fn again(&mut self, fault: &Fault) -> bool {
        let wait = if fault.lost_a_race() {
            self.races += 1;
            (self.races <= RACES_MAX).then(|| RACE_WAIT * 2u32.saturating_pow(self.races))
        } else if fault.needs_another_connection() {
            self.outages += 1;
            Some((OUTAGE_WAIT * 2u32.saturating_pow(self.outages)).min(OUTAGE_WAIT_MAX))
        } else {
            None
        };
        // Random, so that those who ran into each other do not do so again.
        let Some(wait) = wait.map(|most| most.mul_f64(rand::rng().random_range(0.5..1.0))) else {
            return false;
        };
        if Instant::now() + wait + TICK >= self.until {
            return false;
        }
        sleep(wait).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::error::SqlState;

    use super::*;

    fn race() -> Fault {
        Fault::Refused { state: SqlState::T_R_DEADLOCK_DETECTED, message: String::new(), table: None }
    }

    /// How often a fault is tried again, and how long that takes.
    async fn tries(span: Duration, fault: &Fault) -> (u32, Duration) {
        let (mut patience, start) = (Patience::new(span), Instant::now());
        let mut count = 0;
        while patience.again(fault).await {
            count += 1;
        }
        (count, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_race_is_run_again_a_few_times_and_an_outage_is_waited_out() {
        let long = Duration::from_secs(30);
        let (races, _) = tries(long, &race()).await;
        assert_eq!(races, RACES_MAX);
        let (outages, waited) = tries(long, &Fault::Unreachable("down".into())).await;
        assert!(outages > 25 && waited > Duration::from_secs(28) && waited < long, "{outages} in {waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_fail_again_is_not_tried_again() {
        let broken = Fault::Broken("a mistake".into());
        assert_eq!(tries(Duration::from_secs(30), &broken).await, (0, Duration::ZERO));
        assert_eq!(tries(Duration::ZERO, &race()).await.0, 0, "there is no patience at all");
    }
}
