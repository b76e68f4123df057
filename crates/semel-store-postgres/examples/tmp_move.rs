#![allow(missing_docs, clippy::unwrap_used)]
use semel_core::lease::LeaseRequest;
use semel_core::outcome::Outcome;
use semel_core::publish::Draft;
use semel_core::settle::{Report, Settle};
use semel_core::*;
use semel_store::*;
use semel_store_embedded::{export::Export, *};
fn main() {
    let n: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = EmbeddedStore::open(dir.path(), semel_store_embedded::Options::default()).unwrap();
    let q = QueueName::try_from("q").unwrap();
    rt.block_on(async {
        store.apply(vec![Command::PutQueue { name: q.clone(), config: Box::default() }]).await.unwrap();
        for c in 0..n / 500 {
            let batch = (0..500)
                .map(|i| {
                    let p =
                        Payload::from_json(format!("{{\"n\":{i},\"x\":\"{}\"}}", "y".repeat(480))).unwrap();
                    Command::Publish(
                        Draft::new(q.clone(), p)
                            .with_key(Key::try_from(format!("key-number-{c}-{i}-abcdefgh")).unwrap())
                            .check()
                            .unwrap(),
                    )
                })
                .collect();
            store.apply(batch).await.unwrap();
        }
        for _ in 0..n / 200 {
            let out = store.lease(LeaseRequest::new(q.clone(), 100, None).unwrap()).await.unwrap();
            let b = out
                .iter()
                .map(|d| {
                    Command::Settle(
                        Settle::new(
                            d.id,
                            Some(d.token),
                            Outcome::Done { result: None, effect: None },
                            Report::default(),
                        )
                        .unwrap(),
                    )
                })
                .collect();
            store.apply(b).await.unwrap();
        }
        store.close().await.unwrap();
    });
    let db = semel_cluster::Shared::get()
        .unwrap()
        .database(&semel_cluster::Template::EMPTY, |_| Ok::<_, StoreError>(()))
        .unwrap();
    let mut last = (std::time::Instant::now(), "", 0u64);
    let mut see = |p: semel_store::Progress| {
        if p.step != last.1 {
            last = (std::time::Instant::now(), p.step, p.done);
            println!("{}", p.step)
        } else if p.done == p.total {
            println!("{} {} jobs/s", p.step, (p.done - last.2) as f64 / last.0.elapsed().as_secs_f64())
        }
    };
    let t = std::time::Instant::now();
    let r = rt
        .block_on(semel_store_postgres::import::import(
            db.url(),
            Box::new(Export::open(dir.path()).unwrap()),
            &mut see,
        ))
        .unwrap()
        .unwrap();
    println!("{}", db.sql("EXPLAIN SELECT j.*, l.*, d.*, t.* FROM semel.job AS j JOIN semel.queue AS q ON q.id = j.queue LEFT JOIN semel.live AS l ON l.id = j.id LEFT JOIN semel.done AS d ON d.id = j.id LEFT JOIN semel.trace AS t ON t.job = j.id WHERE j.id > (SELECT id FROM semel.job ORDER BY id OFFSET 40000 LIMIT 1)  AND j.id <= (SELECT id FROM semel.job ORDER BY id OFFSET 44000 LIMIT 1) ORDER BY j.id").unwrap());
    let a = db.sql("SELECT id FROM semel.job ORDER BY id OFFSET 40000 LIMIT 1").unwrap();
    let b = db.sql("SELECT id FROM semel.job ORDER BY id OFFSET 44000 LIMIT 1").unwrap();
    println!("{}", db.sql(&format!("EXPLAIN ANALYZE SELECT j.*, l.*, d.*, t.* FROM semel.job AS j JOIN semel.queue AS q ON q.id = j.queue LEFT JOIN semel.live AS l ON l.id = j.id LEFT JOIN semel.done AS d ON d.id = j.id LEFT JOIN semel.trace AS t ON t.job = j.id WHERE j.id > {a} AND j.id <= {b} ORDER BY j.id")).unwrap());
    println!("{} jobs, {} differences in {:?}", r.moved, r.differences.total, t.elapsed());
    let t = std::time::Instant::now();
    let mut e = Export::open(dir.path()).unwrap();
    let mut after = JobId::ZERO;
    let mut c = 0;
    loop {
        let p = semel_store::transfer::Source::jobs_after(&mut e, after, 4000, 8 << 20).unwrap();
        if p.is_empty() {
            break;
        }
        after = p.last().unwrap().job.id;
        c += p.len();
    }
    println!("read only: {c} in {:?}", t.elapsed());
}
