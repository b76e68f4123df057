//! A commit whose answer is lost, and one that never arrives: the worker is told that it is unknown, and the next delivery
//! finds out.

use std::time::Duration;

use semel_cluster::{Maria, Proxy, Seen, Side, Trap};
use semel_ledger::mysql::SqlxMySql;
use semel_ledger::store::Store;
use semel_ledger::{Call, Error, Ledger, Verdict};

use super::pool;
use super::transactions::booked;

#[tokio::test]
async fn an_unknown_commit_is_known_to_the_next_delivery() {
    let maria = Maria::start().unwrap();
    maria.sql("CREATE TABLE test.charge (id INT AUTO_INCREMENT PRIMARY KEY, amount INT)").unwrap();
    let proxy = Proxy::to(maria.address()).unwrap();
    let store =
        SqlxMySql::new(pool(&maria.url_through(proxy.address(), "test"), Duration::from_secs(30)).await);
    store.ensure_schema().await.unwrap();
    let ledger = Ledger::builder(store, "billing").cache_bytes(0).build().unwrap();
    let charge = async |call: &Call| ledger.transact(ledger.store().pool(), call, booked).await;

    for (key, arrives, charges) in [("arrives", true, "1"), ("is lost", false, "2")] {
        let call = Call::new(key).unwrap();
        let when = Seen::Bytes(b"COMMIT".to_vec());
        proxy.cut_when(Trap { from: Side::Client, when, deliver: arrives });
        let error = charge(&call).await.unwrap_err();
        assert!(matches!(error, Error::CommitUnknown(_)), "a commit that {key}: {error}");
        let told = settled(async || charge(&call).await).await;
        assert_eq!(told.is_replayed(), arrives, "a commit that {key}: {told:?}");
        assert_eq!(maria.sql("SELECT count(*) FROM test.charge").unwrap(), charges);
    }
}

/// Delivers again for as long as the server is still at the first delivery.
async fn settled(deliver: impl AsyncFn() -> Result<Verdict<u64>, Error<sqlx::Error>>) -> Verdict<u64> {
    loop {
        match deliver().await.unwrap() {
            Verdict::InProgress { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
            verdict => return verdict,
        }
    }
}
