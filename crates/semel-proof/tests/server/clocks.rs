//! The wall clock jumps by an hour forth, back, and by ten years (fault 15): nothing expires by it, and
//! schedules neither double nor stall.

use std::time::Duration;

use semel_core::time::Millis;
use semel_proof::disk::skip;
use serde_json::{Value, json};

use crate::kit::arena::Arena;
use crate::kit::faketime::{jump, library, with_clock};
use crate::kit::http::Client;
use crate::kit::pause::{pass, until};
use crate::kit::wire::{logged_at, time};
use crate::kit::witness::wall_clock;

const HOUR_MILLIS: u64 = 3_600_000;

/// A queue whose keys hold half an hour, a job that ended, one with a lease of ten minutes, and two schedules.
struct Scene {
    client: Client,
    ended: Value,
    leased: Value,
    token: String,
}

const QUEUE: &str = r#"{"window": 1800, "retention": {"completed": 1800, "dead": 1800}}"#;

fn prepare(arena: &Arena) -> Scene {
    let mut client = arena.client();
    for queue in ["clock", "hourly", "secondly"] {
        let made = client.ask("PUT", &format!("/v1/queues/{queue}"), QUEUE).unwrap();
        assert!(made.status < 300, "{}", made.text());
    }
    for (name, cron) in [("hourly", "0 * * * *"), ("secondly", "* * * * * *")] {
        let schedule = json!({"queue": name, "cron": cron, "payload": 1}).to_string();
        let made = client.ask("PUT", &format!("/v1/schedules/{name}"), &schedule).unwrap();
        assert!(made.status < 300, "{}", made.text());
    }
    let (ended, token) = publish_and_lease(&mut client, "ended");
    settle(&mut client, &ended, &token, "ack");
    let (leased, token) = publish_and_lease(&mut client, "leased");
    Scene { client, ended, leased, token }
}

fn publish(client: &mut Client, key: &str) -> Value {
    let body = json!({"payload": key, "idempotencyKey": key}).to_string();
    client.post("/v1/queues/clock/jobs", &body).unwrap().json()
}

fn publish_and_lease(client: &mut Client, key: &str) -> (Value, String) {
    let published = publish(client, key);
    let leased = client.post("/v1/queues/clock/lease", r#"{"leaseSeconds": 600, "wait": 5}"#).unwrap().json();
    let job = &leased["jobs"][0];
    assert_eq!(job["id"], published["id"], "{leased}");
    (published["id"].clone(), job["lease"].as_str().unwrap().to_owned())
}

fn settle(client: &mut Client, id: &Value, token: &str, verb: &str) {
    let path = format!("/v1/jobs/{}/{verb}", id.as_str().unwrap());
    let answer = client.post(&path, &json!({ "lease": token }).to_string()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

impl Scene {
    /// Everything is as it was, and work goes on.
    fn assert_unmoved(&mut self, by: &str) {
        let again = publish(&mut self.client, "ended");
        assert_eq!(
            (&again["id"], &again["deduplicated"]),
            (&self.ended, &json!(true)),
            "{by}: a key expired"
        );
        let path = format!("/v1/jobs/{}", self.leased.as_str().unwrap());
        let job = self.client.get(&path).unwrap().json();
        assert_eq!(
            (&job["status"], &job["attempts"]),
            (&json!("processing"), &json!(0)),
            "{by}: a lease ended: {job}"
        );
        let (id, token) = publish_and_lease(&mut self.client, by);
        settle(&mut self.client, &id, &token, "ack");
        let stats = self.client.get("/v1/stats").unwrap().json();
        let now = time(stats["now"].as_str().unwrap());
        let off = now.millis().abs_diff(wall_clock().millis());
        println!("{by}: the store's clock is {off} ms off the true time");
        assert!(off < 5000, "{by}: the store's clock followed the jump");
    }

    /// Jobs that a schedule has published.
    fn ticks(&mut self, schedule: &str) -> u64 {
        let stats = self.client.get("/v1/stats").unwrap().json();
        stats["queues"][schedule]["pending"].as_u64().unwrap()
    }

    /// The schedules have neither ticked for the time that was jumped over, nor stopped.
    fn assert_ticking(&mut self, began: u64) {
        let hourly = self.ticks("hourly");
        let before = self.ticks("secondly");
        let now = wall_clock().millis();
        // The hour may really have struck meanwhile, once.
        let struck = now / HOUR_MILLIS - began / HOUR_MILLIS;
        assert!(hourly <= struck, "{hourly} hours were struck, {struck} have passed");
        // The store's clock may run faster by a tenth to approach the wall clock.
        let passed = (now - began) / 1000 * 11 / 10 + 2;
        println!("{before} seconds were struck, at most {passed} may have passed");
        assert!(before <= passed, "{before} seconds were struck, at most {passed} have passed");
        until("the next second strikes", Duration::from_secs(10), || {
            (self.ticks("secondly") > before).then_some(())
        });
    }
}

#[test]
fn heavy_server_whose_wall_clock_jumps() {
    let library = match library() {
        Ok(library) => library,
        Err(why) => return skip("wall clock that jumps", &why),
    };
    let arena = Arena::new(15);
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("clock");
    jump(&file, "+0");
    let mut command = arena.launch.command();
    with_clock(&mut command, &library, &file);
    let server = arena.launch.start_as(command);
    let began = wall_clock().millis();
    let mut scene = prepare(&arena);
    for by in ["+1h", "-1h", "+10y"] {
        jump(&file, by);
        // Upkeep looks at leases and schedules every second.
        pass(Duration::from_millis(1500));
        scene.assert_unmoved(by);
        scene.assert_ticking(began);
    }
    delays_do_not_stall(&mut scene);
    let (id, token) = (scene.leased.clone(), scene.token.clone());
    settle(&mut scene.client, &id, &token, "ack");
    let ended = server.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    let (first, last) = (ended.log.lines().next(), ended.log.lines().last());
    let jumped =
        last.map(logged_at).expect("a server logs").since(first.map(logged_at).expect("a server logs"));
    assert!(jumped >= Millis::from_days(9 * 365), "the clock of the process did not jump: {}", ended.log);
}

/// A job with a delay still comes when its time has come.
fn delays_do_not_stall(scene: &mut Scene) {
    let body = json!({"payload": 1, "delay": 1}).to_string();
    let published = scene.client.post("/v1/queues/clock/jobs", &body).unwrap().json();
    until("a delayed job comes", Duration::from_secs(10), || {
        let leased = scene.client.post("/v1/queues/clock/lease", r#"{"wait": 1}"#).unwrap().json();
        (leased["jobs"][0]["id"] == published["id"]).then_some(())
    });
}
