//! Replay tasks: records that the store keeps for whoever carries them out.

use semel_core::replay::{Preflight, ReplayCounts, ReplayFilter, ReplayRecord, ReplayState};
use semel_core::time::Timestamp;
use semel_core::{JobId, Refusal};

use super::kit::Kit;
use super::make::{group, queue_name};
use crate::command::{Command, Reply};

fn replay(id: &str) -> ReplayRecord {
    ReplayRecord {
        id: id.into(),
        queue: queue_name("orders"),
        filter: ReplayFilter {
            error: Some("the endpoint answered N '; --".into()),
            group: Some(group("größe")),
            from: Some(Timestamp::from_millis(1)),
            to: Some(Timestamp::from_millis(1_900_000_000_000)),
            effects: vec![Preflight::NotApplied, Preflight::Unknown],
        },
        rate: Some(10),
        dry_run: true,
        state: ReplayState::Running,
        created_at: Timestamp::from_millis(1_800_000_000_000),
        finished_at: None,
        cursor: None,
        counts: ReplayCounts::default(),
    }
}

fn put(record: ReplayRecord) -> Command {
    Command::PutReplay(Box::new(record))
}

pub(super) async fn replays_are_kept_and_listed_by_id(kit: &mut Kit) {
    kit.queue("orders").await;
    assert_eq!(kit.store().replays().await.expect("lists"), []);
    for id in ["r2", "r1", "R'; --"] {
        assert_eq!(kit.tell(put(replay(id))).await, Reply::Done);
    }
    kit.crash().await;
    let expected = [replay("R'; --"), replay("r1"), replay("r2")];
    assert_eq!(kit.store().replays().await.expect("lists"), expected);
}

pub(super) async fn a_replay_is_replaced_by_its_id(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(replay("r1"))).await;
    let counts = ReplayCounts {
        looked_at: 7,
        matched: 6,
        replayed: 5,
        refused: 1,
        applied: 2,
        not_applied: 3,
        unknown: 1,
    };
    let further = ReplayRecord {
        state: ReplayState::Cancelled,
        finished_at: Some(kit.now()),
        cursor: JobId::from_raw(u64::from(u32::MAX) << 20),
        counts,
        ..replay("r1")
    };
    kit.tell(put(further.clone())).await;
    kit.crash().await;
    assert_eq!(kit.store().replays().await.expect("lists"), [further]);
}

pub(super) async fn a_replay_that_was_called_off_stays_so(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(replay("r1"))).await;
    // Two nodes have read the task: one goes on with it, the other calls it off.
    let counts = |looked_at| ReplayCounts { looked_at, ..ReplayCounts::default() };
    let further = ReplayRecord { counts: counts(7), ..replay("r1") };
    let called_off = ReplayRecord {
        state: ReplayState::Cancelled,
        finished_at: Some(kit.now()),
        counts: counts(3),
        ..replay("r1")
    };
    kit.tell(put(further)).await;
    kit.tell(put(called_off.clone())).await;
    let expected = ReplayRecord { counts: counts(7), ..called_off.clone() };
    assert_eq!(kit.store().replays().await.expect("lists"), [expected]);
    let late = ReplayRecord { counts: counts(9), ..replay("r1") };
    kit.tell(put(late)).await;
    kit.crash().await;
    let expected = ReplayRecord { counts: counts(9), ..called_off };
    assert_eq!(kit.store().replays().await.expect("lists"), [expected]);
    // Under a name that is free again there is another task.
    kit.tell(Command::DeleteReplay("r1".into())).await;
    kit.tell(put(replay("r1"))).await;
    assert_eq!(kit.store().replays().await.expect("lists"), [replay("r1")]);
}

pub(super) async fn a_replay_can_be_taken_away_once(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(replay("r1"))).await;
    assert_eq!(kit.tell(Command::DeleteReplay("r1".into())).await, Reply::Done);
    kit.crash().await;
    assert_eq!(kit.store().replays().await.expect("lists"), []);
    for missing in ["r1", "", "%", "' OR '1'='1"] {
        let refusal = kit.refused(Command::DeleteReplay(missing.into())).await;
        assert_eq!(refusal, Refusal::RecordNotFound { kind: "replay", name: missing.into() });
    }
}

pub(super) async fn a_replay_that_makes_no_sense_is_refused(kit: &mut Kit) {
    kit.queue("orders").await;
    kit.tell(put(replay("r1"))).await;
    let backwards = ReplayFilter { to: Some(Timestamp::from_millis(0)), ..replay("r1").filter };
    let bad = [
        replay(""),
        ReplayRecord { rate: Some(0), ..replay("r1") },
        ReplayRecord { filter: backwards, ..replay("r1") },
    ];
    for record in bad {
        assert_eq!(kit.refused(put(record.clone())).await.code(), "invalid", "{record:?}");
    }
    let nowhere = queue_name("nowhere");
    let record = ReplayRecord { queue: nowhere.clone(), ..replay("r1") };
    assert_eq!(kit.refused(put(record)).await, Refusal::QueueNotFound(nowhere));
}
