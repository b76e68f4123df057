//! Key, effect and result in one transaction of MariaDB.

use std::time::Duration;

use futures_util::future::join_all;
use semel_ledger::mysql::SqlxMySql;
use semel_ledger::store::{Claim, Claimed, Expired, Owner, Store};
use semel_ledger::{Begin, Call, Error, Ledger, Verdict};
use serde_json::json;
use sqlx::{MySqlConnection, MySqlPool};
use tokio::sync::Notify;

use super::OnMaria;
use crate::trouble::scope;

/// A shop that books charges, behind a ledger without a cache: what it knows it knows from MariaDB.
struct Shop {
    maria: OnMaria,
    ledger: Ledger<SqlxMySql>,
}

impl Shop {
    async fn open() -> Self {
        let maria = OnMaria::start().await;
        maria.database.sql("CREATE TABLE charge (id INT AUTO_INCREMENT PRIMARY KEY, amount INT)").unwrap();
        let ledger = Ledger::builder(maria.store.clone(), "billing").cache_bytes(0).build().unwrap();
        Self { maria, ledger }
    }

    fn pool(&self) -> &MySqlPool {
        self.maria.store.pool()
    }

    async fn charge(&self, call: &Call) -> Result<Verdict<u64>, Error<sqlx::Error>> {
        self.ledger.transact(self.pool(), call, booked).await
    }

    async fn charges(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM charge").fetch_one(self.pool()).await.unwrap()
    }
}

pub(super) async fn booked(transaction: &mut MySqlConnection) -> Result<u64, sqlx::Error> {
    let booked = sqlx::query("INSERT INTO charge (amount) VALUES (10)").execute(transaction).await?;
    Ok(booked.last_insert_id())
}

fn call(key: &str) -> Call {
    Call::new(key).unwrap()
}

#[tokio::test]
async fn a_duplicate_gets_the_first_result() {
    let shop = Shop::open().await;
    assert_eq!(shop.charge(&call("order-1")).await.unwrap(), Verdict::Applied(1));
    assert_eq!(shop.charge(&call("order-1")).await.unwrap(), Verdict::Replayed(1));
    assert_eq!(shop.charge(&call("order-2")).await.unwrap(), Verdict::Applied(2));
    assert_eq!(shop.charges().await, 2);
}

#[tokio::test]
async fn a_duplicate_does_not_wait_for_the_first() {
    let shop = Shop::open().await;
    let (started, finish) = (Notify::new(), Notify::new());
    let call = call("order-1");
    let first = shop.ledger.transact(shop.pool(), &call, async |transaction| {
        let id = booked(transaction).await?;
        started.notify_one();
        finish.notified().await;
        Ok::<_, sqlx::Error>(id)
    });
    let second = async {
        started.notified().await;
        let second = shop.charge(&call).await;
        finish.notify_one();
        second
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap(), Verdict::Applied(1));
    assert!(matches!(second.unwrap(), Verdict::InProgress { .. }));
    assert_eq!(shop.charge(&call).await.unwrap(), Verdict::Replayed(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_charges_once() {
    let shop = Shop::open().await;
    let verdicts = join_all((0..24).map(|_| async { shop.charge(&call("order-1")).await.unwrap() })).await;
    assert_eq!(verdicts.iter().filter(|verdict| verdict.is_applied()).count(), 1, "{verdicts:?}");
    assert_eq!(shop.charges().await, 1);
    assert!(shop.charge(&call("order-1")).await.unwrap().is_replayed());
}

#[tokio::test(flavor = "multi_thread")]
async fn different_keys_do_not_wait_for_each_other() {
    let shop = Shop::open().await;
    let together = tokio::sync::Barrier::new(6);
    let charges = (0..6).map(|n| {
        let (shop, together) = (&shop, &together);
        async move {
            let call = call(&format!("order-{n}"));
            let charge = async |transaction: &mut MySqlConnection| {
                let id = booked(transaction).await?;
                // All six transactions are open at once, or nobody gets past this.
                together.wait().await;
                Ok::<_, sqlx::Error>(id)
            };
            shop.ledger.transact(shop.pool(), &call, charge).await.unwrap()
        }
    });
    assert!(join_all(charges).await.iter().all(Verdict::is_applied));
}

#[tokio::test]
async fn an_effect_that_fails_leaves_nothing() {
    let shop = Shop::open().await;
    let call = call("order-1");
    let failed: Result<Verdict<u64>, _> = shop
        .ledger
        .transact(shop.pool(), &call, async |transaction| {
            booked(transaction).await.unwrap();
            Err("declined")
        })
        .await;
    assert!(matches!(failed, Err(Error::Effect("declined"))));
    assert_eq!(shop.charges().await, 0);
    assert!(shop.charge(&call).await.unwrap().is_applied());
}

#[tokio::test]
async fn another_input_is_refused() {
    let shop = Shop::open().await;
    let ten = call("order-1").input(&json!({"amount": 10, "to": "a"})).unwrap();
    let twenty = call("order-1").input(&json!({"amount": 20, "to": "a"})).unwrap();
    assert!(shop.charge(&ten).await.unwrap().is_applied());
    let error = shop.charge(&twenty).await.unwrap_err();
    assert!(matches!(&error, Error::Collision { fields } if fields == &["amount"]), "{error}");
    assert_eq!(shop.charges().await, 1);
}

#[tokio::test]
async fn what_others_have_claimed_is_not_done_here() {
    let shop = Shop::open().await;
    let claim = |lease| Claim {
        scope: scope("order-1"),
        owner: Owner::random(),
        fence: Some(7),
        fingerprint: None,
        lease,
        expired: Expired::TakeOver { window: None },
        ttl: Duration::from_secs(60),
    };
    let claimed = shop.maria.store.claim(&claim(Duration::ZERO)).await.unwrap();
    assert!(matches!(claimed, Claimed::Granted(_)));
    assert!(matches!(shop.charge(&call("order-1")).await.unwrap(), Verdict::OutcomeUnknown { .. }));
    assert!(matches!(shop.charge(&call("order-1").token(6)).await, Err(Error::Stale)));
    shop.maria.store.claim(&claim(Duration::from_secs(60))).await.unwrap();
    assert!(matches!(shop.charge(&call("order-1")).await.unwrap(), Verdict::InProgress { .. }));
    assert_eq!(shop.charges().await, 0);
}

#[tokio::test]
async fn an_expired_entry_makes_room() {
    let shop = Shop::open().await;
    shop.maria.store.mark(&[scope("order-1")], Duration::ZERO).await.unwrap();
    assert!(shop.charge(&call("order-1")).await.unwrap().is_applied());
    assert!(shop.charge(&call("order-1")).await.unwrap().is_replayed());
}

#[tokio::test]
async fn a_transaction_of_ones_own_is_recorded_or_repeated() {
    let shop = Shop::open().await;
    let call = call("order-1");
    // It is begun, done and committed, but not recorded: nobody knows of it.
    let mut forgetful = shop.pool().begin().await.unwrap();
    let begin: Begin<'_, _, u64> = shop.ledger.begin(&mut forgetful, &call).await.unwrap();
    assert!(matches!(begin, Begin::New(_)));
    forgetful.commit().await.unwrap();

    let mut careful = shop.pool().begin().await.unwrap();
    let Begin::New(entry) = shop.ledger.begin(&mut careful, &call).await.unwrap() else {
        panic!("it is new")
    };
    let id = booked(&mut careful).await.unwrap();
    entry.record(&mut careful, &id).await.unwrap();
    careful.commit().await.unwrap();
    assert_eq!(shop.charge(&call).await.unwrap(), Verdict::Replayed(id));
}

#[tokio::test]
async fn a_result_is_not_recorded_in_another_transaction() {
    let shop = Shop::open().await;
    let call = call("order-1");
    let mut first = shop.pool().begin().await.unwrap();
    let Begin::New(entry) = shop.ledger.begin(&mut first, &call).await.unwrap() else { panic!("it is new") };
    first.rollback().await.unwrap();
    let mut second = shop.pool().begin().await.unwrap();
    entry.record(&mut second, &1_u64).await.unwrap_err();
}
