//! The gate of a queue: everything that decides how many of its jobs may go out now.
//!
//! Pause, hold, breaker, rate and concurrency each know one reason to wait. The gate asks them all and lets through what the
//! strictest allows. Where the hold or the breaker allow only one, that job is *the probe*: there is one for both, because
//! they ask the same question of the same workers, and its end answers both.
//!
//! The gate is told of every delivery that goes out ([`Gate::leased`]) and of the end of each ([`Gate::settled`]). As long
//! as it is told of every end, it always opens again by itself.

use serde::{Deserialize, Serialize};

use crate::breaker::Breaker;
use crate::hold::{Allowance, Hold, Probe};
use crate::ids::JobId;
use crate::outcome::DeferScope;
use crate::queue::QueueConfig;
use crate::rate::Bucket;
use crate::time::Timestamp;

/// The state of one queue's gate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Gate {
    /// Whether somebody paused the queue.
    pub paused: bool,
    /// Whether it waits out backpressure.
    pub hold: Hold,
    /// Whether its endpoint fails.
    pub breaker: Breaker,
    /// What it has used of its rate.
    pub bucket: Bucket,
    /// The delivery whose end decides about the hold and the breaker.
    pub probe: Option<JobId>,
}

/// What the end of a delivery says about the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// They work: the job is done, or in ack mode received. Waiting for the ack would hold a recovered queue for minutes.
    Success,
    /// They do not: the attempt failed. After a hold that is not yet a reason to let everything out, so another probe
    /// follows.
    Failure,
    /// They asked for time.
    Backpressure {
        /// When to try again.
        until: Timestamp,
        /// Who waits. A job that waits alone says nothing about the queue.
        scope: DeferScope,
    },
    /// Nothing: the lease expired, or the job was cancelled or rejected. An expired lease is one worker's end, not that
    /// of all, and a rejection is a verdict on the job.
    Lost,
}

impl Gate {
    /// How many jobs may go out now, of the `want` that could, when `in_flight` are out.
    pub fn allowance(&self, config: &QueueConfig, in_flight: u32, want: u32, now: Timestamp) -> u32 {
        let flow = match self.flow(config, now) {
            Allowance::None => 0,
            Allowance::One => 1,
            Allowance::All => u32::MAX,
        };
        let slots = config.concurrency.map_or(u32::MAX, |limit| limit.saturating_sub(in_flight));
        let rate = config.rate.as_ref().map_or(u32::MAX, |limit| self.bucket.available(limit, now));
        want.min(flow).min(slots).min(rate)
    }

    /// These jobs went out: as many as [`Gate::allowance`] gave for the same moment, or fewer.
    pub fn leased(&mut self, config: &QueueConfig, ids: &[JobId], now: Timestamp) {
        let Some(first) = ids.first() else { return };
        if let Some(limit) = &config.rate {
            let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            self.bucket.take(limit, count, now);
        }
        self.forget_unused_breaker(config);
        if self.flow(config, now) == Allowance::One {
            self.probe = Some(*first);
            self.hold = self.hold.probe_sent();
            self.breaker = self.breaker.probe_sent();
        }
    }

    /// A delivery ended. While a probe is needed only the probe is believed about recovery and failure, because the
    /// others went out before the trouble started; backpressure is believed from anyone.
    pub fn settled(&mut self, config: &QueueConfig, id: JobId, signal: Signal, now: Timestamp) {
        let is_probe = self.probe == Some(id);
        if is_probe {
            self.probe = None;
            self.hold = self.hold.probe_settled(probe_result(signal));
        } else if let Signal::Backpressure { until, scope: DeferScope::Queue } = signal {
            self.hold = self.hold.backpressure(until);
        }
        self.forget_unused_breaker(config);
        if is_probe || self.breaker.is_closed() {
            self.tell_breaker(config, signal, now);
        }
    }

    /// Forgets what a crash forgets: a probe that will never be settled, because its lease died with the process that held
    /// it, and what was used of the rate, which no store writes down for every lease.
    pub fn restarted(&mut self) {
        self.bucket = Bucket::default();
        self.probe = None;
        self.hold = self.hold.probe_settled(Probe::Lost);
        self.breaker = self.breaker.probe_lost();
    }

    /// When a job may go out: `now` if one may go at once, `None` if no time is enough and something has to happen first
    /// (a resume, the end of the probe, a free slot).
    pub fn next_at(&self, config: &QueueConfig, in_flight: u32, now: Timestamp) -> Option<Timestamp> {
        let has_slot = config.concurrency.is_none_or(|limit| in_flight < limit);
        if self.paused || !has_slot {
            return None;
        }
        let held = match self.hold {
            Hold::Open => now,
            Hold::Until(due) => due,
            Hold::Probing => return None,
        };
        let broken = match self.breaker {
            _ if config.breaker.is_none() => now,
            Breaker::Open { until } => until,
            Breaker::HalfOpen { probing: true } => return None,
            Breaker::Closed { .. } | Breaker::HalfOpen { probing: false } => now,
        };
        let limited = config.rate.as_ref().map_or(now, |limit| self.bucket.next_at(limit, now));
        Some(now.max(held).max(broken).max(limited))
    }

    /// What pause, hold and breaker allow.
    fn flow(&self, config: &QueueConfig, now: Timestamp) -> Allowance {
        if self.paused {
            return Allowance::None;
        }
        let breaker = config.breaker.map_or(Allowance::All, |_| self.breaker.allows(now));
        self.hold.allows(now).min(breaker)
    }

    fn tell_breaker(&mut self, config: &QueueConfig, signal: Signal, now: Timestamp) {
        let Some(breaker) = &config.breaker else { return };
        self.breaker = match signal {
            Signal::Success => self.breaker.on_success(),
            Signal::Failure => self.breaker.on_failure(breaker, now),
            // A worker that asks for time is alive; whether it works again is for the next probe to find out.
            Signal::Backpressure { .. } | Signal::Lost => self.breaker.probe_lost(),
        };
    }

    /// A queue whose breaker was taken away starts with a fresh one if it is given one again. A stale one might wait for
    /// a probe that nobody remembers.
    fn forget_unused_breaker(&mut self, config: &QueueConfig) {
        if config.breaker.is_none() {
            self.breaker = Breaker::default();
        }
    }
}

/// What the end of the probe says about the hold.
fn probe_result(signal: Signal) -> Probe {
    match signal {
        Signal::Success => Probe::Worked,
        Signal::Backpressure { until, scope: DeferScope::Queue } => Probe::Pushback { until },
        Signal::Backpressure { scope: DeferScope::Job, .. } | Signal::Failure | Signal::Lost => Probe::Lost,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::queue::{BreakerConfig, RateLimit};
    use crate::time::Millis;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    fn id(n: u64) -> JobId {
        JobId::from_raw(n).unwrap()
    }

    /// A queue with every limit there is: 4 in flight, 10 a second with bursts of 3, a breaker at 2 failures.
    fn limited() -> QueueConfig {
        QueueConfig {
            concurrency: Some(4),
            rate: Some(RateLimit { count: 10, per: Millis::from_secs(1), burst: 3 }),
            ..with_breaker()
        }
    }

    fn with_breaker() -> QueueConfig {
        let breaker = BreakerConfig { failures: 2, cooldown: Millis::from_millis(500) };
        QueueConfig { breaker: Some(breaker), ..QueueConfig::default() }
    }

    fn pushback(until: u64) -> Signal {
        Signal::Backpressure { until: at(until), scope: DeferScope::Queue }
    }

    /// A gate held until 100.
    fn held() -> Gate {
        let mut gate = Gate::default();
        gate.settled(&QueueConfig::default(), id(99), pushback(100), at(0));
        gate
    }

    #[test]
    fn a_fresh_gate_lets_everything_through() {
        let (gate, config) = (Gate::default(), QueueConfig::default());
        assert_eq!(gate.allowance(&config, 1000, 256, at(0)), 256);
        assert_eq!(gate.next_at(&config, 1000, at(0)), Some(at(0)));
    }

    #[test]
    fn a_paused_queue_waits_for_somebody() {
        let gate = Gate { paused: true, ..Gate::default() };
        assert_eq!(gate.allowance(&limited(), 0, 10, at(0)), 0);
        assert_eq!(gate.next_at(&limited(), 0, at(0)), None);
    }

    #[test]
    fn the_strictest_limit_decides() {
        let gate = Gate::default();
        assert_eq!(gate.allowance(&limited(), 0, 10, at(0)), 3, "the burst");
        assert_eq!(gate.allowance(&limited(), 2, 10, at(0)), 2, "the free slots");
        assert_eq!(gate.allowance(&limited(), 9, 10, at(0)), 0, "a lowered limit");
        assert_eq!(gate.allowance(&limited(), 0, 1, at(0)), 1, "what there is");
        assert_eq!(gate.next_at(&limited(), 4, at(0)), None, "a full queue waits for an end, not for a time");
    }

    #[test]
    fn what_went_out_uses_up_the_rate() {
        let mut gate = Gate::default();
        gate.leased(&limited(), &[id(1), id(2), id(3)], at(0));
        assert_eq!(gate.allowance(&limited(), 0, 10, at(0)), 0);
        assert_eq!(gate.next_at(&limited(), 0, at(0)), Some(at(100)));
        assert_eq!(gate.allowance(&limited(), 0, 10, at(100)), 1);
        assert_eq!(gate.probe, None, "an open gate sends no probe");
    }

    #[test]
    fn backpressure_holds_the_queue_and_then_one_probe_opens_it() {
        let (mut gate, config) = (held(), QueueConfig::default());
        assert_eq!(gate.allowance(&config, 0, 10, at(99)), 0);
        assert_eq!(gate.next_at(&config, 0, at(0)), Some(at(100)));
        assert_eq!(gate.allowance(&config, 0, 10, at(100)), 1);
        gate.leased(&config, &[id(7)], at(100));
        assert_eq!((gate.probe, gate.allowance(&config, 1, 10, at(5000))), (Some(id(7)), 0));
        assert_eq!(gate.next_at(&config, 1, at(5000)), None);
        gate.settled(&config, id(7), Signal::Success, at(5000));
        assert_eq!((gate.probe, gate.allowance(&config, 0, 10, at(5000))), (None, 10));
    }

    #[test]
    fn a_probe_that_is_pushed_back_holds_the_queue_again() {
        let (mut gate, config) = (held(), QueueConfig::default());
        gate.leased(&config, &[id(7)], at(100));
        gate.settled(&config, id(7), pushback(900), at(150));
        assert_eq!(gate.next_at(&config, 0, at(150)), Some(at(900)));
    }

    #[test]
    fn after_a_probe_that_says_nothing_another_goes_at_once() {
        let lonely = Signal::Backpressure { until: at(9999), scope: DeferScope::Job };
        for signal in [Signal::Lost, Signal::Failure, lonely] {
            let (mut gate, config) = (held(), QueueConfig::default());
            gate.leased(&config, &[id(7)], at(100));
            gate.settled(&config, id(7), signal, at(150));
            assert_eq!(gate.allowance(&config, 0, 10, at(150)), 1, "{signal:?}");
        }
    }

    #[test]
    fn jobs_sent_before_the_hold_do_not_open_it() {
        let (mut gate, config) = (held(), QueueConfig::default());
        gate.settled(&config, id(1), Signal::Success, at(50));
        assert_eq!(gate.allowance(&config, 0, 10, at(50)), 0);
        gate.leased(&config, &[id(7)], at(100));
        gate.settled(&config, id(2), Signal::Success, at(120));
        gate.settled(&config, id(3), Signal::Lost, at(120));
        assert_eq!(gate.allowance(&config, 0, 10, at(120)), 0, "only the probe decides");
        gate.settled(&config, id(4), pushback(700), at(130));
        gate.settled(&config, id(7), Signal::Success, at(140));
        assert_eq!(
            gate.next_at(&config, 0, at(140)),
            Some(at(700)),
            "but backpressure is believed from anyone"
        );
    }

    #[test]
    fn a_job_that_waits_alone_holds_nobody() {
        let (mut gate, config) = (Gate::default(), QueueConfig::default());
        gate.settled(&config, id(1), Signal::Backpressure { until: at(900), scope: DeferScope::Job }, at(0));
        assert_eq!(gate, Gate::default());
    }

    #[test]
    fn the_breaker_opens_and_its_probe_closes_it() {
        let (mut gate, config) = (Gate::default(), with_breaker());
        gate.settled(&config, id(1), Signal::Failure, at(0));
        gate.settled(&config, id(2), Signal::Failure, at(0));
        assert_eq!(gate.next_at(&config, 0, at(0)), Some(at(500)));
        gate.settled(&config, id(3), Signal::Success, at(100));
        assert_eq!(gate.allowance(&config, 0, 10, at(499)), 0, "a straggler does not close it");
        assert_eq!(gate.allowance(&config, 0, 10, at(500)), 1);
        gate.leased(&config, &[id(4)], at(500));
        gate.settled(&config, id(5), Signal::Failure, at(550));
        gate.settled(&config, id(4), Signal::Success, at(600));
        assert_eq!(gate.allowance(&config, 0, 10, at(600)), 10, "a straggler does not open it again");
    }

    #[test]
    fn a_failed_probe_opens_the_breaker_again_and_a_lost_one_is_repeated() {
        let (mut gate, config) = (Gate::default(), with_breaker());
        gate.settled(&config, id(1), Signal::Failure, at(0));
        gate.settled(&config, id(2), Signal::Failure, at(0));
        gate.leased(&config, &[id(3)], at(500));
        gate.settled(&config, id(3), Signal::Lost, at(600));
        assert_eq!(gate.allowance(&config, 0, 10, at(600)), 1);
        gate.leased(&config, &[id(4)], at(600));
        gate.settled(&config, id(4), Signal::Failure, at(700));
        assert_eq!(gate.next_at(&config, 0, at(700)), Some(at(1200)));
    }

    #[test]
    fn backpressure_and_lost_deliveries_are_no_failures() {
        let (mut gate, config) = (Gate::default(), with_breaker());
        for n in 0..10 {
            gate.settled(&config, id(n), Signal::Lost, at(0));
            gate.settled(&config, id(n), pushback(1), at(0));
        }
        assert!(gate.breaker.is_closed());
    }

    #[test]
    fn one_probe_answers_the_hold_and_the_breaker() {
        let (mut gate, config) = (held(), with_breaker());
        gate.settled(&config, id(1), Signal::Failure, at(0));
        gate.settled(&config, id(2), Signal::Failure, at(0));
        assert_eq!(gate.next_at(&config, 0, at(0)), Some(at(500)), "the later of the two");
        gate.leased(&config, &[id(3)], at(500));
        gate.settled(&config, id(3), Signal::Success, at(600));
        assert_eq!(gate.allowance(&config, 0, 10, at(600)), 10);
    }

    #[test]
    fn a_breaker_that_was_taken_away_is_forgotten() {
        let (mut gate, config) = (Gate::default(), with_breaker());
        gate.settled(&config, id(1), Signal::Failure, at(0));
        gate.settled(&config, id(2), Signal::Failure, at(0));
        let without = QueueConfig::default();
        assert_eq!(gate.allowance(&without, 0, 10, at(0)), 10);
        gate.leased(&without, &[id(3)], at(0));
        assert_eq!(gate.allowance(&config, 0, 10, at(0)), 10);
    }

    #[test]
    fn a_probe_that_died_with_its_process_is_replaced() {
        let (mut gate, config) = (held(), QueueConfig::default());
        gate.leased(&config, &[id(7)], at(100));
        let mut restored = serde_json::from_str::<Gate>(&serde_json::to_string(&gate).unwrap()).unwrap();
        assert_eq!(restored, gate);
        restored.restarted();
        assert_eq!(restored.allowance(&config, 0, 10, at(100)), 1);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Wait(u64),
        Lease(u32),
        Settle(Index, Word),
        Pause(bool),
    }

    #[derive(Debug, Clone, Copy)]
    enum Word {
        Success,
        Failure,
        Lost,
        Later(u64, DeferScope),
    }

    fn step() -> impl Strategy<Value = Step> {
        let scope = prop_oneof![Just(DeferScope::Queue), Just(DeferScope::Job)];
        let word = prop_oneof![
            Just(Word::Success),
            Just(Word::Failure),
            Just(Word::Lost),
            (0_u64..1000, scope).prop_map(|(wait, scope)| Word::Later(wait, scope)),
        ];
        prop_oneof![
            3 => (0_u64..700).prop_map(Step::Wait),
            4 => (0_u32..6).prop_map(Step::Lease),
            6 => (any::<Index>(), word).prop_map(|(which, word)| Step::Settle(which, word)),
            1 => any::<bool>().prop_map(Step::Pause),
        ]
    }

    fn check_next_at(
        gate: &Gate,
        config: &QueueConfig,
        in_flight: u32,
        now: u64,
    ) -> Result<(), TestCaseError> {
        let allowed = |millis| gate.allowance(config, in_flight, 1, at(millis));
        match gate.next_at(config, in_flight, at(now)) {
            None => prop_assert_eq!(allowed(now + 1_000_000_000), 0, "no time is enough"),
            Some(next) => {
                let wait = next.since(at(now)).millis();
                prop_assert_eq!(allowed(now + wait), 1, "one may go at the time it was said");
                prop_assert!(wait == 0 || allowed(now + wait - 1) == 0, "and not before");
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn whatever_happens_the_gate_keeps_its_limits_and_opens_again(
            steps in prop::collection::vec(step(), 1..80), with_limits: bool,
        ) {
            let config = if with_limits { limited() } else { QueueConfig::default() };
            let (mut gate, mut now, mut out, mut made) = (Gate::default(), 0, Vec::new(), 0_u64);
            for step in steps {
                let in_flight = u32::try_from(out.len()).unwrap();
                match step {
                    Step::Wait(millis) => now += millis,
                    Step::Pause(paused) => gate.paused = paused,
                    Step::Lease(want) => {
                        let granted = gate.allowance(&config, in_flight, want, at(now));
                        prop_assert!(granted <= want);
                        prop_assert!(config.concurrency.is_none_or(|limit| in_flight + granted <= limit));
                        prop_assert!(granted <= 1 || gate.hold == Hold::Open && gate.breaker.is_closed());
                        let ids = (0..u64::from(granted)).map(|n| id(made + n)).collect::<Vec<_>>();
                        made += u64::from(granted);
                        gate.leased(&config, &ids, at(now));
                        out.extend(ids);
                    }
                    Step::Settle(which, word) if !out.is_empty() => {
                        let id = out.swap_remove(which.index(out.len()));
                        let signal = match word {
                            Word::Success => Signal::Success,
                            Word::Failure => Signal::Failure,
                            Word::Lost => Signal::Lost,
                            Word::Later(wait, scope) => Signal::Backpressure { until: at(now + wait), scope },
                        };
                        gate.settled(&config, id, signal, at(now));
                    }
                    Step::Settle(..) => {}
                }
                check_next_at(&gate, &config, u32::try_from(out.len()).unwrap(), now)?;
                prop_assert!(gate.probe.is_none_or(|probe| out.contains(&probe)), "a probe is a job that is out");
            }
            gate.paused = false;
            for id in out {
                gate.settled(&config, id, Signal::Lost, at(now));
            }
            prop_assert!(gate.next_at(&config, 0, at(now)).is_some(), "with nothing out, time alone opens it: {:?}", gate);
        }
    }
}
